# SPDX-License-Identifier: MIT
"""Writes a pass whose folds combine the elements of rows, as C++: some threads share a row, the lanes of this row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celerity_py.fusion.item_emission import ItemsText, identity_text, struct_of_folds
from celerity_py.fusion.launches import MAX_GRID, Launch, PassLaunch, Shape
from celerity_py.fusion.lowering import lower

if TYPE_CHECKING:
    from celerity_py.fusion.planning import Pass

_GRID_AXES = "xyz"
#: Threads of a block.
_THREADS = 256
#: Items of a lane whose loads are on the way together; the second number is that of passes that store elements, too.
#: On an H200, in us, sums of 4096 x 4096 float64 take 41 with 4 and 45 with 2, `apply` of conjugate gradients 113, 90.
_TOGETHER, _TOGETHER_STORED = 4, 2


class RowsText:
    """Writes one pass. The lanes of a row lie along x, and the rows along y and z."""

    def __init__(self, one: Pass, launch: Launch, kernel: str, fixes_distances: bool) -> None:
        self._pass = one
        self._launch = launch
        self._kernel = kernel
        self._lanes = next(iter(one.folds)).lanes
        self._items = ItemsText(one, lower(one), launch, kernel, fixes_distances, are_apart=True)
        self._dims = min(one.num_kept + 1, len(_GRID_AXES))
        self._together = _TOGETHER if len(one.folds) == len(one.statements) else _TOGETHER_STORED
        self._block = (1, _THREADS // self._lanes, self._lanes)
        self._bounds = 0

    def text(self, name: str) -> str:
        """A struct for the items, and the kernel."""
        one, folds = self._pass, self._pass.folds
        items = self._items.text(f"{name}_items", f"{name}_folds")
        self._bounds = len(self._launch.numbers)
        intervals = (*one.box[: one.num_kept], (0, self._lanes), *one.box[one.num_kept :])
        ends = [", ".join(map(self._launch.number, interval)) for interval in intervals]
        del ends[one.num_kept]  # the lanes are constants of the text
        last = len(one.box) - 1
        coordinates = ", ".join(f"c{dim}" for dim in range(len(one.box)))
        lines = [
            f"{name}_folds folds{{{', '.join(map(identity_text, folds))}}};",
            *(f"CELERITY_SERIAL({dim}, {ends[dim]})" for dim in range(one.num_kept, last)),
            f"const auto visit = [&](coordinate c{last}, const auto& tile) {{",
            f"  {name}_items{{l, folds, {coordinates}}}(tile);",
            "};",
            f"visit_lane<{self._together}, {self._lanes}>(lane, {ends[last]}, visit);",
        ]
        for fold, place in folds.items():
            address = self._items.address(fold.memory, fold.items().stored)
            lines.append(f"store_row<join_{fold.operation}, {self._lanes}>(folds.f{place}, {address});")
        rows = [self._rows(dim, ends[dim]) for dim in range(one.num_kept)]
        lines = [f"CELERITY_ROWS({self._lanes})", *rows, "{", *(f"  {line}" for line in lines), "}"]
        body = "\n".join(f"  {line}" for line in lines)
        kernel = f"CELERITY_KERNEL void {name}(const {self._kernel}_launch l) {{\n{body}\n}}\n"
        return f"{struct_of_folds(name, folds)}{items}{kernel}"

    def pass_launch(self) -> PassLaunch:
        """How the text is launched."""
        dims = self._dims
        first = self._bounds + 2 * (self._pass.num_kept + 1 - dims)
        return PassLaunch(first, dims, Shape(self._block[-dims:], (1,) * dims))

    def _rows(self, dim: int, ends: str) -> str:
        axis = self._pass.num_kept - dim
        if axis >= len(_GRID_AXES):
            return f"CELERITY_SERIAL({dim}, {ends})"
        first, end = self._pass.box[dim]
        is_covered = end - first <= MAX_GRID * self._block[-1 - axis]
        return f"CELERITY_TILE{'' if is_covered else 'S'}({_GRID_AXES[axis]}, {dim}, {ends}, 1)"
