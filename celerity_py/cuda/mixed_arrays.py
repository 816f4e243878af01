# SPDX-License-Identifier: MIT
"""Words for a kernel that mixes arrays of NumPy with the arrays of CuPy that its views have."""

from __future__ import annotations

import inspect
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from celerity_py.scheduler.errors import CelerityError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from celerity_py.vocabulary.submissions import Submission


def explain_mixture(error: BaseException, submission: Submission) -> str:
    """The arrays of NumPy that a kernel on a GPU got, and what to write; empty if the exception is about others.

    Args:
        error: An exception of the kernel. CuPy raises `TypeError: Unsupported type <class 'numpy.ndarray'>`, for
            instance.
        submission: The task.
    """
    if isinstance(error, CelerityError) or "numpy.ndarray" not in str(error):
        return ""
    numbers = [number for number, arg in enumerate(submission.args) if isinstance(arg, np.ndarray)]
    if not numbers:
        return (
            "On a GPU, arrays of views are those of CuPy, which do not mix with arrays of NumPy. Write "
            "chunk.xp.asarray(array) in the kernel, or make a Buffer of the array, and read it."
        )
    names = _names_of(submission.function, numbers)
    told = " and ".join(f"argument {number + 1}, {name!r}," for number, name in zip(numbers, names, strict=True))
    are_mixed = "is an array" if len(numbers) == 1 else "are arrays"
    remedy = " and ".join(f"chunk.xp.asarray({name})" for name in names)
    return (
        f"Here {told} {are_mixed} of NumPy, and the arrays of views are those of CuPy on a GPU, which do not mix with "
        f"them. Write {remedy} in the kernel, or pass a Buffer with .read(access.all())."
    )


def _names_of(function: Callable[..., Any], numbers: Sequence[int]) -> list[str]:
    """The names of arguments behind the chunk, as the function calls them."""
    names: list[str] = []
    try:
        for parameter in islice(inspect.signature(function).parameters.values(), 1, None):
            if parameter.kind is parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}[{place}]" for place in range(max(numbers) + 1 - len(names))]
            names.append(parameter.name)
    except (TypeError, ValueError):  # no function of Python
        names = []
    return [names[number] if number < len(names) else f"args[{number}]" for number in numbers]
