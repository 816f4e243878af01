# SPDX-License-Identifier: MIT
"""Writes a plan as C++: one text for CUDA and for the host, on the helpers of `fused_tiles.cuh`.

A launch gives addresses, strides, numbers and scalars in a `launch_of`. Positions and extents are such numbers, so that
the chunks of a task share a text. Chunks with equal texts have the same structure: the text is the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from celerity_py.fusion.interiors import interior_of
from celerity_py.fusion.item_emission import ItemsText
from celerity_py.fusion.launches import MAX_GRID, Launch, PassLaunch, WideMemory
from celerity_py.fusion.lowering import lower
from celerity_py.fusion.tiling import Tile, Windows, choose_tile

if TYPE_CHECKING:
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.planning import Pass, Plan

_GRID_AXES: Final = "xyz"
#: Of the items of a pass. What lies around the interior is computed item by item.
_LEAST_INTERIOR: Final = 0.5


def emit(
    plan: Plan,
    memories: Sequence[Memory],
    name: str,
    *,
    fixes_distances: bool = True,
    choose: Callable[[Pass, Windows], Tile] = choose_tile,
) -> tuple[str, Launch, tuple[PassLaunch, ...]]:
    """The text of a plan: functions `name_0`, `name_1`, ..., one per pass, to be launched in this order.

    Args:
        plan: The passes.
        memories: Those of the accesses, in the order in which a launch gives them; scratch comes behind them.
        name: An identifier.
        fixes_distances: Whether the distances of stencils are part of the text.
        choose: How many items of a pass a thread has.
    """
    launch = Launch([*memories, *plan.scratch])
    written = [_PassText(one, launch, name, fixes_distances, choose) for one in plan.passes]
    texts = [one.text(f"{name}_{place}") for place, one in enumerate(written)]
    given = f"using {name}_launch = launch_of<{', '.join(map(str, launch.counts()))}>;"
    return "\n".join([given, *texts]), launch, tuple(one.pass_launch() for one in written)


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
        self._tile = choose(one, self._windows)
        self._bounds = self._wide_bounds = 0

    def text(self, name: str) -> str:
        """Structs for the items, and the kernel."""
        structs = [self._items.text(f"{name}_items")]
        if self._interior is not None:
            structs.append(self._most.text(f"{name}_inner"))
        return "".join((*structs, self._kernel_text(name)))

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
            (1, *tile.block)[-dims:],
            (1, tile.rows, tile.columns)[-dims:],
            tuple(places.values()),
            (max(before for before, _ in margins), max(behind for _, behind in margins)),
            self._wide_bounds if self._is_wide() else None,
        )

    def _is_wide(self) -> bool:
        return bool(self._windows.all or self._windows.stored) and self._tile.columns > 1

    def _kernel_text(self, name: str) -> str:
        last = self._num_divided - 1
        self._bounds = len(self._launch.numbers)
        ends = [tuple(map(self._launch.number, interval)) for interval in self._pass.box]
        lines = [f"const columns x = {self._columns(*ends[last])};", "if(!x.are_any) { return; }"]
        loops = [self._rows(dim, *bounds) for dim, bounds in enumerate(ends) if dim != last]
        lines += [f"{'  ' * depth}{loop}" for depth, loop in enumerate(loops)]
        lines += [f"{'  ' * len(loops)}{line}" for line in self._visits(name)]
        body = "\n".join(f"  {line}" for line in lines)
        return f"CELERITY_KERNEL void {name}(const {self._kernel}_launch l) {{\n{body}\n}}\n"

    def _rows(self, dim: int, low: str, high: str) -> str:
        """A thread has a tile of a dimension, several tiles that lie a whole grid apart, or all items."""
        axis, step = self._num_divided - 1 - dim, self._tile.rows if dim == self._num_divided - 2 else 1
        if not 0 < axis < len(_GRID_AXES):
            return f"CELERITY_SERIAL({dim}, {low}, {high})"
        first, end = self._pass.box[dim]
        items = step * (1, *self._tile.block)[-1 - axis]
        kind = "CELERITY_TILE" if end - first <= MAX_GRID * items else "CELERITY_TILES"
        return f"{kind}({_GRID_AXES[axis]}, {dim}, {low}, {high}, {step})"

    def _columns(self, low: str, high: str) -> str:
        """The columns of a thread. Behind the numbers of vectors, which the launch sets, come the limits of these."""
        if not self._is_wide():
            return f"columns_of({low}, {high})"
        interval = self._pass.box[self._num_divided - 1]
        limits = interval if self._interior is None else self._interior.box[self._num_divided - 1]
        self._wide_bounds = len(self._launch.numbers)
        numbers = [self._launch.number(limit) for limit in (*[interval[0]] * 3, *limits)]
        return f"columns_of<{self._tile.columns}>({', '.join((low, high, *numbers[:3]))})"

    def _visits(self, name: str) -> list[str]:
        """The items of a thread: a tile without conditions, or one item after the other."""
        rows, last, is_wide = self._tile.rows, self._num_divided - 1, self._is_wide()
        rows_left = f"end{last - 1} - c{last - 1}" if last else "1"

        def visit(struct: str, column: str, columns: int) -> str:
            coordinates = ", ".join(column if dim == last else f"c{dim}" for dim in range(len(self._pass.box)))
            kind = f"{rows}, {columns}, {'true' if columns > 1 else 'false'}"
            return f"visit_rows<{kind}>({rows_left}, {name}_{struct}{{l, {coordinates}}});"

        if not is_wide and self._interior is None:
            return [visit("items", "x.begin", 1)]
        if self._interior is None:
            each = visit("items", "column", 1)
            return [
                f"if(x.are_wide) {{ {visit('items', 'x.begin', self._tile.columns)} }}",
                f"else CELERITY_EACH_COLUMN(x) {{ {each} }}",
            ]
        ends = [", ".join(map(self._launch.number, interval)) for interval in self._interior.box[: last + 1]]
        heights = [rows if dim == last - 1 else 1 for dim in range(last)]
        within = [f"within(c{dim}, {height}, {ends[dim]})" for dim, height in enumerate(heights)]
        lines = [f"const bool is_inner = {' && '.join(within) or 'true'};"]
        if is_wide:
            lines.append(f"if(is_inner && x.are_wide) {{ {visit('inner', 'x.begin', self._tile.columns)} }} else")
        lines += [
            "CELERITY_EACH_COLUMN(x) {",
            f"  if(is_inner && within(column, 1, {ends[last]})) {{ {visit('inner', 'column', 1)} }}",
            f"  else {{ {visit('items', 'column', 1)} }}",
            "}",
        ]
        return ["{", *(f"  {line}" for line in lines), "}"]
