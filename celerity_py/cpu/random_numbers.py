# SPDX-License-Identifier: MIT
"""Random numbers of fused kernels for numba: those of `celerity_py.random`, with the names of `celerity_random.cuh`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba.core.types import float32, float64, int64, uint32, uint64

from celerity_py.cpu.operations import _inlined, same_bits, sqrt_, where_
from celerity_py.random import FACTORS, HALF, KEY_STEPS, ROUNDS, SINE

_FACTOR_0, _FACTOR_1 = FACTORS
_STEP_0, _STEP_1 = map(np.uint64, KEY_STEPS)
_WORD: Final = np.uint64(0xFFFFFFFF)
_QUARTER: Final = np.uint64(0x3FFFFFFF)
_5, _6, _8, _11, _21, _26, _30 = map(np.uint64, (5, 6, 8, 11, 21, 26, 30))
_LOG: Final = tuple(1 / n for n in range(23, 0, -2))
_ONE, _TWO = np.uint64(1), np.uint64(2)


@_inlined
def _philox(i: Any, j: Any, k: Any, seed: Any, stream: Any) -> Any:
    a, b, c = uint64(i), uint64(j), uint64(k)
    d = (a >> HALF) ^ (b >> HALF) ^ (c >> HALF)
    a, b, c = a & _WORD, b & _WORD, c & _WORD
    key_0, key_1 = uint64(seed), uint64(stream)
    for _ in range(ROUNDS):
        first, second = _FACTOR_0 * a, _FACTOR_1 * c
        a, b = (second >> HALF) ^ b ^ key_0, second & _WORD
        c, d = (first >> HALF) ^ d ^ key_1, first & _WORD
        key_0, key_1 = (key_0 + _STEP_0) & _WORD, (key_1 + _STEP_1) & _WORD
    return a, b, c, d


@_inlined
def _join(high: Any, low: Any) -> Any:
    return ((high >> _5) << _26) + (low >> _6)


@_inlined
def _log(x: Any) -> Any:
    bits = int64(same_bits(x))
    exponent = (bits >> 52) - 1022
    mantissa = same_bits(uint64((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000))
    is_small = mantissa < 0.7071067811865476
    mantissa, exponent = where_(is_small, 2 * mantissa, mantissa), where_(is_small, exponent - 1, exponent)
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    total = _LOG[0]
    for place in range(1, len(_LOG)):
        total = total * square + _LOG[place]
    return 2 * s * total + exponent * 0.6931471805599453


@_inlined
def _sine(x: Any) -> Any:
    square = x * x
    total = SINE[0]
    for place in range(1, len(SINE)):
        total = total * square + SINE[place]
    return x * total


@_inlined
def _normal(u: Any, angle: Any, part: Any) -> Any:
    quadrant = angle >> _30
    cosine = _sine(where_((quadrant & _ONE) == 0, 1 - part, part))
    radius = sqrt_(-2 * _log(u))
    return radius * where_((quadrant == _ONE) | (quadrant == _TWO), -cosine, cosine)


@_inlined
def random_uniform32_(i: Any, j: Any, k: Any, seed: Any, stream: Any) -> Any:
    """As float32."""
    return float32(_philox(i, j, k, seed, stream)[0] >> _8) * float32(2**-24)


@_inlined
def random_uniform64_(i: Any, j: Any, k: Any, seed: Any, stream: Any) -> Any:
    """As float64."""
    a, b, _, _ = _philox(i, j, k, seed, stream)
    return float64(_join(a, b)) * 2**-53


@_inlined
def random_normal32_(i: Any, j: Any, k: Any, seed: Any, stream: Any) -> Any:
    """As float32."""
    a, b, _, _ = _philox(i, j, k, seed, stream)
    return float32(_normal((float64(a) + 1) * 2**-32, b, float64(b & _QUARTER) * 2**-30))


@_inlined
def random_normal64_(i: Any, j: Any, k: Any, seed: Any, stream: Any) -> Any:
    """As float64."""
    a, b, c, d = _philox(i, j, k, seed, stream)
    part = ((c & _QUARTER) << _21) + (d >> _11)
    return _normal(float64(_join(a, b) + _ONE) * 2**-53, c, float64(part) * 2**-51)


@_inlined
def random_bits_(i: Any, j: Any, k: Any, seed: Any, stream: Any, word: Any) -> Any:  # noqa: PLR0917 - as in the text
    """One of the four words of an element."""
    a, b, c, d = _philox(i, j, k, seed, stream)
    return uint32(where_(word < 2, where_(word == 0, a, b), where_(word == 2, c, d)))
