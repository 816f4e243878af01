# SPDX-License-Identifier: MIT
"""Arrays of the user, on the host or on GPUs, that the executor reads or writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from celerity_py import _native
from celerity_py.calls.views import address_of
from celerity_py.cuda.device_arrays import copy_on_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celerity_py._native import Box
    from celerity_py.vocabulary.buffer_records import BufferRecord


@dataclass(frozen=True)
class UserArray:
    """A contiguous array of the user, or a copy of one, with contents of a buffer."""

    array: Any  # of NumPy, or of CuPy on one of this rank's GPUs
    is_borrowed: bool  # it belongs to the user, and may change after the next wait
    device: int = -1  # of this rank; -1: the host
    copy: Any = None  # replaces the borrowed array

    @property
    def address(self) -> int:
        """Where the first element lies."""
        return address_of(self.array) if self.device < 0 else int(self.array.data.ptr)

    def kept(self) -> Any:
        """A copy of the array, of which nothing is under way."""
        return self.array.copy() if self.device < 0 else copy_on_device(self.array)


class UserMemory:
    """The arrays that the executor knows, by the raw ids of their allocations. One thread at a time, except `let_go`.

    Args:
        executor: The native one; None in a dry run, where nothing is read or written.
    """

    def __init__(self, executor: _native.Executor | None) -> None:
        self._executor = executor
        self._lent: dict[int, UserArray] = {}

    def lend(self, given: UserArray, box: Box) -> int:
        """Let the executor read an array over a box of a buffer until `let_go`; returns the number of the array."""
        if self._executor is None:
            return 1
        raw = int(self._executor.register_user_memory(given.address, box.flat()))
        self._lent[raw] = given
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
            if loan.is_borrowed:
                # After an interrupt this call is repeated, with the same copy: the executor may read it already.
                copy = loan.kept() if loan.copy is None else loan.copy
                self._lent[raw] = replace(loan, copy=copy)
                kept = UserArray(copy, False, loan.device)
                executor.replace_user_memory(raw, kept.address)
                self._lent[raw] = kept

    def withdraw(self, raw: int) -> None:
        """Take back the array of a fence."""
        if raw and self._executor is not None:
            self._executor.unregister_user_memory(raw)

    def clear(self) -> None:
        """At the end of the run, let go of everything."""
        self._lent.clear()


def describe_buffer(
    record: BufferRecord,
    parts: Sequence[tuple[Box, UserArray]],
    held_by_ranks: Sequence[Sequence[Box]],
    memory: UserMemory,
) -> _native.BufferInfo:
    """The description of a new buffer for the planner. Lends the arrays of `parts`; see `Runtime.create_buffer`."""
    initial = "none" if record.initializer is None else "function"
    if parts or held_by_ranks:
        initial = "local" if held_by_ranks else "array"
    return _native.BufferInfo(
        shape=record.shape,
        element_size=record.dtype.itemsize,
        alignment=record.dtype.alignment,
        initial=initial,
        arrays=[(box, memory.lend(given, box), given.device) for box, given in parts],
        held_by_ranks=held_by_ranks,
        name=record.name,
        type_name=record.type_name,
    )
