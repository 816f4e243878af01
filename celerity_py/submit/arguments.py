# SPDX-License-Identifier: MIT
"""Checks of the arguments of a submit, cached so that a second submit of the same kernel costs next to nothing."""

from __future__ import annotations

import difflib
import inspect
import numbers
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from celerity_py._native import MAX_QUEUE_PRIORITY, Box
from celerity_py.buffer import check_alive
from celerity_py.kernels import CudaKernel, Kernel, name_of, refuse_backend
from celerity_py.reductions.combinations import VALUE
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.reductions.reduction import Reduction
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.submit.plain_values import accepted, settle
from celerity_py.vocabulary.accesses import Access, CustomAccess
from celerity_py.vocabulary.index_spaces import box_of
from celerity_py.vocabulary.integers import to_int
from celerity_py.vocabulary.parameters import Parameter
from celerity_py.vocabulary.side_effects import SideEffect
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.static_types import PlainValue

#: The arguments of a task. Type checkers find a bare buffer, a future and a host object among the arguments.
Argument: TypeAlias = "Access | Reduction | PlainValue | None"
_MAX_CACHED = 4096

#: id of a code object -> (the code object, a number of arguments that it takes, as a function or as a method)
arities: dict[int, tuple[CodeType, int, type]] = {}


def check_priority(given: Any) -> int:
    """The priority of a queue.

    Raises:
        ArgumentTypeError: If it is no integer.
        UsageError: If it is out of range.
    """
    try:
        priority = to_int(given)
    except TypeError:
        raise ArgumentTypeError(f"Queue(priority=...) takes an integer, not {given!r}.") from None
    if not 0 <= priority <= MAX_QUEUE_PRIORITY:
        raise UsageError(
            f"Queue(priority={priority}) is out of range: priorities are 0, the default, to {MAX_QUEUE_PRIORITY}, the "
            f"most urgent. To put a queue behind the others, give the others a higher priority."
        )
    return priority


def check_share(given: Any, priority: int) -> float | None:
    """The share of the multiprocessors that a queue asks for; None if it asks for none.

    Raises:
        ArgumentTypeError: If it is no number.
        UsageError: If it is out of range, or if the queue has no priority.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise ArgumentTypeError(
            f"Queue(multiprocessors=...) takes a number between 0 and 1, the share of the multiprocessors of each GPU, "
            f"not {given!r}."
        )
    share = float(given)
    if not 0 < share < 1:
        raise UsageError(
            f"Queue(multiprocessors={given}) is out of range: it is the share of the multiprocessors of each GPU on "
            f"which the kernels of this queue run, above 0 and below 1, as 0.25. Without it, a queue uses what is in "
            f"no share."
        )
    if priority == 0:
        raise UsageError(
            f"Queue(priority=0, multiprocessors={given}) has no streams of its own, which a share needs: give it a "
            f"priority from 1 to {MAX_QUEUE_PRIORITY}, as in Queue(priority=1, multiprocessors={given})."
        )
    return share


def collect(
    args: tuple[Any, ...], runtime: Runtime, who: str, objects: set[int] | None = None
) -> tuple[list[Access], list[tuple[Any, ...]], list[Any], bool]:
    """Sort the arguments of a task. For a host task, `objects` gets the ids of its host objects.

    Returns:
        The accesses, the reductions as the scheduler takes them, the arguments as the submission keeps them, and
        whether some mapper is a callable.
    """
    accesses: list[Access] = []
    reductions: list[tuple[Any, ...]] = []
    kept: list[Any] = []
    is_custom = False
    for arg in args:
        kind = arg.__class__
        if kind is Access or kind is CustomAccess:
            port = arg.port
            if port.runtime is not runtime:
                check_alive(port.record, runtime)
            accesses.append(arg)
            kept.append(port)
            if kind is CustomAccess:
                is_custom = True
        elif kind in accepted:
            kept.append(arg)
        elif kind is Reduction:
            check_alive(arg.port.record, runtime)
            reductions.append(arg.native)
            kept.append(arg.port.fresh())
        elif kind is SideEffect and objects is not None:
            check_alive(arg.host_object, runtime)
            objects.add(arg.host_object.id)
            kept.append(arg)
        elif kind is Parameter:
            kept.append(arg.hand_on(kept))
        else:
            kept.append(settle(arg, who))
    return accesses, reductions, kept, is_custom


def check_name(name: object) -> None:
    """Refuse values that are no name of a task."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"The name of a task is a string, not {name!r}.")


def refuse_names(call: str, given: Mapping[str, object], *known: str) -> NoReturn:
    """Refuse arguments of a task that were given by name.

    Args:
        call: The call as far as its own arguments, without the closing parenthesis.
        given: Name -> value.
        known: The names that the call takes.

    Raises:
        ArgumentTypeError: Always.
    """
    shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
    close = [f"{name}=" for name in given for name in difflib.get_close_matches(name, known, n=1)]
    meant = f" Did you mean {close[0]}?" if close else ""
    raise ArgumentTypeError(
        f"{call}, ...) got {shown}.{meant} The names that it takes are {', '.join(known)}. Arguments of the task "
        f"go by position: write {call}, {', '.join(given)}), in the order of the function's parameters."
    )


def refuse_host_combinations(submission: Submission) -> None:
    """Refuse reductions of a kernel in CUDA C++ whose operation works on arrays of NumPy.

    Raises:
        UsageError: If there is one.
    """
    for port in submission.args:
        if port.__class__ is not ReductionPort or port.combination is None:
            continue
        known = port.combination
        if known.is_placed and port.record.dtype[VALUE] != np.float16:
            continue
        what = f"{known.name!r} of {port.record.dtype}" if known.is_named else f"the callable {known.name}"
        remedy = " Or reduce float32, and convert the result." if port.record.dtype == np.float16 else ""
        raise UsageError(
            f"{submission.describe()} is in CUDA C++ and reduces into {port.record.label} by {what}, which works on "
            f"arrays of the host. Reduce in a kernel in Python, with CuPy: out.combine(...).{remedy} Nothing was "
            f"submitted."
        )


def check_launch(shape: Any, kernel: Any, function: Any, num_args: int, label: str, *, is_native: bool) -> Box:
    """The index space of a kernel, after checks of both.

    Raises:
        UsageError: If one of them can be none.
    """
    if callable(shape) or isinstance(shape, CudaKernel):
        name = name_of(shape)
        raise ArgumentTypeError(
            f"parallel_for() takes the index space first and then the kernel: write parallel_for(shape, {name}, ...), "
            f"not parallel_for({name}, {kernel!r}, ...)."
        )
    box = box_of(shape, f'kernel "{label}"')
    if not is_native:  # a CudaKernel on a GPU is checked against the types of its arguments
        check_kernel(kernel, function, num_args, label)
    return box


def check_kernel(kernel: Any, function: Any, num_args: int, label: str, kind: str = "kernel") -> None:
    """Refuse functions that cannot be called with a chunk and this number of arguments."""
    if isinstance(kernel, CudaKernel) or (isinstance(kernel, Kernel) and function is None):
        if kind != "kernel":
            raise ArgumentTypeError(f"A {kind} is a Python function, not {kernel!r}.")
        refuse_backend(kernel)
    if not callable(function):
        raise ArgumentTypeError(f"A {kind} is a callable or made by celerity.kernel, not {function!r}.")
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    if kernel is not function and isinstance(function, FunctionType) and code.co_varnames[:1] == ("self",):
        decorator = f"celerity.{'kernel' if isinstance(kernel, Kernel) else 'fuse'}"
        raise ArgumentTypeError(
            f'{kind} "{label}" is a method under the decorator {decorator}, which binds it to no object: `self` would '
            f"be the chunk. Leave the decorator out, write `self.kernel = {decorator}(self.{function.__name__})` in "
            f"__init__, and submit self.kernel."
        )
    known = arities.get(id(code))
    if known is not None and known[1:] == (num_args, function.__class__):
        return
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise ArgumentTypeError(
            f'{kind} "{label}" is a generator or coroutine, whose body would never run. Use a plain function.'
        )
    signature = inspect.signature(function)
    first = "chunk" if kind == "kernel" else "part"
    try:
        signature.bind(None, *[None] * num_args)
    except TypeError as error:
        raise ArgumentTypeError(
            f'{kind} "{label}" is called with a {first} and {num_args} argument(s), which does not fit its signature '
            f"{label}{signature}: {error}."
        ) from None
    if len(arities) >= _MAX_CACHED:
        arities.clear()
    arities[id(code)] = (code, num_args, function.__class__)
