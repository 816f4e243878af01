# SPDX-License-Identifier: MIT
"""Digests of code and, with CHECK, of values, by which the ranks compare their tasks and buffers."""

from __future__ import annotations

import functools
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from celerity_py.comparison.value_digests import digest_of
from celerity_py.kernels import CudaKernel, Kernel
from celerity_py.vocabulary.accesses import Port
from celerity_py.vocabulary.foreign_arrays import to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py.vocabulary.submissions import Submission

#: (digest of the code, digest of plain arguments)
Origin = tuple[int, int]

_UNKNOWN: Origin = (0, 0)
_MOST_CODES = 4096  # whose digests are kept; a program may compile code again and again


class Origins:
    """Makes the origins of one runtime. Application thread.

    Args:
        is_compared: Whether there are other ranks to compare with.
        checks: The `CallChecks`; None without CHECK. With them, plain arguments and contents are compared as well.
    """

    def __init__(self, *, is_compared: bool, checks: Any) -> None:
        self._is_compared = is_compared
        self._with_values = is_compared and checks is not None
        self.checks = checks

    def of(self, submission: Submission) -> Origin:
        """The origin of a task that is being submitted."""
        if self.checks is not None:
            self.checks.outer_variables.note(submission)
        if not self._is_compared:
            return _UNKNOWN
        values = 0
        if self._with_values:  # the scheduler compares the accesses
            values = digest_of([arg for arg in submission.args if arg.__class__ is not Port])
        return digest_of_function(submission.function), values

    def of_contents(self, contents: Any, initializer: Callable[..., Any] | None) -> int:
        """The digest of a buffer's initial contents: from an array, also one on a GPU, or by a function, or None."""
        if initializer is not None and self._is_compared:
            return digest_of_function(initializer)
        if not self._with_values or contents is None:
            return 0
        return digest_of(to_numpy(contents, "The digest takes"))


def digest_of_function(function: Any) -> int:
    """A digest of the code of a function; 0 for None and for objects with a `__call__`."""
    if isinstance(function, Kernel):
        return digest_of([digest_of_function(function.cpu), digest_of_function(function.cuda)])
    if isinstance(function, CudaKernel):
        geometry = function.block, function.grid, function.items, function.shared_bytes
        return digest_of([function.name, function.source, *geometry])
    if isinstance(function, functools.partial):
        return digest_of_function(function.func)
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        return 0
    code = function.__code__
    known = _digests.get(id(code))
    if known is None:
        if len(_digests) >= _MOST_CODES:
            _digests.clear()
        known = _digests[id(code)] = code, digest_of([function.__module__, *_parts_of(code)])
    return known[1]


_digests: dict[int, tuple[CodeType, int]] = {}  # by id, as the hash of code is slow; holds the code, so that ids stay


def _parts_of(code: CodeType) -> list[Any]:
    """The parts of code that are the same on any machine: no file name, and no set in the order of one process."""
    parts: list[Any] = [code.co_qualname, code.co_code, code.co_names, code.co_varnames]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            parts += _parts_of(constant)
        elif constant is None or isinstance(constant, bool | int | float | complex | str | bytes | tuple):
            parts.append(constant)
    return parts
