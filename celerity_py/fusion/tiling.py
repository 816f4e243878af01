# SPDX-License-Identifier: MIT
"""How many items a thread has, and what it loads for all of them at once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from celerity_py.fusion.coordinates import NO_AXIS, Affine
from celerity_py.fusion.launches import VECTOR_BYTES, Shape
from celerity_py.fusion.lowering import Place
from celerity_py.fusion.memories import overlap

if TYPE_CHECKING:
    from celerity_py.fusion.coordinates import Positions
    from celerity_py.fusion.lowering import Body
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.nodes import Statement
    from celerity_py.fusion.ordering import Step
    from celerity_py.fusion.planning import Pass

#: Distances between what an item loads and where it stores that are part of the text: those of stencils. The compiler
#: then sees which loads neighbouring items share. Longer ones are numbers of the launch.
MAX_FIXED_DISTANCE: Final = 8
_MIN_COLUMNS: Final = 2
_MAX_COLUMNS: Final = 4
#: Of a pass that stores nothing but combines elements: so many loads are under way.
_FOLDED_ROWS: Final = 4
#: In one memory. Rows of a tile share them.
_MANY_NEIGHBOURS: Final = 16


class Tile(NamedTuple):
    """The items of a thread, and the threads of a block along rows and columns."""

    rows: int = 1
    columns: int = 1
    block: tuple[int, int] = (4, 64)

    def shape(self, dims: int) -> Shape:
        """Of a grid."""
        return Shape((1, *self.block)[-dims:], (1, self.rows, self.columns)[-dims:])


@dataclass(slots=True)
class Window:
    """Elements of a memory that the items of a tile share: `at(r + row, k + column)` of each item."""

    memory: Memory
    #: Where the tile's first item loads, without the fixed distances along rows and columns.
    where: Positions
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)

    def margins(self, columns: int) -> tuple[int, int]:
        """How far vectors reach beyond the window, to the left and to the right. As `window::load_wide` loads."""
        begin, end = min(self.columns), columns + max(self.columns)
        length = min(columns, max(VECTOR_BYTES // self.memory.dtype.itemsize, 1))
        before = behind = 0
        for start in range(begin - begin % length, end, length):
            used = min(start + length, end) - max(start, begin)
            if used > 1 or length == 1:
                before, behind = max(before, begin - start), max(behind, start + length - end)
        return before, behind


class Use(NamedTuple):
    """Which element of a window an item loads."""

    window: int
    row: int
    column: int


@dataclass(slots=True)
class Windows:
    """What the items of a tile load and store together."""

    all: list[Window] = field(default_factory=list)
    #: By instruction.
    uses: dict[int, Use] = field(default_factory=dict)
    #: Statements whose results are stored together.
    stored: list[Statement] = field(default_factory=list)
    #: Loads of single items, each at columns of its own.
    num_single: int = 0
    num_instructions: int = 0


def is_alike(memory: Memory, dim: int, position: Affine, num_divided: int) -> bool:
    """Whether a dimension of a memory is that of the items, so that distances are those of stencils."""
    if position.axis == NO_AXIS:
        return dim >= memory.num_divided
    return position.step == 1 and position.axis - num_divided == dim - memory.num_divided


def is_fixed(memory: Memory, dim: int, position: Affine, num_divided: int) -> bool:
    """Whether a coordinate is part of the text."""
    return abs(position.offset) <= MAX_FIXED_DISTANCE and is_alike(memory, dim, position, num_divided)


def find_windows(body: Body, steps: Sequence[Step], fixes_distances: bool, are_apart: bool = False) -> Windows:
    """The loads and stores of a pass that the items of a tile do together.

    Args:
        body: The instructions.
        steps: The instructions that items carry out, and the statements that store.
        fixes_distances: Whether the distances of stencils are part of the text.
        are_apart: Whether the items of a tile may be no neighbours, which then share nothing.

    All loads come first, and all stores last. So elements that several statements store are left out.
    """
    storing = [step for step in steps if not isinstance(step, int)]
    computed = [step for step in steps if isinstance(step, int)]
    found = Windows(num_instructions=len(computed))
    if not fixes_distances:
        return found
    num_divided = storing[0].items().num_divided
    in_order = _in_order(storing)
    numbers: dict[Hashable, int] = {}
    for number in computed:
        instruction = body.instructions[number]
        if instruction.operation != "load":
            continue
        assert isinstance(instruction.detail, Place)
        load, where = instruction.detail.load, instruction.detail.where
        split = _split(load.memory, where, num_divided) if number not in body.needs else None
        if split is None or (are_apart and split[2] != 0):
            found.num_single += any(position.axis == num_divided - 1 for position in where)
            continue
        base, row, column = split
        place = numbers.setdefault((load.memory, load.after, base), len(found.all))
        if place == len(found.all):
            found.all.append(Window(load.memory, base))
        found.all[place].rows.append(row)
        found.all[place].columns.append(column)
        found.uses[number] = Use(place, row, column)
    for statement in storing:
        if statement in body.masks or statement in in_order:
            continue
        if _split(statement.memory, statement.items().stored, num_divided) is not None:
            found.stored.append(statement)
    return found


def _in_order(storing: Sequence[Statement]) -> set[Statement]:
    """Statements that store elements which others store too."""
    found: set[Statement] = set()
    by_key: dict[Hashable, list[Statement]] = {}
    for statement in storing:
        by_key.setdefault(statement.memory.key, []).append(statement)
    for alike in by_key.values():
        for one, other in itertools.combinations(alike, 2):
            if overlap(one.items().region(), other.items().region()):
                found |= {one, other}
    return found


def _split(memory: Memory, where: Positions, num_divided: int) -> tuple[Positions, int, int] | None:
    """A place without its distances along rows and columns, and these; None if neighbours do not lie in a row."""
    last = memory.ndim - 1
    if memory.ndim == 0 or memory.ndim != memory.num_divided or any(position.limits for position in where):
        return None
    if not is_fixed(memory, last, where[last], num_divided):
        return None
    base = list(where)
    base[last] = Affine(num_divided - 1, 1, 0)
    if any(position.axis == num_divided - 1 for position in base[:last]):
        return None
    row = 0
    if num_divided > 1:
        if any(position.axis == num_divided - 2 for position in base[: max(last - 1, 0)]):
            return None
        if last == 0 or where[last - 1].axis != num_divided - 2 or where[last - 1].step != 1:
            return None
        if is_fixed(memory, last - 1, where[last - 1], num_divided):
            row = where[last - 1].offset
            base[last - 1] = Affine(num_divided - 2, 1, 0)
    return tuple(base), row, where[last].offset


def single_tile(tile: Tile, num_divided: int) -> Tile:
    """The tile where addresses allow no vectors: single columns, and at least two rows, which share what they load.

    On an H200, in us, a wave in float32 on 4095 x 4095 cells takes 57 with 2 rows and blocks of 256 columns, 67 with
    blocks of 8 x 32, 69 with one row; 66 with 4 columns. On 4096 x 4096 cells it takes 49 with vectors.
    """
    return Tile(max(tile.rows, 2), 1, (1, 256)) if num_divided > 1 else Tile(block=(1, 256))


def choose_tile(one: Pass, windows: Windows) -> Tile:
    """The tile of a pass: 16 bytes of a row, or 4 such rows where an item loads many of its neighbours.

    On an H200, in us, a wave in float32 on 4096 x 4096 cells takes 49 with 4 columns and with 2 rows of 4, 51 with 8
    rows of 4. Gray-Scott takes 68 with 4 columns, 77 with 2. Schrodinger's equation in complex128 takes 216 with 2
    columns, 250 with one. 27 points of 400 x 400 x 400 cells take 441 with one row, 411 with 2, 251 with 4.
    """
    ndim = one.num_divided
    block = (8, 32) if ndim > 1 else (1, 256)
    memories = [window.memory for window in windows.all] + [statement.memory for statement in windows.stored]
    if one.folds and windows.all and not windows.stored and windows.num_single == 0:
        columns = _columns_of(memories)
        return Tile(_FOLDED_ROWS if ndim > 1 and windows.num_instructions < _MANY_NEIGHBOURS else 1, columns, block)
    if not windows.stored or windows.num_single > len(windows.uses) or windows.num_instructions > 400:
        return Tile(block=block)
    columns = _columns_of(memories)
    neighbours = Counter(windows.all[use.window].memory for use in windows.uses.values())
    has_many = max(neighbours.values(), default=0) >= _MANY_NEIGHBOURS
    return Tile(4, columns, (8, 16)) if has_many and ndim > 1 else Tile(1, columns, block)


def _columns_of(memories: Sequence[Memory]) -> int:
    itemsize = max(memory.dtype.itemsize for memory in memories)
    return min(max(VECTOR_BYTES // itemsize, _MIN_COLUMNS), _MAX_COLUMNS)
