# SPDX-License-Identifier: MIT
"""Writes what the items of a tile do, as a struct of C++ on the helpers of `fused_tiles.cuh`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Positions
from celerity_py.fusion.folds import Fold
from celerity_py.fusion.interiors import bounds_of
from celerity_py.fusion.lowering import Body, Instruction, Place
from celerity_py.fusion.memories import Table
from celerity_py.fusion.ordering import steps_of
from celerity_py.fusion.tiling import find_windows, is_fixed

if TYPE_CHECKING:
    from collections.abc import Hashable

    from celerity_py.fusion.launches import Launch
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.nodes import Statement
    from celerity_py.fusion.planning import Pass

_TYPES: Final = {"?": "bool", "e": "half", "f": "float", "d": "double", "F": "complex<float>", "D": "complex<double>"}


def type_name(dtype: np.dtype[Any]) -> str:
    """The type of C++ for a dtype."""
    known = _TYPES.get(dtype.char)
    return known or f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}"


class ItemsText:
    """Writes the items of a pass that have the same instructions."""

    def __init__(
        self, one: Pass, body: Body, launch: Launch, kernel: str, fixes_distances: bool, *, are_apart: bool = False
    ) -> None:
        """`are_apart`: the items of a tile may be no neighbours."""
        self._pass = one
        self._body = body
        self._launch = launch
        self._kernel = kernel
        self._fixes_distances = fixes_distances
        self._num_divided = one.num_divided
        self._steps = list(steps_of(one, body))
        #: By memory and dimension, as numbers of the launch.
        self._limits: dict[Hashable, str] = {}
        #: What a tile loads and stores at once.
        self.windows = find_windows(body, self._steps, fixes_distances, are_apart)

    def has_conditions(self) -> bool:
        """Whether items differ by their coordinates in what they do."""
        computed = (self._body.instructions[step] for step in self._steps if isinstance(step, int))
        return any(bounds_of(instruction) for instruction in computed)

    def text(self, name: str, folds: str = "") -> str:
        """The struct: called with a tile, it computes the items of this tile. `folds`: type of what they combine."""
        items = [self._line(step) if isinstance(step, int) else self._store(step) for step in self._steps]
        dims = range(len(self._pass.box))
        tiled = {self._num_divided - 1: "k * Tile::apart", self._num_divided - 2: "r"}
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
            f"struct {name} {{\n  const {self._kernel}_launch& l;{f' {folds}& folds;' if folds else ''}{members}\n"
            "  template <typename Tile> CELERITY_MEMBER void operator()(const Tile& tile) const "
            f"{{\n{body}\n  }}\n}};\n"
        )

    def _loads(self) -> list[str]:
        """Of the windows."""
        lines = []
        for number, window in enumerate(self.windows.all):
            kind, ends = type_name(window.memory.dtype), (window.rows, window.columns)
            range_text = ", ".join(f"{min(one)}, {max(one)}" for one in ends)
            arguments = self._row(window.memory, window.where)
            lines.append(f"window<{kind}, Tile, {range_text}> w{number}; w{number}.load(tile, {arguments});")
        lines += [
            f"results<{type_name(statement.memory.dtype)}, Tile> s{number};"
            for number, statement in enumerate(self.windows.stored)
        ]
        return lines

    def _stores(self) -> list[str]:
        """Of what the items of a tile store together."""
        return [
            f"s{number}.store(tile, {self._row(statement.memory, statement.items().stored)});"
            for number, statement in enumerate(self.windows.stored)
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
        use = self.windows.uses.get(number)
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
                if isinstance(detail.load.memory, Table):
                    return self._table(detail.load.memory, detail.where)
                return f"*{self.address(detail.load.memory, detail.where)}"
            case "gather":
                return f"table<{kind}>(l.scalars, {self._launch.table(detail)} + {operands})"  # type: ignore[arg-type]
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

    def _table(self, memory: Table, where: Positions) -> str:
        pairs = zip(where, memory.strides, strict=True)
        terms = (f" + distance({self._element(memory, dim, one)}, {stride})" for dim, (one, stride) in enumerate(pairs))
        return f"table<{type_name(memory.dtype)}>(l.scalars, {self._launch.table(memory)}{''.join(terms)})"

    def _store(self, statement: Statement) -> str:
        value = f"v{self._body.values[statement]};"
        if statement in self.windows.stored:
            return f"s{self.windows.stored.index(statement)}.items[r][k] = {value}"
        mask = self._body.masks.get(statement)
        if isinstance(statement, Fold):
            total = f"folds.f{self._pass.folds[statement]}"
            text = f"{total} = op_{statement.operation}({total}, {value[:-1]});"
            return text if mask is None else f"if (v{mask}) {text}"
        text = f"*{self.address(statement.memory, statement.items().stored)} = {value}"
        return text if mask is None else f"if (v{mask}) {text}"

    def address(self, memory: Memory, where: Positions) -> str:
        """Where an item has its element of a memory."""
        place, first = self._launch.memories.index(memory), self._launch.first_stride(memory)
        terms = (
            f" + distance({self._element(memory, dim, one)}, l.strides[{first + dim}])" for dim, one in enumerate(where)
        )
        return f"element<{type_name(memory.dtype)}>(l.memories[{place}]{''.join(terms)})"

    def _element(self, memory: Memory, dim: int, position: Affine, names: dict[int, str] | None = None) -> str:
        """A coordinate in a memory: of stencils and of elements, distances and constants are part of the text."""
        axis, _, offset, limits = position
        self._launch.reach(position, self._pass.box)
        if not (self._fixes_distances and is_fixed(memory, dim, position, self._num_divided)):
            text = self._coordinate(position, names)
        else:
            name = (names or {}).get(axis, f"c{axis}")
            text = f"{offset}" if axis == NO_AXIS else f"({name} + {offset})" if offset else name
        if limits is None:
            return text
        key = memory.key, dim, limits
        if key not in self._limits:
            self._limits[key] = ", ".join(map(self._launch.number, limits))
        return f"limited({text}, {self._limits[key]})"

    def _coordinate(self, position: Affine, names: dict[int, str] | None = None) -> str:
        axis, step, offset, _ = position
        self._launch.reach(position, self._pass.box)
        number = f"static_cast<coordinate>({self._launch.number(offset)})"
        if axis == NO_AXIS:
            return number
        name = (names or {}).get(axis, f"c{axis}")
        return f"({name} + {number})" if step == 1 else f"({step} * {name} + {number})"

    def _bound(self, position: Affine, low: int, high: int) -> str:
        here = f"c{position.axis}" if position.step == 1 and position.offset == 0 else self._coordinate(position)
        return f"inside({here}, {self._launch.number(low)}, {self._launch.number(high)})"


def struct_of_folds(name: str, folds: dict[Fold, int]) -> str:
    """What the items of a thread combine."""
    members = (f" {type_name(fold.value.dtype)} f{place};" for fold, place in folds.items())
    return f"struct {name}_folds {{{''.join(members)} }};\n"


def identity_text(fold: Fold) -> str:
    """What changes no element."""
    return literal(fold.identity.tobytes(), fold.value.dtype)


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
