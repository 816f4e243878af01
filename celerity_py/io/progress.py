# SPDX-License-Identifier: MIT
"""How far this rank is with the files that the program has asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from celerity_py.executor.quantities import format_bytes

_Share = TypeVar("_Share")


class WritingProgress:
    """Counts files and bytes. The program asks for files, host tasks write one at a time, and any thread may tell."""

    def __init__(self) -> None:
        self._num_asked = 0
        self._num_written = 0
        self._name = ""
        self._num_bytes = 0, 0

    def ask(self) -> None:
        """The program wants one more file."""
        self._num_asked += 1

    def each_of(self, name: str, shares: Sequence[_Share], sizes: Sequence[int]) -> Iterator[_Share]:
        """The shares of a file, of so many bytes each. A share counts as written when the next one is wanted."""
        done, total = 0, sum(sizes)
        self._num_bytes, self._name = (done, total), name
        for share, num_bytes in zip(shares, sizes, strict=True):
            yield share
            done += num_bytes
            self._num_bytes = done, total
        self._num_written += 1
        self._name = ""

    def tell(self) -> str:
        """As "u.npy, 1 MiB of 4 MiB, and 2 more"; empty if all is written."""
        num_left, name, (done, total) = self._num_asked - self._num_written, self._name, self._num_bytes
        if num_left < 1 or not name:
            return f"{num_left} later" if num_left > 0 else ""
        more = f", and {num_left - 1} more" if num_left > 1 else ""
        return f"{name}, {format_bytes(done)} of {format_bytes(total)}{more}"
