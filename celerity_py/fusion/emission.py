# SPDX-License-Identifier: MIT
"""Writes a plan as C++: one text for CUDA and for the host, on the helpers of `fused_operations.cuh`.

A launch gives addresses, strides, numbers and scalars in a `launch`. Positions and extents are such numbers, so that
the chunks of a task share a text. Chunks with equal texts have the same structure: the text is the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Positions
from celerity_py.fusion.lowering import Body, Instruction, Place, lower
from celerity_py.fusion.ordering import steps_of

if TYPE_CHECKING:
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.nodes import Statement
    from celerity_py.fusion.planning import Pass, Plan
    from celerity_py.fusion.scalars import Parameter

#: Distances between what an item loads and where it stores that are part of the text: those of stencils. The compiler
#: then sees which loads neighbouring items share. Longer ones are numbers of the launch.
MAX_FIXED_DISTANCE: Final = 8
_TYPES: Final = {"?": "bool", "e": "half", "f": "float", "d": "double", "F": "complex<float>", "D": "complex<double>"}


_GRID_AXES: Final = "xyz"


def type_name(dtype: np.dtype[Any]) -> str:
    """The type of C++ for a dtype."""
    known = _TYPES.get(dtype.char)
    return known or f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}"


@dataclass(slots=True)
class Launch:
    """What a launch gives to the text, in the order of the text's numbers."""

    #: The memories, those of accesses first.
    memories: list[Memory]
    numbers: list[int] = field(default_factory=list)
    scalars: list[tuple[Parameter, np.dtype[Any]]] = field(default_factory=list)

    def number(self, value: int) -> str:
        """A further number, as the text names it."""
        self.numbers.append(value)
        return f"l.numbers[{len(self.numbers) - 1}]"

    def scalar(self, parameter: Parameter, dtype: np.dtype[Any]) -> int:
        """The place of a scalar."""
        self.scalars.append((parameter, dtype))
        return len(self.scalars) - 1

    def first_stride(self, memory: Memory) -> int:
        """The place of a memory's first stride."""
        return sum(other.ndim for other in self.memories[: self.memories.index(memory)])


def emit(plan: Plan, memories: Sequence[Memory], name: str, *, fixes_distances: bool = True) -> tuple[str, Launch]:
    """The text of a plan: functions `name_0`, `name_1`, ..., one per pass, to be launched in this order.

    Args:
        plan: The passes.
        memories: Those of the accesses, in the order in which a launch gives them; scratch comes behind them.
        name: An identifier.
        fixes_distances: Whether the distances of stencils are part of the text.
    """
    launch = Launch([*memories, *plan.scratch])
    texts = [_PassText(one, launch, fixes_distances).text(f"{name}_{place}") for place, one in enumerate(plan.passes)]
    return "\n".join(texts), launch


class _PassText:
    """Writes one pass."""

    def __init__(self, one: Pass, launch: Launch, fixes_distances: bool) -> None:
        self._pass = one
        self._launch = launch
        self._fixes_distances = fixes_distances
        self._body: Body = lower(one)

    def text(self, name: str) -> str:
        """An item's function, and the one that runs all items: loops on the host, a thread per item with CUDA.

        Vector loads and several rows per thread belong into the second one.
        """
        steps = steps_of(self._pass, self._body)
        lines = [self._line(step) if isinstance(step, int) else self._store(step) for step in steps]
        dims = range(len(self._pass.box))
        arguments = "".join(f", int64 c{dim}" for dim in dims)
        values = "".join(f", c{dim}" for dim in dims)
        body = "\n".join(f"  {line}" for line in lines)
        loops = "".join(map(self._loop, dims))
        return (
            f"CELERITY_ITEM void {name}_item(const launch& l{arguments}) {{\n{body}\n}}\n"
            f"CELERITY_KERNEL void {name}(CELERITY_LAUNCH l) {{\n  {loops}{name}_item(l{values});\n}}\n"
        )

    def _loop(self, dim: int) -> str:
        low, high = map(self._launch.number, self._pass.box[dim])
        behind = self._pass.statements[0].memory.num_divided - 1 - dim
        if 0 <= behind < len(_GRID_AXES):
            return f"CELERITY_LOOP({_GRID_AXES[behind]}, {dim}, {low}, {high}) "
        return f"CELERITY_SERIAL({dim}, {low}, {high}) "

    def _line(self, number: int) -> str:
        instruction, need = self._body.instructions[number], self._body.needs.get(number)
        kind = type_name(instruction.dtype)
        value = self._value(instruction)
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
                return f"scalar<{kind}>(l, {self._launch.scalar(detail, instruction.dtype)})"  # type: ignore[arg-type]
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
        mask = self._body.masks.get(statement)
        items = statement.items()
        text = f"*{self._address(statement.memory, items.stored)} = v{self._body.values[statement]};"
        return text if mask is None else f"if (v{mask}) {text}"

    def _address(self, memory: Memory, where: Positions) -> str:
        place, first = self._launch.memories.index(memory), self._launch.first_stride(memory)
        terms = (f" + {self._element(memory, dim, one)} * l.strides[{first + dim}]" for dim, one in enumerate(where))
        return f"element<{type_name(memory.dtype)}>(l.memories[{place}]{''.join(terms)})"

    def _element(self, memory: Memory, dim: int, position: Affine) -> str:
        """A coordinate in a memory: of stencils and of elements, distances and constants are part of the text."""
        axis, step, offset = position
        is_alike = dim >= memory.num_divided if axis == NO_AXIS else axis == dim and step == 1
        if not (self._fixes_distances and is_alike and abs(offset) <= MAX_FIXED_DISTANCE):
            return self._coordinate(position)
        return f"{offset}" if axis == NO_AXIS else f"(c{axis} + {offset})" if offset else f"c{axis}"

    def _coordinate(self, position: Affine) -> str:
        axis, step, offset = position
        number = self._launch.number(offset)
        if axis == NO_AXIS:
            return number
        return f"(c{axis} + {number})" if step == 1 else f"({step} * c{axis} + {number})"

    def _bound(self, position: Affine, low: int, high: int) -> str:
        here = f"c{position.axis}" if position.step == 1 and position.offset == 0 else self._coordinate(position)
        return f"inside({here}, {self._launch.number(low)}, {self._launch.number(high)})"


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
