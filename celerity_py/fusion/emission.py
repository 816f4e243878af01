# SPDX-License-Identifier: MIT
"""Writes a plan as C++: one text for CUDA and for the host, on the helpers of `fused_tiles.cuh`.

A launch gives addresses, strides, numbers and scalars in a `launch_of`. Positions and extents are such numbers, so that
the chunks of a task share a text. Chunks with equal texts have the same structure: the text is the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Positions
from celerity_py.fusion.launches import Launch, PassLaunch, WideMemory
from celerity_py.fusion.lowering import Body, Instruction, Place, lower
from celerity_py.fusion.ordering import steps_of
from celerity_py.fusion.tiling import Tile, Windows, choose_tile, find_windows, is_fixed

if TYPE_CHECKING:
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.nodes import Statement
    from celerity_py.fusion.planning import Pass, Plan

_TYPES: Final = {"?": "bool", "e": "half", "f": "float", "d": "double", "F": "complex<float>", "D": "complex<double>"}


_GRID_AXES: Final = "xyz"


def type_name(dtype: np.dtype[Any]) -> str:
    """The type of C++ for a dtype."""
    known = _TYPES.get(dtype.char)
    return known or f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}"


def emit(
    plan: Plan,
    memories: Sequence[Memory],
    name: str,
    *,
    fixes_distances: bool = True,
    choose: Callable[[Pass, Body, Windows], Tile] = choose_tile,
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
    """Writes one pass."""

    def __init__(
        self,
        one: Pass,
        launch: Launch,
        kernel: str,
        fixes_distances: bool,
        choose: Callable[[Pass, Body, Windows], Tile],
    ) -> None:
        self._pass = one
        self._launch = launch
        self._kernel = kernel
        self._fixes_distances = fixes_distances
        self._body: Body = lower(one)
        self._steps = list(steps_of(one, self._body))
        self._num_divided = one.num_divided
        storing = [step for step in self._steps if not isinstance(step, int)]
        self._windows = find_windows(self._body, storing, fixes_distances)
        self._tile = choose(one, self._body, self._windows)
        self._bounds = self._wide_bounds = 0

    def text(self, name: str) -> str:
        """The function of a tile's items, and the one that visits all tiles."""
        items = [self._line(step) if isinstance(step, int) else self._store(step) for step in self._steps]
        dims = range(len(self._pass.box))
        tiled = {self._num_divided - 1: "k", self._num_divided - 2: "r"}
        members = "".join(f" const coordinate {'b' if dim in tiled else 'c'}{dim};" for dim in dims)
        own = "".join(f"const coordinate c{dim} = b{dim} + {tiled[dim]}; " for dim in dims if dim in tiled)
        lines = [
            *self._loads(),
            f"CELERITY_ITEMS {{ {own}",
            *(f"  {line}" for line in items),
            "}",
            *self._stores(),
        ]
        body = "\n".join(f"  {line}" for line in lines)
        return (
            f"struct {name}_items {{\n  const {self._kernel}_launch& l;{members}\n"
            "  template <typename Tile> CELERITY_MEMBER void operator()(const Tile& tile) const "
            f"{{\n{body}\n  }}\n}};\n"
            f"{self._kernel_text(name)}"
        )

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
        tile, last = self._tile, self._num_divided - 1
        self._bounds = len(self._launch.numbers)
        ends = [tuple(map(self._launch.number, interval)) for interval in self._pass.box]
        columns = f"columns_of({', '.join(ends[last])})"
        if self._is_wide():
            self._wide_bounds = len(self._launch.numbers)
            wide = [self._launch.number(self._pass.box[last][0]) for _ in range(2)]
            columns = f"columns_of<{tile.columns}>({', '.join((*ends[last], *wide))})"
        lines = [f"const columns x = {columns};", "if(!x.are_any) { return; }"]
        depth = 1
        for dim, (low, high) in enumerate(ends):
            behind = last - dim
            if behind == 0:
                continue
            step = tile.rows if behind == 1 else 1
            loop = (
                f"CELERITY_LOOP({_GRID_AXES[behind]}, {dim}, {low}, {high}, {step})"
                if 0 < behind < len(_GRID_AXES)
                else f"CELERITY_SERIAL({dim}, {low}, {high})"
            )
            lines.append(f"{'  ' * (depth - 1)}{loop}")
            depth += 1
        rows_left = f"end{last - 1} - c{last - 1}" if last else "1"
        values = "".join(f", {'x.begin' if dim == last else f'c{dim}'}" for dim in range(len(ends)))
        can_be_wide = "true" if self._is_wide() else "false"
        lines.append(
            f"{'  ' * (depth - 1)}visit<{tile.rows}, {tile.columns}, {can_be_wide}>(x, {rows_left}, "
            f"{name}_items{{l{values}}});"
        )
        body = "\n".join(f"  {line}" for line in lines)
        return f"CELERITY_KERNEL void {name}(const {self._kernel}_launch l) {{\n{body}\n}}\n"

    def _loads(self) -> list[str]:
        """Of the windows."""
        lines = []
        for number, window in enumerate(self._windows.all):
            kind, ends = type_name(window.memory.dtype), (window.rows, window.columns)
            range_text = ", ".join(f"{min(one)}, {max(one)}" for one in ends)
            arguments = self._row(window.memory, window.where)
            lines.append(f"window<{kind}, Tile, {range_text}> w{number}; w{number}.load(tile, {arguments});")
        lines += [
            f"results<{type_name(statement.memory.dtype)}, Tile> s{number};"
            for number, statement in enumerate(self._windows.stored)
        ]
        return lines

    def _stores(self) -> list[str]:
        """Of what the items of a tile store together."""
        return [
            f"s{number}.store(tile, {self._row(statement.memory, statement.items().stored)});"
            for number, statement in enumerate(self._windows.stored)
        ]

    def _row(self, memory: Memory, where: Positions) -> str:
        """The first row of a tile at the column 0, the column of its first item, and strides."""
        place, first = self._launch.memories.index(memory), self._launch.first_stride(memory)
        last = memory.ndim - 1
        tiled = {self._num_divided - 1, self._num_divided - 2}
        names = {dim: f"b{dim}" for dim in tiled}
        terms = (
            f" + distance({self._element(memory, dim, one, names)}, l.strides[{first + dim}])"
            for dim, one in enumerate(where[:last])
        )
        row_stride = f"l.strides[{first + last - 1}]" if self._num_divided > 1 else "0"
        return f"l.memories[{place}]{''.join(terms)}, b{self._num_divided - 1}, {row_stride}, l.strides[{first + last}]"

    def _line(self, number: int) -> str:
        instruction, need = self._body.instructions[number], self._body.needs.get(number)
        kind = type_name(instruction.dtype)
        use = self._windows.uses.get(number)
        value = (
            self._value(instruction)
            if use is None
            else f"w{use.window}.at({_plus('r', use.row)}, {_plus('k', use.column)})"
        )
        if need is not None:
            return f"{kind} v{number}{{}}; if (v{need}) v{number} = {value};"
        return f"const {kind} v{number} = {value};"

    def _value(self, instruction: Instruction) -> str:
        kind, detail = type_name(instruction.dtype), instruction.detail
        operands = ", ".join(f"v{number}" for number in instruction.operands)
        match instruction.operation:
            case "literal":
                return literal(detail, instruction.dtype)  # type: ignore[arg-type]
            case "scalar":
                return f"scalar<{kind}>(l.scalars, {self._launch.scalar(detail, instruction.dtype)})"  # type: ignore[arg-type]
            case "index":
                return self._coordinate(detail)  # type: ignore[arg-type]
            case "inside":
                return " && ".join(self._bound(*bound) for bound in detail)  # type: ignore[attr-defined]
            case "load":
                assert isinstance(detail, Place)
                return f"*{self._address(detail.load.memory, detail.where)}"
            case "both" | "either":
                sign = " && " if instruction.operation == "both" else " || "
                return sign.join(f"v{number}" for number in instruction.operands)
            case "not":
                return f"!{operands}"
            case "merge" | "where":
                condition, first, second = instruction.operands
                return f"v{condition} ? v{first} : v{second}"
            case "cast":
                return f"cast<{kind}>({operands})"
            case name:
                return f"op_{name}({operands})"

    def _store(self, statement: Statement) -> str:
        value = f"v{self._body.values[statement]};"
        if statement in self._windows.stored:
            return f"s{self._windows.stored.index(statement)}.items[r][k] = {value}"
        mask = self._body.masks.get(statement)
        text = f"*{self._address(statement.memory, statement.items().stored)} = {value}"
        return text if mask is None else f"if (v{mask}) {text}"

    def _address(self, memory: Memory, where: Positions) -> str:
        place, first = self._launch.memories.index(memory), self._launch.first_stride(memory)
        terms = (
            f" + distance({self._element(memory, dim, one)}, l.strides[{first + dim}])" for dim, one in enumerate(where)
        )
        return f"element<{type_name(memory.dtype)}>(l.memories[{place}]{''.join(terms)})"

    def _element(self, memory: Memory, dim: int, position: Affine, names: dict[int, str] | None = None) -> str:
        """A coordinate in a memory: of stencils and of elements, distances and constants are part of the text."""
        axis, _, offset = position
        self._launch.reach(position, self._pass.box)
        if not (self._fixes_distances and is_fixed(memory, dim, position, self._num_divided)):
            return self._coordinate(position, names)
        name = (names or {}).get(axis, f"c{axis}")
        return f"{offset}" if axis == NO_AXIS else f"({name} + {offset})" if offset else name

    def _coordinate(self, position: Affine, names: dict[int, str] | None = None) -> str:
        axis, step, offset = position
        self._launch.reach(position, self._pass.box)
        number = f"static_cast<coordinate>({self._launch.number(offset)})"
        if axis == NO_AXIS:
            return number
        name = (names or {}).get(axis, f"c{axis}")
        return f"({name} + {number})" if step == 1 else f"({step} * {name} + {number})"

    def _bound(self, position: Affine, low: int, high: int) -> str:
        here = f"c{position.axis}" if position.step == 1 and position.offset == 0 else self._coordinate(position)
        return f"inside({here}, {self._launch.number(low)}, {self._launch.number(high)})"


def _plus(name: str, offset: int) -> str:
    return f"{name} + {offset}" if offset else name


def literal(content: bytes, dtype: np.dtype[Any]) -> str:
    """An element in the text, by its bits."""
    value = np.frombuffer(content, dtype)[0]
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "c":
        part = value.real.dtype
        return f"{type_name(dtype)}{{{literal(value.real.tobytes(), part)}, {literal(value.imag.tobytes(), part)}}}"
    if dtype.kind in "fd" and np.isfinite(value) and dtype.itemsize > 2:
        return f"{float(value).hex()}{'f' if dtype.itemsize == 4 else ''}"
    bits = int(np.frombuffer(content, f"u{dtype.itemsize}")[0])
    return f"from_bits<{type_name(dtype)}>({bits:#x}u{'ll' if dtype.itemsize == 8 else ''})"
