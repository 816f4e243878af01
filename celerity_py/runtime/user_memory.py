# SPDX-License-Identifier: MIT
"""Arrays in the user's memory that the executor reads or writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celerity_py import _native
from celerity_py.calls.views import address_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class _Loan:
    array: NDArray[Any]
    borrowed: bool  # it belongs to the user, and may change after the next wait
    copy: NDArray[Any] | None = None  # replaces the borrowed array


class UserMemory:
    """The arrays that the executor knows, by the raw ids of their allocations. One thread at a time, except `let_go`.

    Args:
        executor: The native one; None in a dry run, where nothing is read or written.
    """

    def __init__(self, executor: _native.Executor | None) -> None:
        self._executor = executor
        self._lent: dict[int, _Loan] = {}

    def lend(self, array: NDArray[Any], *, borrowed: bool) -> int:
        """Let the executor read an array until `let_go`; returns its raw id."""
        if self._executor is None:
            return 1
        allocated_box = (0, 0, 0, *array.shape, *(1,) * (3 - array.ndim))
        raw = int(self._executor.register_user_memory(address_of(array), allocated_box))
        self._lent[raw] = _Loan(array, borrowed)
        return raw

    def let_go(self, raw: int) -> None:
        """The executor does not need an array any more. Any thread."""
        self._lent.pop(raw, None)

    def return_borrowed(self) -> None:
        """When nothing is in flight: copy the data that still lies in borrowed arrays into arrays of our own."""
        executor = self._executor
        if executor is None:
            return
        for raw, loan in list(self._lent.items()):
            if loan.borrowed:
                # After an interrupt this call is repeated, with the same copy: the executor may read it already.
                copy = loan.array.copy() if loan.copy is None else loan.copy
                self._lent[raw] = _Loan(loan.array, borrowed=True, copy=copy)
                executor.replace_user_memory(raw, address_of(copy))
                self._lent[raw] = _Loan(copy, borrowed=False)

    def withdraw(self, raw: int) -> None:
        """Take back the array of a fence."""
        if raw and self._executor is not None:
            self._executor.unregister_user_memory(raw)

    def clear(self) -> None:
        """At the end of the run, let go of everything."""
        self._lent.clear()
