# SPDX-License-Identifier: MIT
"""Every operation of fused kernels on every dtype, for the operands at which languages differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from celerity_py import Box
from tests.support.fused_kernels import Access

BOX = Box((0,), (1,))
KINDS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
MIXED = (("i1", "u8"), ("u8", "i8"), ("i8", "u8"), ("f2", "i1"), ("f2", "i4"), ("f4", "i8"), ("?", "i1"), ("f4", "f8"))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, -7.25, 1e-7, 6e-8, 65504.0, 1e-45, 3e38, np.inf, -np.inf, np.nan)
ARITHMETIC = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "minimum", "maximum"),
    *("left_shift", "right_shift", "fmin", "fmax", "copysign"),
)
#: Operations that differ from those of their family by a sign in the text.
FAMILIES = (
    ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    ("logical_and", "logical_or", "logical_xor"),
    ("bitwise_and", "bitwise_or", "bitwise_xor"),
)
BINARY = (*ARITHMETIC, *(name for family in FAMILIES for name in family))
UNARY = (
    *("negative", "positive", "absolute", "sign", "square", "sqrt", "floor", "ceil", "trunc", "rint"),
    *("isnan", "isinf", "isfinite", "logical_not", "invert", "signbit"),
)
#: Within so many units in the last place of NumPy's own float64 and float32.
FUNCTIONS = {"exp": 2, "log": 2, "sin": 2, "cos": 2, "tanh": 3, "arctan": 2, "cbrt": 2, "expm1": 2, "log1p": 2}


def values_of(kind: str) -> Any:
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(FLOATS).astype(dtype)
    limits, bits = np.iinfo(dtype), 8 * dtype.itemsize
    numbers = {limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1}
    return np.array(sorted(numbers | ({-1, -2, -7} if dtype.kind == "i" else set())), dtype)


def pairs_of(first: str, second: str) -> tuple[Any, Any]:
    """Each operand of one dtype with each one of the other."""
    a, b = values_of(first), values_of(second)
    return np.repeat(a, len(b)), np.tile(b, len(a))


@dataclass
class Sheet:
    """A function on many arrays, and what NumPy makes of them."""

    function: Callable[..., None]
    arguments: list[Access]
    expected: list[Access]


def sheet_of(ufunc: Any, operands: list[tuple[Any, ...]]) -> Sheet:
    """A ufunc on operands of many dtypes."""
    arguments: list[Access] = []
    expected: list[Access] = []
    places: list[tuple[int, ...]] = []
    for arrays in operands:
        try:
            with np.errstate(all="ignore"):
                result = ufunc(*arrays)
        except TypeError:
            continue  # NumPy has no such operation
        places.append(tuple(range(len(arguments), len(arguments) + len(arrays) + 1)))
        arguments += [Access(array) for array in (*arrays, np.zeros_like(result))]
        expected += [Access(array) for array in (*arrays, result)]

    def function(chunk: Any, *views: Any) -> None:
        for *inputs, output in places:
            views[output][...] = ufunc(*(views[place][...] for place in inputs))

    return Sheet(function, arguments, expected)


def sheets(*, half: int | None = None) -> dict[str, Sheet]:
    """By operation. A half, 0 or 1, has every other pair of dtypes, and each pair with two operations of a family."""
    pairs: list[tuple[Any, ...]] = [pairs_of(*kinds) for kinds in (*((kind, kind) for kind in KINDS), *MIXED)]
    made: dict[str, list[tuple[Any, ...]]] = dict.fromkeys(BINARY, pairs)
    if half is not None:
        made = dict.fromkeys(BINARY, pairs[half::2])
    for family in FAMILIES if half is not None else ():
        for place, name in enumerate(family):
            made[name] = [pair for turn, pair in enumerate(pairs) if (turn - place) % len(family) < 2]
    made |= {name: [(values_of(kind),) for kind in KINDS] for name in UNARY}
    positive = np.linspace(0.1, 4, 50)
    made |= {name: [(positive.astype(kind),) for kind in ("f4", "f8")] for name in FUNCTIONS}
    return {name: sheet_of(getattr(np, name), operands) for name, operands in made.items()}


def _of_conversions(pairs: list[tuple[Any, Any]]) -> Sheet:
    def function(chunk: Any, *views: Any) -> None:
        for source, target in zip(views[::2], views[1::2], strict=True):
            target[...] = source[...].astype(target.dtype)

    with np.errstate(all="ignore"):
        expected = [Access(array) for one, other in pairs for array in (one, one.astype(other.dtype))]
    return Sheet(function, [Access(array) for pair in pairs for array in pair], expected)


def conversions(*, half: int | None = None) -> Sheet:
    """From every dtype to every other one, but for those for which no rule holds; or half of these, 0 or 1."""
    kinds = [(one, other) for one in KINDS for other in KINDS if not (one[0] == "f" and other[0] in "iu")]
    chosen = kinds if half is None else kinds[half::2]
    return _of_conversions([(values_of(one), np.zeros(len(values_of(one)), other)) for one, other in chosen])


def every_half() -> Sheet:
    """Every number of float16, and numbers beside and between those."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = every.astype("f4")
        wide = np.concatenate([exact, np.nextafter(exact, np.float32(0)), exact * np.float32(1.0004883)])
        double = wide.astype("f8") * (1 + 2**-40)
    outputs = np.zeros(len(every), "f4"), np.zeros(len(wide), "f2"), np.zeros(len(wide), "f2")
    inputs: tuple[Any, ...] = every, wide, double
    return _of_conversions(list(zip(inputs, outputs, strict=True)))


def products_of_complex_numbers() -> Sheet:
    """Operations for which no rule about bits holds."""
    draws = np.random.default_rng(5)
    a, b = (draws.standard_normal(100) + 1j * draws.standard_normal(100) for _ in range(2))
    real = draws.standard_normal(100)

    def compute(a: Any, b: Any, real: Any) -> tuple[Any, ...]:
        return a * b, a / b, abs(a * 3j), a**2, 1 / b, a**-1, real * b, (1 + 2j) * real

    def function(chunk: Any, *views: Any) -> None:
        results = compute(*(view[...] for view in views[:3]))
        for view, result in zip(views[3:], results, strict=True):
            view[...] = result

    results = compute(a, b, real)
    arguments = [Access(array) for array in (a, b, real, *map(np.zeros_like, results))]
    return Sheet(function, arguments, [Access(array) for array in (a, b, real, *results)])
