# SPDX-License-Identifier: MIT
"""Random numbers by global index, the same bits on any number of ranks and devices, on CPUs and GPUs.

Each number depends on the coordinates of its element, on the seed and on the stream, and on nothing else. So every
chunk computes its own part of one random array, and any chunk can compute the numbers of any other. The functions take
a chunk of a kernel, and return an array for its box: of NumPy on the CPU backend, of CuPy on GPUs. Kernels in CUDA C++
call `celerity::random::uniform<float>(item, seed, stream)` and `celerity::random::normal<float>(item, seed, stream)`.

The counter of Philox 4x32-10 consists of the coordinates, its key of seed and stream. Two calls with equal seed and
stream get the same bits: take another stream for each quantity and each step. Any thread may call these functions.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, overload

import numpy as np

from celerity_py._native import Box
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.integers import to_int
from celerity_py.vocabulary.type_rules import to_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

    from celerity_py.vocabulary.parts import Chunk, Part

__all__ = ["bits", "normal", "uniform"]

Float = TypeVar("Float", np.float32, np.float64)

_PIECE: Final = 1 << 14  # elements at a time, so that they stay in the cache of a core
ROUNDS: Final = 10
FACTORS: Final = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
KEY_STEPS: Final = 0x9E3779B9, 0xBB67AE85
_WORD: Final = 0xFFFFFFFF
HALF: Final = np.uint64(32)
#: (pi / 2)**n / n! with alternating signs, from n = 21 down to 1; as in celerity_random.cuh.
SINE: Final = (
    *(2.571422892860474e-16, -4.377065467313742e-14, 6.0669357311061955e-12, -6.688035109811468e-10),
    *(5.692172921967927e-08, -3.598843235212085e-06, 0.00016044118478735983, -0.004681754135318688),
    *(0.07969262624616705, -0.6459640975062463, 1.5707963267948966),
)


def bits(
    where: Chunk | Part | Box, seed: int, stream: int = 0, *, xp: ModuleType | None = None
) -> npt.NDArray[np.uint32]:
    """Random bits: 128 for each element of a box.

    Args:
        where: A chunk of a kernel, a part of a host task, or a box, in global coordinates.
        seed: From 0 to 2**32 - 1, the same on all ranks.
        stream: From 0 to 2**32 - 1, such as the number of a step. Another stream has other numbers.
        xp: NumPy or CuPy; by default that of the chunk, or NumPy.

    Returns:
        uint32, with the shape of the box and a last dimension of 4.

    Raises:
        ArgumentTypeError: If an argument has another type.
        UsageError: If a number or coordinate is out of its range.
    """
    made: npt.NDArray[np.uint32] = _make("bits", where, (seed, stream), np.uint32, xp)
    return made


@overload
def uniform(
    where: Chunk | Part | Box, seed: int, stream: int = 0, *, xp: ModuleType | None = None
) -> npt.NDArray[np.float32]: ...
@overload
def uniform(
    where: Chunk | Part | Box, seed: int, stream: int = 0, *, dtype: type[Float], xp: ModuleType | None = None
) -> npt.NDArray[Float]: ...
@overload
def uniform(
    where: Chunk | Part | Box, seed: int, stream: int = 0, *, dtype: npt.DTypeLike, xp: ModuleType | None = None
) -> npt.NDArray[Any]: ...
def uniform(
    where: Chunk | Part | Box,
    seed: int,
    stream: int = 0,
    *,
    dtype: npt.DTypeLike = np.float32,
    xp: ModuleType | None = None,
) -> npt.NDArray[Any]:
    """Numbers of the uniform distribution in [0, 1): multiples of 2**-24 as float32, of 2**-53 as float64.

    Args:
        where: As for `bits`.
        seed: As for `bits`.
        stream: As for `bits`.
        dtype: float32 or float64.
        xp: As for `bits`.

    Returns:
        An array with the shape of the box.

    Raises:
        ArgumentTypeError: If an argument has another type.
        UsageError: If a number or coordinate is out of its range, or `dtype` is another one.
    """
    made: npt.NDArray[Any] = _make("uniform", where, (seed, stream), dtype, xp)
    return made


@overload
def normal(
    where: Chunk | Part | Box, seed: int, stream: int = 0, *, xp: ModuleType | None = None
) -> npt.NDArray[np.float32]: ...
@overload
def normal(
    where: Chunk | Part | Box, seed: int, stream: int = 0, *, dtype: type[Float], xp: ModuleType | None = None
) -> npt.NDArray[Float]: ...
@overload
def normal(
    where: Chunk | Part | Box, seed: int, stream: int = 0, *, dtype: npt.DTypeLike, xp: ModuleType | None = None
) -> npt.NDArray[Any]: ...
def normal(
    where: Chunk | Part | Box,
    seed: int,
    stream: int = 0,
    *,
    dtype: npt.DTypeLike = np.float32,
    xp: ModuleType | None = None,
) -> npt.NDArray[Any]:
    """Numbers of the normal distribution with mean 0 and variance 1; at most 6.7 from 0 as float32, 8.6 as float64.

    Args:
        where: As for `bits`.
        seed: As for `bits`.
        stream: As for `bits`.
        dtype: float32 or float64.
        xp: As for `bits`.

    Returns:
        An array with the shape of the box.

    Raises:
        ArgumentTypeError: If an argument has another type.
        UsageError: If a number or coordinate is out of its range, or `dtype` is another one.
    """
    made: npt.NDArray[Any] = _make("normal", where, (seed, stream), dtype, xp)
    return made


# ---- arguments

_Call: TypeAlias = Literal["bits", "uniform", "normal"]
_Array: TypeAlias = Any  # of NumPy, whose stubs know little of arithmetic with numbers


class _Traced(threading.local):
    """The function of a fused kernel that the thread traces."""

    #: Makes the arrays of (call, box, seed and stream, dtype) in the place of this module.
    make: Callable[..., Any] | None = None


TRACED: Final = _Traced()


def _make(call: _Call, where: Any, key: tuple[Any, Any], dtype: npt.DTypeLike, xp: Any) -> Any:
    box = where if isinstance(where, Box) else getattr(where, "box", None)
    if not isinstance(box, Box):
        raise ArgumentTypeError(f"random.{call}() takes the chunk of a kernel, or a box, not {where!r}.")
    if any(low < 0 for low in box.min):
        raise UsageError(f"random.{call}() takes global coordinates from 0, not the box {box}.")
    kind = to_dtype(dtype, f"random.{call}()")
    if call != "bits" and kind not in {np.dtype(np.float32), np.dtype(np.float64)}:
        raise UsageError(f"random.{call}() makes float32 or float64, not {kind}. Convert them: .astype({kind.name!r}).")
    if xp is None:
        xp = getattr(where, "xp", np)
    elif getattr(xp, "__name__", "") not in {"numpy", "cupy"}:
        raise ArgumentTypeError(f"random.{call}(xp=...) takes the module numpy or cupy, such as chunk.xp, not {xp!r}.")
    words = dict(zip(("seed", "stream"), key, strict=True))
    if TRACED.make is not None:
        return TRACED.make(call, box, words, kind)
    seed, stream = (key_word(call, name, word) for name, word in words.items())
    out = xp.empty((*box.shape, 4) if call == "bits" else box.shape, kind)
    if xp is not np:
        _fill_on_gpu(call, box, seed, stream, out)
        return out
    for piece in _pieces(box):
        out[piece.relative_slices(box) or ...] = _OF_WORDS[call](_philox(_counter(piece), seed, stream), kind)
    return out


def key_word(call: str, name: str, given: Any) -> int:
    """A seed or a stream, as a number.

    Raises:
        ArgumentTypeError: If it is no integer.
        UsageError: If it is out of its range.
    """
    try:
        word = to_int(given)
    except TypeError:
        raise ArgumentTypeError(f"random.{call}({name}=...) takes an integer, not {given!r}.") from None
    if not 0 <= word <= _WORD:
        raise UsageError(f"random.{call}({name}={word}): from 0 to 2**32 - 1 are possible.")
    return word


# ---- on the CPU: words are arrays of uint64 below 2**32


def _pieces(box: Box) -> Iterator[Box]:
    """Parts of a box with few elements."""
    if box.size <= _PIECE:
        yield box
        return
    dim = max(range(box.ndim), key=box.shape.__getitem__)
    middle = (box.min[dim] + box.max[dim]) // 2
    for low, high in ((box.min[dim], middle), (middle, box.max[dim])):
        yield from _pieces(Box([*box.min[:dim], low, *box.min[dim + 1 :]], [*box.max[:dim], high, *box.max[dim + 1 :]]))


def _counter(box: Box) -> list[_Array]:
    counter = [np.zeros((), np.uint64) for _ in range(4)]
    for dim, (low, high) in enumerate(zip(box.min, box.max, strict=True)):
        coordinates = np.arange(low, high, dtype=np.uint64).reshape([-1 if d == dim else 1 for d in range(box.ndim)])
        counter[dim] = coordinates & np.uint64(_WORD)
        # A buffer has fewer than 2**63 elements, so at most one of its coordinates has more than 32 bits.
        counter[3] = counter[3] ^ (coordinates >> HALF)
    return [np.broadcast_to(word, box.shape) for word in counter]


def _philox(words: list[_Array], *key: int) -> list[_Array]:
    """Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011)."""
    c0, c1, c2, c3 = words
    for number in range(ROUNDS):
        k0, k1 = (np.uint64((word + number * step) & _WORD) for word, step in zip(key, KEY_STEPS, strict=True))
        a, b = FACTORS[0] * c0, FACTORS[1] * c2
        c0, c1 = (b >> HALF) ^ c1 ^ k0, b & np.uint64(_WORD)
        c2, c3 = (a >> HALF) ^ c3 ^ k1, a & np.uint64(_WORD)
    return [c0, c1, c2, c3]


def _bits_of(words: list[_Array], dtype: np.dtype[Any]) -> _Array:
    return np.stack(words, axis=-1).astype(dtype)


def _uniform_of(words: list[_Array], dtype: np.dtype[Any]) -> _Array:
    if dtype.itemsize == 4:
        return (words[0] >> np.uint64(8)).astype(dtype) * dtype.type(2**-24)
    return _join(words[0], words[1]).astype(dtype) * dtype.type(2**-53)


def _normal_of(words: list[_Array], dtype: np.dtype[Any]) -> _Array:
    """By Box and Muller. Each operation rounds as on a GPU, so that the bits are the same."""
    a, b, c, d = words
    if dtype.itemsize == 4:
        radius_of, angle, part = (a.astype(float) + 1) * 2**-32, b, (b & np.uint64(0x3FFFFFFF)) * 2**-30
    else:
        joined = ((c & np.uint64(0x3FFFFFFF)) << np.uint64(21)) + (d >> np.uint64(11))
        radius_of, angle, part = (_join(a, b) + np.uint64(1)) * 2**-53, c, joined * 2**-51
    quadrant = angle >> np.uint64(30)
    cosine = _sine(np.where(quadrant % 2 == 0, 1 - part, part))
    radius = np.sqrt(-2 * _log(radius_of))
    return (radius * np.where((quadrant == 1) | (quadrant == 2), -cosine, cosine)).astype(dtype)


def _join(high: _Array, low: _Array) -> _Array:
    """53 of 64 bits."""
    return ((high >> np.uint64(5)) << np.uint64(26)) + (low >> np.uint64(6))


def _log(x: _Array) -> _Array:
    """The natural logarithm, for 0 < x <= 1, by the series of artanh."""
    mantissa, exponent = np.frexp(x)
    is_small = mantissa < 0.7071067811865476
    mantissa, exponent = np.where(is_small, 2 * mantissa, mantissa), exponent - is_small
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    total = np.full_like(s, 1 / 23)
    for n in range(21, 0, -2):
        total = total * square + 1 / n
    return 2 * s * total + exponent * 0.6931471805599453


def _sine(x: _Array) -> _Array:
    """The sine of x right angles, for 0 <= x <= 1, by its series."""
    square = x * x
    total = np.full_like(x, SINE[0])
    for factor in SINE[1:]:
        total = total * square + factor
    return x * total


_OF_WORDS: Final[dict[str, Callable[..., _Array]]] = {
    "bits": _bits_of,
    "uniform": _uniform_of,
    "normal": _normal_of,
}


# ---- on GPUs


def _fill_on_gpu(call: _Call, box: Box, seed: int, stream: int, out: Any) -> None:
    _gpu_kernel(call)(*_numbers(box, seed, stream), out, size=box.size)


def _numbers(box: Box, seed: int, stream: int) -> list[Any]:
    """The arguments of the kernel, as `_PARAMETERS` lists them."""
    lacking = 3 - box.ndim
    low = [*box.min, *[0] * lacking]
    extents = [*box.shape, *[1] * lacking]
    return [*map(np.int64, low), *map(np.int64, extents[1:]), np.uint32(seed), np.uint32(stream)]


@functools.cache
def _gpu_kernel(call: _Call) -> Any:
    import cupy

    return cupy.ElementwiseKernel(*_PARAMETERS, _source(call), f"celerity_random_{call}", preamble=_header())


_PARAMETERS: Final = (
    "int64 low_0, int64 low_1, int64 low_2, int64 extent_1, int64 extent_2, uint32 seed, uint32 stream",
    "raw T out",
)


def _source(call: _Call) -> str:
    """For element i of a box of three dimensions."""
    make = f"out[i] = celerity::random::{call}<T>(where, seed, stream);"
    if call == "bits":
        make = """
        const auto random = celerity::random::bits_of(where, seed, stream);
        for (int w = 0; w < 4; ++w) out[4 * i + w] = random.words[w];
        """
    return f"""
        const struct {{ long long index[3]; }} where = {{{{
            low_0 + i / extent_2 / extent_1, low_1 + i / extent_2 % extent_1, low_2 + i % extent_2}}}};
        {make}
    """


def _header() -> str:
    return (Path(__file__).parent / "cuda" / "celerity_random.cuh").read_text().replace("#pragma once\n", "")
