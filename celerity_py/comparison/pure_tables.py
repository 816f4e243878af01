# SPDX-License-Identifier: MIT
"""Results of `access.pure` and `access.gather`, kept between submits."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from celerity_py._native import Region
from celerity_py.vocabulary.gathered_rows import GatheredRows

if TYPE_CHECKING:
    from celerity_py._native import Box, RangeMapper

#: Divisions of an index space with shapes of a buffer, for which one gather mapper has tables.
_MOST_CASES: Final = 16
_BYTES_OF_BOX: Final = 64
_BYTES_OF_ENTRY: Final = 512

_Kept: TypeAlias = "dict[Hashable, tuple[RangeMapper, int]]"


class PureTables:
    """The tables of one runtime.

    Nothing can ask for the table of a gather mapper that the program has dropped, so the table goes with the mapper. A
    loop makes other pure mappers anew for each submit, and the buffers that they map as well. So these tables stay,
    until there are more than `limit_bytes`: those that were not used for the longest time go first.

    Args:
        limit_bytes: Of the tables and their keys, except those of gather mappers.
    """

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self._of_rows: WeakKeyDictionary[GatheredRows, dict[Hashable, RangeMapper]] = WeakKeyDictionary()
        # Two generations: a table that is used moves to the younger one. Threads that submit at the same time may lose
        # a table by that, and make it again.
        self._young: _Kept = {}
        self._old: _Kept = {}
        self._young_bytes = 0
        self._most_young_bytes = limit_bytes // 2

    def find(self, identity: Hashable, case: Hashable) -> RangeMapper | None:
        """The table of a mapper, if it is kept.

        Args:
            identity: See `PureMapper.identity`.
            case: All else that the results depend on.
        """
        if identity.__class__ is GatheredRows:
            tables = self._of_rows.get(identity)
            return None if tables is None else tables.get(case)
        key = identity, case
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is None:
                return None
            self._add(key, found)
        return found[0]

    def keep(
        self, identity: Hashable, case: Hashable, table: RangeMapper, results: Sequence[tuple[Box, Box | Region]]
    ) -> None:
        """Keep a table, which was made of these results."""
        if isinstance(identity, GatheredRows):
            tables = self._of_rows.setdefault(identity, {})
            if len(tables) >= _MOST_CASES:
                tables.clear()
            tables[case] = table
            return
        num_boxes = sum(len(part.boxes) if isinstance(part, Region) else 1 for _, part in results)
        num_bytes = _BYTES_OF_ENTRY + (num_boxes + len(results)) * _BYTES_OF_BOX + _size_of(identity)
        self._add((identity, case), (table, num_bytes))

    def clear(self) -> None:
        """Forget all."""
        self._of_rows.clear()
        self._young, self._old, self._young_bytes = {}, {}, 0

    def __len__(self) -> int:
        """The number of tables."""
        return sum(map(len, self._of_rows.values())) + len(self._young) + len(self._old)

    def _add(self, key: Hashable, entry: tuple[RangeMapper, int]) -> None:
        if self._young_bytes + entry[1] > self._most_young_bytes:
            self._young, self._old, self._young_bytes = {}, self._young, 0
        self._young[key] = entry
        self._young_bytes += entry[1]


def _size_of(value: Any) -> int:
    """The bytes of a value, with the items of tuples."""
    size = sys.getsizeof(value)
    if isinstance(value, tuple):
        size += sum(map(_size_of, value))
    return size
