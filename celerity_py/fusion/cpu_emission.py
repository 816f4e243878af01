# SPDX-License-Identifier: MIT
"""Writes a plan as Python for numba: a function per pass, on the operations of `celerity_py.cpu.operations`.

A function computes the items of a box, which a call gives: a part of the pass's box. Items of a pass do not depend on
each other, so that several threads may compute parts of one. float16 is computed in float32, and lies in uint16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Positions
from celerity_py.fusion.interiors import interior_of
from celerity_py.fusion.launches import Launch
from celerity_py.fusion.lowering import Body, Instruction, lower
from celerity_py.fusion.ordering import Step, steps_of
from celerity_py.fusion.tiling import is_fixed

if TYPE_CHECKING:
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.nodes import Statement
    from celerity_py.fusion.planning import Pass, Plan

_TYPES: Final = {"?": "boolean", "e": "uint16"}
#: Of equal operands, float16 has rules of its own.
_EXTREMES: Final = frozenset(("minimum", "maximum", "fmin", "fmax", "clip", "clip_within"))


def emit_for_cpu(
    plan: Plan, memories: Sequence[Memory], name: str, *, fixes_distances: bool = True
) -> tuple[str, Launch]:
    """The text of a plan: functions `name_0`, `name_1`, ..., one per pass, to be called in this order.

    The text takes for granted that the elements of a row lie side by side in memory. A call bounds the dimensions of
    buffers; those of elements it computes as a whole.

    Args:
        plan: The passes.
        memories: Those of the accesses, in the order in which a launch gives them; scratch comes behind them.
        name: An identifier.
        fixes_distances: Whether the distances of stencils are part of the text.
    """
    launch = Launch([*memories, *plan.scratch])
    texts = [_PassText(one, launch, fixes_distances).text(f"{name}_{place}") for place, one in enumerate(plan.passes)]
    return "\n\n".join(texts), launch


class _PassText:
    """Writes one pass."""

    def __init__(self, one: Pass, launch: Launch, fixes_distances: bool) -> None:
        self._pass = one
        self._launch = launch
        self._fixes_distances = fixes_distances
        self._body: Body = lower(one)
        self._num_divided = one.num_divided
        self._keys = list(dict.fromkeys(memory.key for memory in launch.memories))
        #: Functions for the types and memories of this text, by name; and what a call reads first.
        self._made: dict[str, str] = {}
        self._given: dict[str, str] = {}
        #: Instructions and statements that have no operands, which are the same in the interior.
        self._texts: dict[Step, str] = {}

    def text(self, name: str) -> str:
        """A function with a loop per dimension."""
        rows = range(self._num_divided - 1)
        loops = [
            f"{'    ' * dim}for c{dim} in range({self._bound(2 * dim)}, {self._bound(2 * dim + 1)}):" for dim in rows
        ]
        indent = "    " * len(rows)
        loops += [indent + line for line in self._row()]
        given = [f"{name} = {value}" for name, value in self._given.items()]
        lines = (f"    {line}" for line in (*given, *loops))
        made = (f"{name} = {value}" for name, value in self._made.items())
        return "\n".join((*made, f"def {name}(memories, strides, numbers, scalars, bounds):", *lines, ""))

    def _row(self) -> list[str]:
        """The items of a row: those of the interior, which need no conditions, and then those on both sides."""
        last = self._num_divided - 1
        low, high = self._bound(2 * last), self._bound(2 * last + 1)
        interior = interior_of(self._body, self._pass.box, self._num_divided)
        if interior is None:
            return self._items(low, high, self._body)
        ends = [tuple(map(self._number, interval)) for interval in interior.box]
        first, end = ends[last]
        inside = [f"(c{dim} >= {ends[dim][0]}) & (c{dim} < {ends[dim][1]})" for dim in range(last)]
        inner = [f"begin = min(max({first}, {low}), {high})", f"end = max(min({end}, {high}), begin)"]
        return [
            *(inner if not inside else [f"begin = end = {high}", f"if {' & '.join(inside)}:", *_indented(inner)]),
            *self._items("begin", "end", interior.body),
            "for side in range(2):",
            *_indented(self._items(f"{low} if side == 0 else end", f"begin if side == 0 else {high}", self._body)),
        ]

    def _items(self, low: str, high: str, body: Body) -> list[str]:
        """Loops over items of a row and over their elements, which belong together."""
        self._body, whole = body, self._body
        lines = [
            line
            for step in steps_of(self._pass, body)
            for line in (self._compute(step) if isinstance(step, int) else self._store(step))
        ]
        for dim, interval in reversed(list(enumerate(self._pass.box))[self._num_divided :]):
            lines = [f"for c{dim} in range({interval[0]}, {interval[1]}):", *_indented(lines)]
        self._body = whole
        return [f"for c{self._num_divided - 1} in range({low}, {high}):", *_indented(lines)]

    # ---- what stands before the loops

    def _bound(self, place: int) -> str:
        return self._give(f"b{place}", f"number(bounds, {8 * place})")

    def _give(self, name: str, value: str) -> str:
        self._given.setdefault(name, value)
        return name

    def _number(self, value: int) -> str:
        self._launch.numbers.append(value)
        place = len(self._launch.numbers) - 1
        return self._give(f"n{place}", f"number(numbers, {8 * place})")

    def _function(self, kind: str, memory: Memory) -> str:
        """What loads elements of a memory, or stores them."""
        place, key = self._launch.memories.index(memory), self._keys.index(memory.key)
        name = f"{kind}_{place}"
        self._made.setdefault(name, f"{kind}_of({type_name(memory.dtype)}, {key}, {len(self._keys)})")
        return name

    # ---- an item

    def _compute(self, number: int) -> list[str]:
        instruction, need = self._body.instructions[number], self._body.needs.get(number)
        if instruction.operands or instruction.operation == "literal":
            value = self._value(instruction)
        else:
            value = self._texts.get(number) or self._texts.setdefault(number, self._value(instruction))
        line = f"v{number} = {value}"
        if need is None:
            return [line]
        return [f"v{number} = {type_name(instruction.dtype)}(0)", f"if v{need}:", f"    {line}"]

    def _value(self, instruction: Instruction) -> str:
        detail: Any = instruction.detail
        match instruction.operation:
            case "literal":
                return literal(detail, instruction.dtype)
            case "scalar":
                kind = type_name(instruction.dtype)
                self._made.setdefault(f"scalar_{kind}", f"load_of({kind})")
                place = self._launch.scalar(detail, instruction.dtype)
                return self._give(f"x{place}", f"scalar_{kind}(scalars, {16 * place})")
            case "index":
                return f"int64({self._coordinate(detail)})"
            case "inside":
                return " & ".join(self._inside(*bound) for bound in detail)
            case "load":
                return (
                    f"{self._function('load', detail.load.memory)}({self._address(detail.load.memory, detail.where)})"
                )
            case "both" | "either" as name:
                return {"both": " & ", "either": " | "}[name].join(f"v{number}" for number in instruction.operands)
            case "not" | "merge" | "where" as name:
                return f"{name}_({', '.join(f'v{number}' for number in instruction.operands)})"
            case _:
                return self._operation(instruction)

    def _operation(self, instruction: Instruction) -> str:
        """An operation whose function depends on the types of its operands."""
        dtypes = [self._body.instructions[number].dtype for number in instruction.operands]
        names = [f"v{number}" for number in instruction.operands]
        name, source, target = instruction.operation, dtypes[0], instruction.dtype
        if source.char == "e":
            names = [f"widen({operand})" for operand in names]
            source = np.dtype(np.float32)
            name = f"half_{name}" if name in _EXTREMES else name
        if name == "cast":
            return _cast(names[0], source, target)
        if source.kind == "c":
            name = f"complex_{name}"
        elif dtypes[0] != dtypes[-1]:
            name = f"mixed_{name}"
        value = f"{name}_({', '.join(names)})"
        return f"narrow({value})" if target.char == "e" else value

    def _store(self, statement: Statement) -> list[str]:
        mask, memory = self._body.masks.get(statement), statement.memory
        place = self._texts.get(statement)
        if place is None:
            place = self._texts[statement] = self._address(memory, statement.items().stored)
        line = f"{self._function('store', memory)}({place}, v{self._body.values[statement]})"
        return [line] if mask is None else [f"if v{mask}:", f"    {line}"]

    # ---- places

    def _address(self, memory: Memory, where: Positions) -> str:
        place, first = self._launch.memories.index(memory), self._launch.first_stride(memory)
        terms = []
        for dim, position in enumerate(where):
            stride = str(memory.dtype.itemsize)
            if dim < memory.ndim - 1:
                stride = self._give(f"s{first + dim}", f"number(strides, {8 * (first + dim)})")
            terms.append(f"{self._element(memory, dim, position)} * {stride}")
        return f"{self._give(f'm{place}', f'memory(memories, {8 * place})')}, {' + '.join(terms) or '0'}"

    def _element(self, memory: Memory, dim: int, position: Affine) -> str:
        """A coordinate in a memory: of stencils and of elements, distances and constants are part of the text."""
        axis, _, offset = position
        if not (self._fixes_distances and is_fixed(memory, dim, position, self._num_divided)):
            return self._coordinate(position)
        return f"{offset}" if axis == NO_AXIS else f"(c{axis} + {offset})" if offset else f"c{axis}"

    def _coordinate(self, position: Affine) -> str:
        axis, step, offset = position
        number = self._number(offset)
        if axis == NO_AXIS:
            return number
        return f"(c{axis} + {number})" if step == 1 else f"({step} * c{axis} + {number})"

    def _inside(self, position: Affine, low: int, high: int) -> str:
        here = f"c{position.axis}" if position.step == 1 and position.offset == 0 else self._coordinate(position)
        return f"({here} >= {self._number(low)}) & ({here} < {self._number(high)})"


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def type_name(dtype: np.dtype[Any]) -> str:
    """The type of numba for a dtype."""
    return _TYPES.get(dtype.char, dtype.name)


def _cast(value: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    if target.kind == "b":
        return f"complex_truth({value})" if source.kind == "c" else f"truth({value})"
    if source.kind == "c" and target.kind != "c":
        value, source = f"{value}.real", np.empty((), source).real.dtype
    if target.char == "e":
        return f"narrow_double({value})" if source.char == "d" else f"narrow(float32({value}))"
    return f"{type_name(target)}({value})"


def literal(content: bytes, dtype: np.dtype[Any]) -> str:
    """An element in the text, by its bits."""
    value = np.frombuffer(content, dtype)[0]
    if dtype.kind == "c":
        part = value.real.dtype
        return f"complex({literal(value.real.tobytes(), part)}, {literal(value.imag.tobytes(), part)})"
    if dtype.char == "e":
        return f"uint16({int(value.view(np.uint16)):#x})"
    if dtype.kind == "f" and not np.isfinite(value):
        bits = int(np.frombuffer(content, f"u{dtype.itemsize}")[0])
        return f"same_bits(uint{8 * dtype.itemsize}({bits:#x}))"
    return f"{type_name(dtype)}({value.item()!r})"
