# SPDX-License-Identifier: MIT
"""Writes a plan as C++: one text for CUDA and for the host, on the helpers of `fused_tiles.cuh`.

A launch gives addresses, strides, numbers and scalars in a `launch_of`. Positions and extents are such numbers, so that
the chunks of a task share a text. Chunks with equal texts have the same structure: the text is the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from celerity_py.fusion.folds import MAX_PARTS
from celerity_py.fusion.interiors import interior_of
from celerity_py.fusion.item_emission import ItemsText, identity_text, struct_of_folds, type_name
from celerity_py.fusion.launches import MAX_GRID, Launch, PassLaunch, Shape, WideMemory
from celerity_py.fusion.lowering import lower
from celerity_py.fusion.row_emission import RowsText
from celerity_py.fusion.tiling import Tile, Windows, choose_tile, single_tile

if TYPE_CHECKING:
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.planning import Pass, Plan

_GRID_AXES: Final = "xyz"
#: Of the items of a pass. What lies around the interior is computed item by item.
_LEAST_INTERIOR: Final = 0.5
#: That combine the results of blocks.
_LAST_THREADS: Final = 256


def emit(
    plan: Plan,
    memories: Sequence[Memory],
    name: str,
    *,
    fixes_distances: bool = True,
    choose: Callable[[Pass, Windows], Tile] = choose_tile,
) -> tuple[str, Launch, tuple[PassLaunch, ...]]:
    """The text of a plan: functions `name_0`, `name_1`, ..., one or two per pass, to be launched in this order.

    A pass with folds has a second function, which combines the results of blocks, and carries out a single item behind.

    Args:
        plan: The passes.
        memories: Those of the accesses, in the order in which a launch gives them; scratch comes behind them.
        name: An identifier.
        fixes_distances: Whether the distances of stencils are part of the text.
        choose: How many items of a pass a thread has.
    """
    launch = Launch([*memories, *plan.scratch])
    written: list[_PassText | _LastText | RowsText] = []
    passes = list(plan.passes)
    while passes:
        one = passes.pop(0)
        if one.num_kept:
            written.append(RowsText(one, launch, name, fixes_distances))
            continue
        written.append(_PassText(one, launch, name, fixes_distances, choose))
        if one.folds:
            tail = passes.pop(0) if passes and passes[0].is_single else None
            following = None if tail is None else _PassText(tail, launch, name, fixes_distances, choose)
            written.append(_LastText(one, following, launch, name))
    texts = [each.text(f"{name}_{place}") for place, each in enumerate(written)]
    given = f"using {name}_launch = launch_of<{', '.join(map(str, launch.counts()))}>;"
    return "\n".join([given, *texts]), launch, tuple(each.pass_launch() for each in written)


class _PassText:
    """Writes one pass: what its items do, and the function that visits all tiles.

    The items of the interior, if there is one, have a text of their own, without conditions. Only these load and store
    vectors then.
    """

    def __init__(
        self,
        one: Pass,
        launch: Launch,
        kernel: str,
        fixes_distances: bool,
        choose: Callable[[Pass, Windows], Tile],
    ) -> None:
        self._pass = one
        self._launch = launch
        self._kernel = kernel
        self._num_divided = one.num_divided
        body = lower(one)
        self._items = self._most = ItemsText(one, body, launch, kernel, fixes_distances)
        self._interior = None
        if self._items.has_conditions():
            self._interior = interior_of(body, one.box, one.num_divided, _LEAST_INTERIOR)
        if self._interior is not None:
            self._most = ItemsText(one, self._interior.body, launch, kernel, fixes_distances)
        self._windows = self._most.windows
        tile = choose(one, self._windows)
        has_windows = bool(self._windows.all or self._windows.stored)
        self._tile = tile if has_windows else tile._replace(columns=1)
        self._single = single_tile(self._tile, one.num_divided) if self._is_wide() else None
        self._bounds = self._wide_bounds = 0
        self._ends: list[list[str]] = []
        self._inner_ends: list[list[str]] = []

    def text(self, name: str) -> str:
        """Structs for the items, and the kernels."""
        folds, structs = f"{name}_folds" if self._pass.folds else "", []
        if folds:
            structs.append(struct_of_folds(name, self._pass.folds))
        structs.append(self._items.text(f"{name}_items", folds))
        if self._interior is not None:
            structs.append(self._most.text(f"{name}_inner", folds))
        self._bounds = len(self._launch.numbers)
        self._ends = [self._numbers(*interval) for interval in self._pass.box]
        self._inner_ends = [] if self._interior is None else [self._numbers(*one) for one in self._interior.box]
        kernels = [self._kernel_text(name, name, self._tile, self._columns())]
        if self._single is not None:
            columns = self._call("columns_of", self._ends[self._num_divided - 1])
            kernels.append(self._kernel_text(f"{name}_single", name, self._single, columns))
        return "".join((*structs, *kernels))

    def single_text(self, name: str) -> tuple[str, str]:
        """The struct of a pass with a single item, and the call that carries it out."""
        lows = ", ".join(f"static_cast<coordinate>({self._launch.number(low)})" for low, _ in self._pass.box)
        call = f"visit_rows<1, 1, false>(1, {name}_items{{l, {lows}}});"
        return self._items.text(f"{name}_items"), call

    def pass_launch(self) -> PassLaunch:
        """How the text is launched."""
        launch, tile = self._launch, self._tile
        dims = min(self._num_divided, len(_GRID_AXES))
        windows, places = self._windows, {}
        if self._is_wide():
            for memory in [*(one.memory for one in windows.all), *(one.memory for one in windows.stored)]:
                place = launch.memories.index(memory)
                places[place] = WideMemory(place, launch.first_stride(memory), memory.ndim, memory.dtype.itemsize)
        margins = [window.margins(tile.columns) for window in windows.all] or [(0, 0)]
        return PassLaunch(
            self._bounds + 2 * (self._num_divided - dims),
            dims,
            tile.shape(dims),
            tuple(places.values()),
            (max(before for before, _ in margins), max(behind for _, behind in margins)),
            self._wide_bounds if self._is_wide() else None,
            None if self._single is None else self._single.shape(dims),
            MAX_PARTS if self._pass.folds else 0,
        )

    def _is_wide(self) -> bool:
        return self._tile.columns > 1

    def _numbers(self, *values: int) -> list[str]:
        return [self._launch.number(value) for value in values]

    def _kernel_text(self, kernel: str, name: str, tile: Tile, columns: str) -> str:
        last, folds = self._num_divided - 1, self._pass.folds
        lines = [f"const columns x = {columns};", "if(!x.are_any) { return; }"]
        if folds:
            nothing = ", ".join(identity_text(fold) for fold in folds)
            lines = [f"{name}_folds folds{{{nothing}}};", f"CELERITY_BLOCKS({self._ends[last][1]}, {columns}) {{"]
        loops = [self._rows(dim, tile) for dim in range(len(self._pass.box)) if dim != last]
        lines += [f"{'  ' * depth}{loop}" for depth, loop in enumerate(loops)]
        lines += [f"{'  ' * len(loops)}{line}" for line in self._visits(name, tile)]
        lines += ["}"] if folds else []
        for fold, place in folds.items():
            memory, dtype = self._launch.memories.index(fold.memory), type_name(fold.value.dtype)
            given = f"folds.f{place}, {dtype}{{{identity_text(fold)}}}, l.memories[{memory}]"
            lines.append(f"store_part<join_{fold.operation}, {MAX_PARTS}, {dtype}>({given});")
        body = "\n".join(f"  {line}" for line in lines)
        return f"CELERITY_KERNEL void {kernel}(const {self._kernel}_launch l) {{\n{body}\n}}\n"

    def _rows(self, dim: int, tile: Tile) -> str:
        """A thread has a tile of a dimension, several tiles that lie a whole grid apart, or all items."""
        axis, step = self._num_divided - 1 - dim, tile.rows if dim == self._num_divided - 2 else 1
        ends = ", ".join(self._ends[dim])
        if not 0 < axis < len(_GRID_AXES):
            return f"CELERITY_SERIAL({dim}, {ends})"
        first, end = self._pass.box[dim]
        items = step * (1, *tile.block)[-1 - axis]
        is_covered = end - first <= MAX_GRID * items and not self._pass.folds
        kind = "CELERITY_TILE" if is_covered else "CELERITY_TILES"
        return f"{kind}({_GRID_AXES[axis]}, {dim}, {ends}, {step})"

    def _columns(self) -> str:
        """The columns of a thread. Behind the numbers of vectors, which the launch sets, come the limits of these."""
        last = self._num_divided - 1
        ends = self._ends[last]
        if not self._is_wide():
            return self._call("columns_of", ends)
        interval = self._pass.box[last]
        limits = interval if self._interior is None else self._interior.box[last]
        self._wide_bounds = len(self._launch.numbers)
        numbers = self._numbers(*[interval[0]] * 3, *limits)
        return self._call(f"columns_of<{self._tile.columns}>", (*ends, *numbers[:3]))

    def _call(self, function: str, arguments: Sequence[str]) -> str:
        """With folds, threads go on behind the grid, at the block of columns `at`."""
        return f"{function}({', '.join((*arguments, *(['at'] if self._pass.folds else [])))})"

    def _visits(self, name: str, tile: Tile) -> list[str]:
        """The items of a thread: a tile of the interior or without conditions, or one item after the other."""
        last, is_wide = self._num_divided - 1, tile.columns > 1
        column = "column" if is_wide else "x.begin"
        if self._interior is None:
            lines = [f"if(x.are_wide) {{ {self._visit(name, tile, 'x.begin')} }}"] if is_wide else []
            others = self._visit(name, tile._replace(columns=1), column)
        else:
            within = [
                f"within(c{dim}, {tile.rows if dim == last - 1 else 1}, {', '.join(self._inner_ends[dim])})"
                for dim in range(last)
            ]
            columns = "x.are_wide" if is_wide else f"within(x.begin, 1, {', '.join(self._inner_ends[last])})"
            inner = self._visit(name, tile, "x.begin", "inner")
            lines = [f"if({' && '.join((*within, columns))}) {{ {inner} }}"]
            others = self._visit_rows_one_by_one(name, tile, column)
        if is_wide:
            others = f"CELERITY_EACH_COLUMN(x) {{ {others} }}"
        return ["{", *(f"  {line}" for line in (*lines, f"else {{ {others} }}" if lines else others)), "}"]

    def _visit(self, name: str, tile: Tile, column: str, struct: str = "items", row: str = "") -> str:
        """The call for a tile. Those of the interior are whole."""
        last = self._num_divided - 1
        names = {last: column, **({last - 1: row} if row else {})}
        coordinates = ", ".join(names.get(dim, f"c{dim}") for dim in range(len(self._pass.box)))
        items = f"{name}_{struct}{{l,{' folds,' if self._pass.folds else ''} {coordinates}}}"
        rows = tile.rows if last else 1
        kind = f"{rows}, {tile.columns}, {'true' if tile.columns > 1 else 'false'}"
        if struct == "inner":
            return f"{items}(tile_of<{kind}, true>{{{rows}}});"
        return f"visit_rows<{kind}>({f'end{last - 1} - c{last - 1}' if last else '1'}, {items});"

    def _visit_rows_one_by_one(self, name: str, tile: Tile, column: str) -> str:
        """Few items lie at the border, and their text is long."""
        last, single = self._num_divided - 1, Tile()
        if tile.rows == 1 or last == 0:
            return self._visit(name, single, column)
        return f"CELERITY_EACH_ROW({last - 1}, {tile.rows}) {{ {self._visit(name, single, column, row='row')} }}"


class _LastText:
    """Writes what follows a pass with folds, for one block: the results of blocks become one, which an item may use."""

    def __init__(self, one: Pass, tail: _PassText | None, launch: Launch, kernel: str) -> None:
        self._folds = one.folds
        self._tail = tail
        self._launch = launch
        self._kernel = kernel
        self._bounds = 0

    def text(self, name: str) -> str:
        """The kernel, behind a struct for the item."""
        self._bounds = len(self._launch.numbers)
        for end in (0, 1):
            self._launch.number(end)
        lines = ["if(number_in_grid() != 0) { return; }"]
        for fold in self._folds:
            memory, kind = self._launch.memories.index(fold.memory), type_name(fold.value.dtype)
            lines.append(f"join_parts<join_{fold.operation}, {kind}, {MAX_PARTS}>(l.memories[{memory}]);")
        struct = ""
        if self._tail is not None:
            struct, call = self._tail.single_text(name)
            lines.append(f"if(is_first()) {{ {call} }}")
        body = "\n".join(f"  {line}" for line in lines)
        return f"{struct}CELERITY_KERNEL void {name}(const {self._kernel}_launch l) {{\n{body}\n}}\n"

    def pass_launch(self) -> PassLaunch:
        """How the text is launched."""
        return PassLaunch(self._bounds, 1, Shape((_LAST_THREADS,), (1,)))
