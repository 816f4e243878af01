# SPDX-License-Identifier: MIT
"""Writes a plan as Python for numba: a function per pass, on the operations of `celerity_py.cpu.operations`.

A function computes the items of a box, which a call gives: a part of the pass's box. Items of a pass do not depend on
each other, so that several threads may compute parts of one. float16 is computed in float32, and lies in uint16.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from celerity_py.fusion import cpu_folds
from celerity_py.fusion.coordinates import NO_AXIS, Affine, Positions
from celerity_py.fusion.folds import Fold, cpu_parts_of
from celerity_py.fusion.interiors import interior_of
from celerity_py.fusion.launches import Launch
from celerity_py.fusion.lowering import Body, Instruction, lower
from celerity_py.fusion.memories import Table
from celerity_py.fusion.ordering import steps_of
from celerity_py.fusion.tiling import is_fixed

if TYPE_CHECKING:
    from celerity_py.fusion.coordinates import Box
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.nodes import Statement
    from celerity_py.fusion.planning import Pass, Plan

_TYPES: Final = {"?": "boolean", "e": "uint16"}
#: Of equal operands, float16 has rules of its own.
_EXTREMES: Final = frozenset(("minimum", "maximum", "fmin", "fmax", "clip", "clip_within"))


class CpuCall(NamedTuple):
    """How a function of the text is called."""

    #: What it computes, in the dimensions of buffers: a call computes a part of the box.
    box: Box
    #: How many calls compute the box. Each gets its number behind the bounds. 0: as many as the caller likes, without.
    parts: int = 0


def emit_for_cpu(
    plan: Plan, memories: Sequence[Memory], name: str, *, fixes_distances: bool = True
) -> tuple[str, Launch, tuple[CpuCall, ...]]:
    """The text of a plan: functions `name_0`, `name_1`, ..., one or two per pass, to be called in this order.

    The text takes for granted that the elements of a row lie side by side in memory. A call bounds the dimensions of
    buffers; those of elements it computes as a whole. A pass with folds has a second function, which combines the
    results of its parts.

    Args:
        plan: The passes.
        memories: Those of the accesses, in the order in which a launch gives them; scratch comes behind them.
        name: An identifier.
        fixes_distances: Whether the distances of stencils are part of the text.
    """
    launch = Launch([*memories, *plan.scratch])
    texts: list[str] = []
    calls: list[CpuCall] = []
    passes = list(plan.passes)
    while passes:
        one = passes.pop(0)
        written = _PassText(one, launch, fixes_distances)
        texts.append(written.text(f"{name}_{len(calls)}"))
        calls.append(_call_of(one))
        if one.folds and not one.num_kept:
            tail = passes.pop(0) if passes and passes[0].is_single else None
            last = _LastText(one, calls[-1].parts, tail, launch, fixes_distances)
            texts.append(last.text(f"{name}_{len(calls)}"))
            calls.append(CpuCall(((0, 1),) if tail is None else tail.box[: tail.num_divided]))
    return "\n\n".join(texts), launch, tuple(calls)


def _call_of(one: Pass) -> CpuCall:
    """The call of a pass. One with rows is divided among these; the last dimension stands for the items of each."""
    extents = [high - low for low, high in one.box]
    if not one.num_kept:
        return CpuCall(one.box[: one.num_divided], cpu_parts_of(math.prod(extents)) if one.folds else 0)
    parts = cpu_parts_of(math.prod(extents), max(extents[: one.num_kept]))
    return CpuCall((*one.box[: one.num_kept], (0, math.prod(extents[one.num_kept :]))), parts)


class _PassText:
    """Writes one pass."""

    def __init__(self, one: Pass, launch: Launch, fixes_distances: bool) -> None:
        self._pass = one
        self._launch = launch
        self._fixes_distances = fixes_distances
        self._body: Body = lower(one)
        self._num_divided = one.num_divided
        self._keys = list(dict.fromkeys(memory.key for memory in launch.memories))
        #: The ends of the dimensions of a row.
        self._row_ends: dict[int, str] = {}
        #: Functions for the types and memories of this text, by name; and what a call reads first.
        self._made: dict[str, str] = {}
        self._given: dict[str, str] = {}
        #: Of instructions and statements without operands. The interior has most of them, too.
        self._texts: dict[Instruction | Statement, str] = {}
        #: By memory and dimension, as numbers of the launch.
        self._limits: dict[Hashable, str] = {}

    def text(self, name: str) -> str:
        """A function with a loop per dimension."""
        if self._pass.num_kept:
            return self._function_text(name, [*self._buffers(), *self._loops()])
        return self._function_text(name, [*self._before_folds(), *self._loops(), *self._behind_folds()])

    def _loops(self) -> list[str]:
        last, folds = self._num_divided - 1, self._pass.folds
        low, high = self._bound(2 * last), self._bound(2 * last + 1)
        if self._pass.num_kept:
            loops = self._row(f"c{last}_begin", f"c{last}_end")
            lines = cpu_folds.in_pieces_of_row(low, high, loops, f"c{last}", folds)
        else:
            lines = self._row(low, high)
        for dim in reversed(range(last)):
            if dim == self._pass.num_kept - 1:
                begins = (line for fold, place in folds.items() for line in cpu_folds.before_row(fold, place))
                lines = [*begins, *lines, *self._behind_row()]
            lines = [f"for c{dim} in range({self._bound(2 * dim)}, {self._bound(2 * dim + 1)}):", *_indented(lines)]
        return lines

    def _function_text(self, name: str, body: list[str]) -> str:
        given = [f"{name} = {value}" for name, value in self._given.items()]
        lines = (f"    {line}" for line in (*given, *body))
        made = (f"{name} = {value}" for name, value in self._made.items())
        return "\n".join((*made, f"def {name}(memories, strides, numbers, scalars, bounds):", *lines, ""))

    def _before_folds(self) -> list[str]:
        lines = []
        for fold, place in self._pass.folds.items():
            lines += [f"i{place} = {_identity(fold)}", *cpu_folds.before(fold, place, f"i{place}")]
        return lines

    def _behind_folds(self) -> list[str]:
        """Each part has an element of scratch memory, behind the first one."""
        lines = []
        for fold, place in self._pass.folds.items():
            memory, store = self._memory(fold.memory), self._function("store", fold.memory)
            where = f"(1 + {self._bound(2 * self._num_divided)}) * {fold.memory.dtype.itemsize}"
            lines.append(f"{store}({memory}, {where}, {cpu_folds.result_of(fold, place)})")
        return lines

    def _buffers(self) -> list[str]:
        """For the elements of a piece of a row."""
        lines = []
        for fold, place in self._pass.folds.items():
            kind, key = type_name(fold.value.dtype), len(self._keys) + place
            self._made[f"buffer_{kind}"] = f"buffer_of({kind}, {cpu_folds.PIECE})"
            self._made[f"put_{kind}_{place}"] = f"store_of({kind}, {key}, {key + 1})"
            lines += [f"i{place} = {_identity(fold)}", f"r{place} = buffer_{kind}()"]
        return lines

    def _behind_row(self) -> list[str]:
        lines = []
        for fold, place in self._pass.folds.items():
            where = self._address(fold.memory, fold.items().stored)
            lines.append(f"{self._function('store', fold.memory)}({where}, {cpu_folds.result_of(fold, place)})")
        return lines

    def _row(self, low: str, high: str) -> list[str]:
        """The items of a row: those of the interior, which need no conditions, and then those on both sides."""
        last = self._num_divided - 1
        interior = interior_of(self._body, self._pass.box, self._num_divided)
        if interior is None:
            return self._items(low, high, self._body)
        ends = [tuple(map(self._number, interval)) for interval in interior.box]
        first, end = ends[last]
        inside = [f"(c{dim} >= {ends[dim][0]}) & (c{dim} < {ends[dim][1]})" for dim in range(last)]
        inner = [f"begin = min(max({first}, {low}), {high})", f"end = max(min({end}, {high}), begin)"]
        return [
            *(inner if not inside else [f"begin = end = {high}", f"if {' & '.join(inside)}:", *_indented(inner)]),
            *_renamed(self._items("begin", "end", interior.body)),
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
        column = f"c{self._num_divided - 1}"
        if not self._pass.folds or self._pass.num_kept:
            return [f"for {column} in range({low}, {high}):", *_indented(lines)]
        end = f"min({column}_begin + {cpu_folds.PIECE}, {column}_high)"
        items = [f"for {column} in range({column}_begin, {end}):", *_indented(lines)]
        return cpu_folds.in_pieces(low, high, items, column, self._pass.folds)

    # ---- what stands before the loops

    def _bound(self, place: int) -> str:
        if self._pass.num_kept and place >= 2 * self._pass.num_kept:  # a call bounds rows only
            if place not in self._row_ends:
                self._row_ends[place] = self._number(self._pass.box[place // 2][place % 2])
            return self._row_ends[place]
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
        if isinstance(memory, Table):
            name = f"table_{type_name(memory.dtype)}"
            self._made.setdefault(name, f"load_of({type_name(memory.dtype)})")
            return name
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
            value = self._texts.get(instruction) or self._texts.setdefault(instruction, self._value(instruction))
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
            case "gather":
                where = f"{self._launch.table(detail)} + v{instruction.operands[0]}"
                return f"{self._function('load', detail)}(scalars, {where})"
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
        if isinstance(statement, Fold):
            value, fold = f"v{self._body.values[statement]}", self._pass.folds[statement]
            if statement.num_kept:
                column = f"c{self._num_divided - 1}"
                where = f"({column} - {column}_begin) * {statement.value.dtype.itemsize}"
                return [f"put_{type_name(statement.value.dtype)}_{fold}(r{fold}, {where}, {value})"]
            return cpu_folds.take(statement, fold, value, None if mask is None else f"v{mask}")
        place = self._texts.get(statement)
        if place is None:
            place = self._texts[statement] = self._address(memory, statement.items().stored)
        line = f"{self._function('store', memory)}({place}, v{self._body.values[statement]})"
        return [line] if mask is None else [f"if v{mask}:", f"    {line}"]

    # ---- places

    def _address(self, memory: Memory, where: Positions) -> str:
        if isinstance(memory, Table):
            pairs = zip(where, memory.strides, strict=True)
            distances = (f" + {self._element(memory, dim, one)} * {stride}" for dim, (one, stride) in enumerate(pairs))
            return f"scalars, {self._launch.table(memory)}{''.join(distances)}"
        first = self._launch.first_stride(memory)
        terms = []
        for dim, position in enumerate(where):
            stride = str(memory.dtype.itemsize)
            if dim < memory.ndim - 1:
                stride = self._give(f"s{first + dim}", f"number(strides, {8 * (first + dim)})")
            terms.append(f"{self._element(memory, dim, position)} * {stride}")
        return f"{self._memory(memory)}, {' + '.join(terms) or '0'}"

    def _memory(self, memory: Memory) -> str:
        place = self._launch.memories.index(memory)
        return self._give(f"m{place}", f"memory(memories, {8 * place})")

    def _element(self, memory: Memory, dim: int, position: Affine) -> str:
        """A coordinate in a memory: of stencils and of elements, distances and constants are part of the text."""
        axis, _, offset, limits = position
        if not (self._fixes_distances and is_fixed(memory, dim, position, self._num_divided)):
            text = self._coordinate(position)
        else:
            text = f"{offset}" if axis == NO_AXIS else f"(c{axis} + {offset})" if offset else f"c{axis}"
        if limits is None:
            return text
        key = memory.key, dim, limits
        if key not in self._limits:
            self._limits[key] = ", ".join(map(self._number, limits))
        return f"limited({text}, {self._limits[key]})"

    def _coordinate(self, position: Affine) -> str:
        axis, step, offset, _ = position
        number = self._number(offset)
        if axis == NO_AXIS:
            return number
        return f"(c{axis} + {number})" if step == 1 else f"({step} * c{axis} + {number})"

    def _inside(self, position: Affine, low: int, high: int) -> str:
        here = f"c{position.axis}" if position.step == 1 and position.offset == 0 else self._coordinate(position)
        return f"({here} >= {self._number(low)}) & ({here} < {self._number(high)})"


class _LastText(_PassText):
    """Writes what follows the parts of a pass with folds: their results become one, and a single item may use it."""

    def __init__(self, one: Pass, parts: int, tail: Pass | None, launch: Launch, fixes_distances: bool) -> None:
        super().__init__(one if tail is None else tail, launch, fixes_distances)
        self._folds = one.folds
        self._parts = parts
        self._has_tail = tail is not None

    def text(self, name: str) -> str:
        """A function that combines the results of the parts in their order."""
        lines, end = [], f"1 + {self._number(self._parts)}"
        for fold, place in self._folds.items():
            memory, size = self._memory(fold.memory), fold.memory.dtype.itemsize
            load, store = self._function("load", fold.memory), self._function("store", fold.memory)
            joined = cpu_folds.join(fold, f"f{place}", f"{load}({memory}, part * {size})")
            lines += [
                f"f{place} = {load}({memory}, {size})",
                f"for part in range(2, {end}):",
                f"    f{place} = {joined}",
                f"{store}({memory}, 0, f{place})",
            ]
        return self._function_text(name, [*lines, *(self._loops() if self._has_tail else [])])


def _identity(fold: Fold) -> str:
    return literal(fold.identity.tobytes(), fold.value.dtype)


def _renamed(lines: list[str]) -> list[str]:
    """With other names for the values of items: numba takes long for names that have several values."""
    return [re.sub(r"\bv(?=\d+\b)", "w", line) for line in lines]


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
