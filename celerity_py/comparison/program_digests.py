# SPDX-License-Identifier: MIT
"""Digests of code and of values, by which the ranks compare their tasks and buffers."""

from __future__ import annotations

import functools
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from celerity_py.comparison.value_digests import digest_of, sampled_digest_of
from celerity_py.kernels import CudaKernel, Kernel
from celerity_py.vocabulary.accesses import Port
from celerity_py.vocabulary.foreign_arrays import is_foreign, lies_on_gpu, to_numpy

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
        checks: The `CallChecks`; None without CHECK. With them, all plain arguments and contents are compared. Without,
            a part of the contents is, and native code adds a digest of the plain arguments of kernels.
    """

    def __init__(self, *, is_compared: bool, checks: Any) -> None:
        self._is_compared = is_compared
        self._with_values = is_compared and checks is not None

    def of(self, submission: Submission) -> Origin:
        """The origin of a task that is being submitted."""
        if not self._is_compared:
            return _UNKNOWN
        values = self.of_all_values(submission.args) if self._with_values else 0
        return digest_of_function(submission.function), values

    @staticmethod
    def of_all_values(args: list[Any]) -> int:
        """The digest of all plain arguments. The scheduler compares the accesses."""
        return digest_of([arg for arg in args if arg.__class__ is not Port])

    def of_changed_values(self, submission: Submission, native: Callable[[list[Any]], int]) -> int:
        """The digest of a task of a recording whose plain arguments have other values. `native`: that of kernels."""
        if self._with_values:
            return self.of_all_values(submission.args)
        return native(submission.args) if self._is_compared and submission.kind == "kernel" else 0

    def of_contents(self, contents: Any, initializer: Callable[..., Any] | None) -> int:
        """The digest of a buffer's initial contents: from an array, also one on a GPU, or by a function, or None."""
        if initializer is not None and self._is_compared:
            return digest_of_function(initializer)
        if not self._is_compared or contents is None:
            return 0
        if self._with_values:
            return digest_of(to_numpy(contents, "The digest takes"))
        if is_foreign(contents.__class__) and lies_on_gpu(contents):  # its elements would have to be copied
            return 0
        return sampled_digest_of(to_numpy(contents, "The digest takes"))


def digest_of_function(function: Any) -> int:
    """A digest of the code of a function; 0 for None and for objects with a `__call__`."""
    if function.__class__ is MethodType:
        function = function.__func__
    if function.__class__ is FunctionType:  # first, as each submit of a function passes here
        code = function.__code__
        known = _digests.get(id(code))
        if known is None:
            if len(_digests) >= _MOST_CODES:
                _digests.clear()
            known = _digests[id(code)] = code, digest_of([function.__module__, *_parts_of(code)])
        return known[1]
    if isinstance(function, Kernel):
        return digest_of([digest_of_function(function.cpu), digest_of_function(function.cuda)])
    if isinstance(function, CudaKernel):
        geometry = function.block, function.grid, function.items, function.shared_bytes
        return digest_of([function.name, function.source, *geometry])
    return digest_of_function(function.func) if isinstance(function, functools.partial) else 0


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
