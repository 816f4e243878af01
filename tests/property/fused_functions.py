# SPDX-License-Identifier: MIT
"""Draws functions on views at random, with the operands at which NumPy's rules differ from those of C++.

A function is text, so that a failure can be read. A line that NumPy refuses on the chunk that is drawn is left out.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import celerity_py
from celerity_py import Box
from celerity_py.fusion import array_folds
from tests.support.fused_kernels import Access, Result, copies, run_on_numpy

FLOATS = ("f2", "f4", "f8")
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, 2.5, -3.5, 65504.0, 6e-8, 1e-45, 1e38)
_BINARY = "+ - * / // % & | ^ << >> < <= > >= == !=".split()  # noqa: SIM905 - one line
_CALLS = "minimum maximum logical_and logical_or logical_xor".split()  # noqa: SIM905 - one line
_UNARY = "negative absolute sqrt square sign floor ceil trunc rint isnan isinf isfinite logical_not invert".split()  # noqa: SIM905 - one line
_UPDATES = "+= -= *= //= %= &= |= ^= <<= >>= /=".split()  # noqa: SIM905 - one line


@dataclass(frozen=True)
class Program:
    """A function with its arguments, and the chunks for which it is tried."""

    seed: int
    text: str
    arguments: tuple[Any, ...]
    boxes: tuple[Box, ...]

    def function(self) -> Any:
        space: dict[str, Any] = {"np": np, "celerity": celerity_py}
        exec(compile(self.text, f"<program {self.seed}>", "exec"), space)
        return space["f"]


def has_short_texts(seed: int) -> bool:
    """Whether the reductions of a program are loops over rows, although rows are short."""
    return seed % 8 == 3


@contextlib.contextmanager
def short_texts(program: Program) -> Iterator[None]:
    """Make the loops over rows of a program that has them."""
    before = array_folds.MAX_UNROLLED
    array_folds.MAX_UNROLLED = 2 if has_short_texts(program.seed) else before  # type: ignore[misc]
    try:
        yield
    finally:
        array_folds.MAX_UNROLLED = before  # type: ignore[misc]


@functools.lru_cache(maxsize=200)
def draw(seed: int, is_wide: bool = False) -> Program:
    """A program that NumPy runs for its first chunk; with wide chunks, vectors fit into their rows."""
    return _Drawer(seed, is_wide).program()


class _Drawer:
    def __init__(self, seed: int, is_wide: bool) -> None:
        self._is_wide = is_wide
        self._random = random.Random(seed)
        self._seed = seed
        self._ndim = self._random.choice((1, 1, 2, 2, 2, 3))
        self._margin = 2
        self._views: list[str] = []
        self._arrays: list[str] = []
        self._scalars: list[str] = []
        self._results: list[str] = []
        self._has_elements = self._has_layers = False
        #: What few functions do is in every fourth one, so that the others stay as they are when something comes to it.
        self._has_more = seed % 4 == 3

    def program(self) -> Program:
        choose = self._random
        extent = (*(choose.randint(2, 5) for _ in range(self._ndim - 1)), choose.randint(2, choose.choice((5, 18))))
        extent = (*extent[:-1], extent[-1] + 60 * self._is_wide)
        shape = tuple(one + 2 * self._margin + 3 for one in extent)
        arguments: list[Any] = []
        names = []
        low = tuple(self._margin + choose.randint(0, 2) for _ in extent)
        box = Box(low, [a + b for a, b in zip(low, extent, strict=True)])
        other = tuple(self._margin + choose.randint(0, 2) for _ in extent)
        boxes = (box, Box(other, [a + b for a, b in zip(other, extent, strict=True)]))
        corners = zip(low, other, extent, strict=True)
        ends = [max(a, b) + c + self._margin for a, b, c in corners]
        part = Box([min(a, b) - self._margin for a, b in zip(low, other, strict=True)], ends)
        for number in range(choose.randint(1, 3)):
            if arguments and choose.random() < 0.25:
                array = choose.choice(arguments).array  # two accesses of one buffer
            else:
                array = self._array(shape, choose.choice((*FLOATS, *INTEGERS, "?")))
            accessed = choose.choice((None, part))
            arguments.append(Access(array, accessed, writable=choose.random() < 0.85))
            self._views.append(f"u{number}")
        names += self._views
        for number in range(choose.randint(0, 2)):
            arguments.append(
                choose.choice((2, -1, 3, 0.5, -0.0, np.float32(0.25), np.int8(-128), np.uint64(7), np.float64(1e300)))
            )
            self._scalars.append(f"s{number}")
        names += self._scalars
        if self._has_more:
            arguments += [self._array(extents, choose.choice(("f4", "f8", "i4", "u1"))) for extents in ((4,), (2, 3))]
            names += ["w0", "w1"]
            arguments += [Access(self._array((), "f8")), Access(self._array((3,), "f8"), element_ndim=1)]
            names += ["z", "y"]
        self._add_components(shape, arguments, names)
        self._add_results(arguments, names)
        for number in range(2):  # into these go all types but complex
            arguments.append(Access(self._array(shape, "f8")))
            names.append(f"o{number}")
        lines = [f"def f(chunk, {', '.join(names)}):", "    b, xp = chunk.box, chunk.xp"]
        wanted = choose.randint(2, 9)
        for _ in range(40):
            if len(lines) > wanted + 1:
                break
            line, made = self._line(len(lines))
            if not made and not self._converts_as_numpy(lines, line, arguments, boxes):
                continue
            if self._runs([*lines, f"    {line}"], arguments, boxes):
                lines.append(f"    {line}")
                self._arrays += made
        results = [self._arrays[-1:], self._arrays[-2:-1], [self._operand(is_array=False)]]
        for view, names in zip(("o0", "o1", choose.choice(self._views)), results, strict=True):
            store = f"    {view}[{self._box()}] = {''.join(names)}"
            if self._runs([*lines, store], arguments, boxes):
                lines.append(store)
        return Program(self._seed, "\n".join(lines) + "\n", tuple(arguments), boxes)

    def _add_results(self, arguments: list[Any], names: list[str]) -> None:
        """Reductions, of one element or of three."""
        for number in range(self._random.choice((0, 0, 1, 2))):
            op = self._random.choice(("sum", "min", "max", "or", "and", "xor"))
            kind = self._random.choice(("i8", "?") if op == "xor" else ("i8", "f8"))
            shape = self._random.choice(((1,), (1,), (1, 1), (3,)))
            arguments.append(Result(np.zeros(shape, kind), op=op))
            names.append(f"r{number}")
            self._results.append(f"r{number}")

    def _fold(self) -> str:
        """A number that does not depend on the order in which elements are combined."""
        value = self._operand(is_array=True)
        forms = ("np.absolute({0}).min()", "np.absolute({0}).max()", "({0} > 1).sum()", "np.any({0} == 1)")
        others = (
            "({0}).all()",
            "({0}).argmax()",
            "np.argmin({0})",
            "({0} != 0).mean()",
            "np.add.reduce({0} < 2, None)",
        )
        return self._random.choice((*forms, *others)).format(value)

    def _combination(self) -> str:
        result, value = self._random.choice(self._results), self._fold()
        return self._random.choice((f"{result}.combine({value})", f"{result}.array[0:1] += {value}"))

    def _add_components(self, shape: tuple[int, ...], arguments: list[Any], names: list[str]) -> None:
        """Buffers of elements, and of layers in front of the dimensions of the chunk."""
        if self._random.random() < 0.3:
            array = self._array((*shape, 3), self._random.choice(("f4", "f8", *INTEGERS)))
            arguments.append(Access(array, element_ndim=1))
            names.append("e")
            self._has_elements = True
        if self._ndim < 3 and self._random.random() < 0.4:
            arguments.append(Access(self._array((3, *shape), self._random.choice(("f4", "f8", *INTEGERS)))))
            names.append("l")
            self._has_layers = True

    def _converts_as_numpy(self, lines: list[str], line: str, arguments: list[Any], boxes: tuple[Box, ...]) -> bool:
        """Whether assignments convert no floats to integers: for those out of range, no rule holds."""
        checks = []
        for assignment in line.split("; "):
            target, _, value = assignment.partition(" = ")
            if value:
                checks.append(f"    assert np.can_cast(np.result_type({value}), {target}.dtype, 'same_kind')")
        return not checks or self._runs([*lines, *checks], arguments, boxes)

    def _runs(self, lines: list[str], arguments: list[Any], boxes: tuple[Box, ...]) -> bool:
        program = Program(self._seed, "\n".join(lines) + "\n", tuple(arguments), boxes)
        try:
            for box in boxes:
                run_on_numpy(program.function(), box, copies(arguments))
        except Exception:  # noqa: BLE001 - whatever NumPy refuses
            return False
        return True

    def _array(self, shape: tuple[int, ...], kind: str) -> np.ndarray[Any, Any]:
        draws = np.random.default_rng(self._random.randrange(1 << 30))
        dtype = np.dtype(kind)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            usual = draws.integers(-4 if dtype.kind == "i" else 0, 9, shape)
            special = draws.choice(
                [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 8 * dtype.itemsize - 1], shape
            )
            return np.where(draws.random(shape) < 0.6, usual, special.astype(dtype)).astype(dtype)
        usual_floats = np.round(draws.standard_normal(shape) * 4, 2)
        with np.errstate(all="ignore"):
            return np.where(draws.random(shape) < 0.6, usual_floats, draws.choice(SPECIAL, shape)).astype(dtype)

    def _box(self) -> str:
        offsets = ", ".join(str(self._random.choice((0, 0, 1, -1, 2, -2))) for _ in range(self._ndim))
        return self._random.choice(("b", "b", f"b.shift({offsets})"))

    def _reference(self) -> str:
        view = self._random.choice(self._views)
        if self._has_elements and self._random.random() < 0.3:
            return f"e[{self._box()}]{self._random.choice(('', '[..., 0]', '[..., 2]', '[..., 1:]', '[..., ::-1]'))}"
        if self._has_layers and self._random.random() < 0.3:
            return f"l[{self._random.choice(('0', '2', '0:2', '1:'))}, {self._slices()}]"
        kind = self._random.random()
        if kind < 0.75:
            return f"{view}[{self._box()}]"
        if kind < 0.85:  # a row of the chunk, or a column
            constant = self._random.choice((0, self._ndim - 1))
            place = self._random.choice(("b.min[{0}]", "b.max[{0}] - 1")).format(constant)
            items = (place if dim == constant else f"b.min[{dim}]:b.max[{dim}]" for dim in range(self._ndim))
            return f"{view}[{', '.join(items)}]"
        steps = (f"b.min[{dim}]:b.max[{dim}]:{self._random.choice((1, 2))}" for dim in range(self._ndim))
        return f"{view}[{', '.join(steps)}]"

    def _slices(self) -> str:
        shifts = (self._random.choice((0, 0, 0, 1, -1)) for _ in range(self._ndim))
        return ", ".join(f"b.min[{dim}] + {shift}:b.max[{dim}] + {shift}" for dim, shift in enumerate(shifts))

    def _components(self) -> str:
        """Assignments to the components of elements one by one, or to layers."""
        box, slices = self._box(), self._slices()
        forms = [f"e[{box}][..., {{}}]"] * self._has_elements + [f"l[{{}}, {slices}]"] * self._has_layers
        form = self._random.choice(forms)
        values = (
            self._random.choice((form.format((k + 1) % 3), self._expression(1, is_array=False))) for k in range(3)
        )
        return "; ".join(f"{form.format(k)} = {value}" for k, value in enumerate(values))

    def _padded(self) -> str:
        halo, mode = self._random.choice((2, 6)), self._random.choice(("constant", "edge", "wrap"))
        places = (self._random.choice((0, halo, halo - 1, 2 * halo)) for _ in range(self._ndim))
        index = ", ".join(f"{place}:{place} + b.shape[{dim}]" for dim, place in enumerate(places))
        value = ", value=1" if mode == "constant" and self._random.random() < 0.5 else ""
        return f'{self._random.choice(self._views)}.padded(b, {halo}, mode="{mode}"{value})[{index}]'

    def _numbers(self) -> str:
        """Random ones."""
        where = self._random.choice(("chunk", self._box()))
        key = f"3, {self._random.choice(('7', *self._scalars, 'b.shape[0]'))}"
        name = self._random.choice(("uniform", "normal", "bits"))
        if name == "bits":
            return f"celerity.random.bits({where}, {key})[..., {self._random.randrange(4)}]"
        return f"celerity.random.{name}({where}, {key}, dtype='{self._random.choice(('f4', 'f8'))}')"

    def _looked_up(self) -> str:
        """Elements of an array among the arguments: by numbers, slices and arrays of indices."""
        index = self._random.choice((f"chunk.index({self._random.randrange(self._ndim)})", self._operand()))
        forms = ("w0[1]", "w0[-1]", "w0[:1]", f"w0[{index} % 4]", f"w0[-1 - ({index} % 4)]", "w1[0, 2]", "w1[-1:, :1]")
        return self._random.choice(
            (*forms, f"w1[{index} % 2, 1]", f"w1[1, {index} % 3]", f"w1[{index} % 2, {index} % 3]")
        )

    def _single(self) -> str:
        """Elements of buffers without dimensions."""
        return self._random.choice(("z[()]", "y[()][1]", "y[()][2]"))

    def _into_single(self) -> str:
        element = f"{self._random.choice(self._views)}[{', '.join(f'b.min[{dim}]' for dim in range(self._ndim))}]"
        value = self._random.choice((self._fold(), f"{element} * 2", self._single(), f"{element} + {self._single()}"))
        target = self._random.choice(("z[()]", "y[()][0]", "y[()][1:]", "y[()]"))
        return f"{target} {self._random.choice(('=', '+='))} {value}"

    def _rows(self) -> str:
        """What does not depend on the order in which elements along some axes are combined."""
        forms = (
            "np.absolute({0}).min({1})",
            "np.absolute({0}).max({1})",
            "({0} > 1).sum({1})",
            "np.any({0} == 1, {1})",
        )
        if self._random.random() < 0.2:
            return self._random.choice(("({0}).argmax(0)", "np.argmin({0}, -1)")).format(self._operand())
        if self._random.random() < 0.1:
            return f"(({self._operand()}) > 1)[..., :2] @ (({self._operand()}) > 1)[..., :2, :]"
        axis = self._random.choice(("0", "0", "-1", "-1", "1", "(0, 1)", "(0, -1)"))
        value = self._operand() if self._random.random() < 0.5 else f"({self._operand()} + {self._operand()})"
        return self._random.choice(forms).format(value, f"axis={axis}{self._random.choice(('', ', keepdims=True'))}")

    def _operand(self, is_array: bool = True) -> str:
        if self._random.random() < 0.06:
            return self._padded()
        if self._has_more and self._random.random() < 0.3:
            return self._random.choice((self._numbers, self._rows, self._looked_up, self._single))()
        if self._has_elements and self._random.random() < 0.08:
            # A loop over rows adds up in another order.
            return f"e[{self._box()}].{'max' if has_short_texts(self._seed) else 'sum'}(axis=-1)"
        kind = self._random.random() * (0.85 if is_array else 1)
        if self._arrays and kind < 0.55:
            name = self._random.choice(self._arrays)
            forms = ("", "", "", "[::-1]", "[1:]", "[:-1]", ".T", "[..., None]", "[None]", "[..., :1]")
            return name + self._random.choice(forms)
        if kind < 0.85:
            return self._reference()
        if self._scalars and kind < 0.92:
            return self._random.choice((self._scalars[0], f"({self._random.choice(self._scalars)} * 3 - 1)"))
        if kind < 0.95:
            return f"chunk.index({self._random.randrange(self._ndim)})"
        return self._random.choice(
            ("2", "-1", "0", "1.5", "-0.0", "np.float32(3)", "np.int8(-1)", "200", "np.uint64(5)")
        )

    def _expression(self, depth: int = 2, is_array: bool = True) -> str:
        kind = self._random.random()
        if depth == 0 or kind < 0.2:
            return self._operand(is_array)
        first, second = self._expression(depth - 1), self._expression(depth - 1, is_array=False)
        if kind < 0.6:
            pair = (first, second) if self._random.random() < 0.7 else (second, first)
            return f"({pair[0]} {self._random.choice(_BINARY)} {pair[1]})"
        if kind < 0.7:
            return f"np.{self._random.choice(_CALLS)}({first}, {second})"
        if kind < 0.73:
            return f"({first} + {self._fold()})"
        if kind < 0.82:
            return f"np.{self._random.choice(_UNARY)}({first})"
        if kind < 0.84:
            return f"np.select([{first} > 0, {second} != 1], [{second}, {first}], {self._random.choice(('0', '1.5'))})"
        if kind < 0.88:
            return f"np.where({self._expression(0)}, {first}, {second})"
        if kind < 0.92:
            return f"np.clip({first}, {self._random.choice(('-1', '0', '2'))}, 3)"
        if kind < 0.96:
            return f"({first}).astype('{self._random.choice(('f2', 'f4', 'f8', '?'))}')"
        return f"({first}) ** 2"

    def _line(self, number: int) -> tuple[str, list[str]]:
        further = [self._combination] if self._results else []
        further += [self._components] if self._has_elements or self._has_layers else []
        further += [self._into_single] if self._has_more else []
        for make in further:
            if self._random.random() < 0.15:
                return make(), []
        kind, name = self._random.random(), f"t{number}"
        if kind < 0.2:
            return f"{name} = {self._reference()}{self._random.choice(('', '', '.copy()'))}", [name]
        if 0.3 < kind < 0.38:  # a value of which a part is replaced
            view, part = self._random.choice(self._views), self._random.choice(("[1:]", "[:-1]", "[0]", "[..., -1]"))
            return f"{name} = {view}[{self._box()}] + 0; {name}{part} = {view}[{self._box()}]{part}", [name]
        if kind < 0.25:  # a value that outlives its elements
            place = f"{self._random.choice(self._views)}[{self._box()}]"
            return f"{name} = {place} + 0; {place} = {self._expression(1, is_array=False)}", [name]
        if kind < 0.5 or not self._arrays:
            return f"{name} = {self._expression()}", [name]
        if kind < 0.53:
            kinds = ", ".join(self._random.choice((("2", "'i4'"), ("-0.0", "'f8'"), ("1", "'u1'"))))
            return f"{name} = xp.full(b.shape, {kinds})", [name]
        array = self._random.choice(self._arrays)
        if kind < 0.57:
            return f"{name} = {array}.copy()", [name]
        if kind < 0.62:
            return f"{name} = {self._random.choice((f'{array}[1:]', f'{array}[::-1]', array))}", [name]
        if kind < 0.75:
            return f"{array} {self._random.choice(_UPDATES)} {self._expression(1, is_array=False)}", []
        if kind < 0.82:
            part = self._random.choice(
                (array + "[1:]", array + "[:-1]", array + "[0]", array + "[...]", array + "[::-1]")
            )
            return f"{part} = {self._expression(1, is_array=False)}", []
        if kind < 0.88:
            return f"{self._reference()} {self._random.choice(_UPDATES)} {self._expression(1, is_array=False)}", []
        return f"{self._reference()} = {self._expression()}", []
