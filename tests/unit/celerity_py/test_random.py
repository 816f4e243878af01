# SPDX-License-Identifier: MIT
"""`celerity.random`: published test vectors, the same bits on any split and in CUDA C++, and distributions."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access, random
from celerity_py.errors import ArgumentTypeError, UsageError

ROOT = Path(__file__).parents[3]
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
MAKERS: dict[str, Any] = {"uniform": random.uniform, "normal": random.normal}
DTYPES = [np.float32, np.float64]
LINE = Box((0,), (100_000,))

#: Counter, key and result of philox4x32-10 in `kat_vectors` of the library Random123.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def box_of(*index: int) -> Box:
    """A single element."""
    return Box(index, [position + 1 for position in index])


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_the_bits_are_those_of_the_published_vectors(counter: Any, key: Any, words: Any) -> None:
    # One coordinate may have more than 32 bits, and brings the last word of the counter.
    index = (counter[0] | (counter[3] & 0x7FFFFFFF) << 32, counter[1], counter[2])
    if counter[3] < 2**31:
        np.testing.assert_array_equal(random.bits(box_of(*index), *key).ravel(), words)
    found = random._philox([np.full(1, word, np.uint64) for word in counter], *key)
    assert [int(word[0]) for word in found] == list(words)


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_cuda_c_has_the_same_bits(tmp_path: Path) -> None:
    program = tmp_path / "check"
    command = [str(COMPILER), "-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
    source = ROOT / "tests/unit/celerity_py/cuda/random_header_check.cpp"
    subprocess.run(
        [*command, f"-I{ROOT / 'celerity_py/cuda'}", str(source), "-o", str(program)], check=True, timeout=60
    )
    record = np.dtype([("bits", "4u4"), ("ud", "f8"), ("nd", "f8"), ("uf", "f4"), ("nf", "f4")])
    for box, seed, stream in (
        (Box((0, 0, 0), (30, 40, 50)), 0, 0),
        (Box((2**40, 7, 2**32 - 3), (2**40 + 2, 9, 2**32)), 2**32 - 1, 5),
        (Box((0, 3, 2**62), (1, 4, 2**62 + 9)), 3, 2**32 - 1),
    ):
        last = [high - 1 for high in box.max]
        output = subprocess.run(
            [str(program), *map(str, [*box.min, *last, seed, stream])], check=True, capture_output=True, timeout=60
        ).stdout
        found = np.frombuffer(output, record).reshape(box.shape)
        np.testing.assert_array_equal(found["bits"], random.bits(box, seed, stream))
        for name, make in MAKERS.items():
            for dtype in DTYPES:
                made = make(box, seed, stream, dtype=dtype)
                assert made.dtype == dtype
                np.testing.assert_array_equal(found[name[0] + "fd"[dtype == np.float64]], made)


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
def test_the_kernel_for_cupy_gives_each_element_its_own_number(tmp_path: Path) -> None:
    """CuPy has no part in this: it runs the same lines for each `i`."""
    stubs = (ROOT / "tests/unit/celerity_py/cuda/random_header_check.cpp").read_text().partition("namespace {")[0]
    names = ["low_0", "low_1", "low_2", "extent_1", "extent_2", "seed", "stream"]
    program, source = tmp_path / "check", tmp_path / "check.cpp"
    source.write_text(
        stubs
        + f"""
#include <vector>
using T = double;
int main(int, char** arguments) {{
    long long {", ".join(f"{name} = std::atoll(arguments[{n}])" for n, name in enumerate(names, 1))};
    std::vector<T> out(std::atoll(arguments[8]));
    for (std::size_t i = 0; i < out.size(); ++i) {{ {random._source("normal")} }}
    std::fwrite(out.data(), sizeof(T), out.size(), stdout);
}}
"""
    )
    command = [str(COMPILER), "-std=c++17", "-ffp-contract=off", f"-I{ROOT / 'celerity_py/cuda'}", str(source)]
    subprocess.run([*command, "-Wno-narrowing", "-o", str(program)], check=True, timeout=60)
    for box in (Box((), ()), Box((5,), (17,)), Box((2, 3), (7, 6)), Box((1, 2, 3), (4, 7, 5))):
        numbers = [str(number) for number in (*random._numbers(box, 3, 4), box.size)]
        output = subprocess.run([str(program), *numbers], check=True, capture_output=True, timeout=60).stdout
        expected = random.normal(box, 3, 4, dtype=np.float64)
        np.testing.assert_array_equal(np.frombuffer(output).reshape(box.shape), expected)


@pytest.mark.parametrize("shape", [(), (41,), (9, 7), (5, 4, 3)])
@pytest.mark.parametrize("name", MAKERS)
def test_the_numbers_are_the_same_on_any_split(queue: celerity.Queue, name: str, shape: tuple[int, ...]) -> None:
    def draw(chunk: Any, out: Any, seed: int) -> None:
        out[chunk.box] = MAKERS[name](chunk, seed, 4)

    u = celerity.Buffer(shape)
    queue.parallel_for(shape, draw, u.write(access.one_to_one()), 7)
    whole = MAKERS[name](Box([0] * len(shape), shape), 7, stream=4)
    np.testing.assert_array_equal(queue.fence(u).result(10), whole)


def test_fused_kernels_have_the_same_numbers_for_each_step() -> None:
    pytest.importorskip("numba")
    far = Box((2**40, 2**32 - 5, 7), (2**40 + 2, 2**32 + 5, 8))

    @celerity.fuse
    def draw(chunk: Any, bits: Any, numbers: Any, seed: int, step: Any) -> None:
        box = Box((2**40, 2**32 - 5, 7), (2**40 + 2, 2**32 + 5, 8))
        bits[:] = random.bits(box, seed, step)
        numbers[:] = random.normal(box, seed, step + 1, dtype=float)

    with celerity.Queue() as queue:
        bits, numbers = celerity.Buffer(far.shape, np.uint32, element=(4,)), celerity.Buffer(far.shape, float)
        given = bits.write(access.all()), numbers.write(access.all())
        for step in (4, 2**32 - 2):
            queue.parallel_for(1, draw, *given, 7, step)
            assert not draw.why_not
            np.testing.assert_array_equal(queue.fence(bits).result(), random.bits(far, 7, step))
            np.testing.assert_array_equal(queue.fence(numbers).result(), random.normal(far, 7, step + 1, dtype=float))
        assert len(draw.made) == 1  # one text for both
        with pytest.raises(UsageError, match=r"stream=4294967296\): from 0 to 2\*\*32 - 1"):
            queue.parallel_for(1, draw, *given, 7, 2**32 - 1)
        with pytest.raises(ArgumentTypeError, match=r"takes an integer, not 2\.5"):
            queue.parallel_for(1, draw, *given, 7, 2.5)


@pytest.mark.parametrize("name", MAKERS)
def test_a_large_box_has_the_numbers_of_its_parts(name: str) -> None:
    make = MAKERS[name]
    box = Box((5, 1000), (10, 9999))
    whole = make(box, 1)
    for part in (Box((5, 1000), (6, 1001)), Box((7, 5000), (9, 9999)), Box((9, 9990), (10, 9999))):
        np.testing.assert_array_equal(whole[part.relative_slices(box)], make(part, 1))
    assert make(Box((3, 3), (3, 3)), 1).shape == (0, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform_numbers_fill_the_interval(dtype: Any) -> None:
    found = random.uniform(LINE, 3, dtype=dtype)
    assert 0 <= found.min() < 1e-4
    assert 1 - 1e-4 < found.max() < 1
    counts = np.histogram(found, 100, (0, 1))[0]
    assert np.sum((counts - 1000.0) ** 2 / 1000) < 170  # chi-square of 99 degrees of freedom: once in 100 000


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_numbers_have_the_normal_distribution(dtype: Any) -> None:
    found = np.sort(random.normal(LINE, 3, dtype=dtype))
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in found[::100].tolist()])
    assert np.abs(below - np.arange(0, 1, 1 / 1000)).max() < 0.007  # Kolmogorov: once in 10 000
    assert found[0] < -3.8
    assert found[-1] > 3.8


def test_normal_numbers_are_those_of_box_and_muller() -> None:
    words = random.bits(Box((0,), (1000,)), 9).astype(np.int64)
    radius = [math.sqrt(-2 * math.log((a + 1) / 2**32)) for a in words[:, 0].tolist()]
    cosine = [math.cos(2 * math.pi * b / 2**32) for b in words[:, 1].tolist()]
    expected = np.array(radius) * cosine
    np.testing.assert_allclose(random.normal(Box((0,), (1000,)), 9), expected, rtol=1e-6, atol=1e-15)
    first = (words[:, 0] >> 5 << 26) + (words[:, 1] >> 6) + 1
    turn = words[:, 2] / 2**32 + (words[:, 3] >> 11) / 2**53
    expected = np.sqrt(-2 * np.log(first / 2**53)) * np.cos(2 * np.pi * turn)
    np.testing.assert_allclose(random.normal(Box((0,), (1000,)), 9, dtype=float), expected, rtol=1e-12, atol=1e-14)


def test_seeds_streams_and_elements_have_numbers_of_their_own() -> None:
    box = Box((0, 0), (50, 60))
    drawn = [random.bits(box, *key) for key in ((0, 0), (1, 0), (0, 1), (1, 1), (2**32 - 1, 0))]
    drawn += [random.bits(Box((2**32, 0), (2**32 + 50, 60)), 0), random.bits(Box((0, 2**33), (50, 2**33 + 60)), 0)]
    assert len(np.unique(np.stack(drawn).reshape(-1, 4), axis=0)) == 7 * 3000


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (((4, 4), 1), ArgumentTypeError, r"takes the chunk of a kernel, or a box, not \(4, 4\)"),
        ((Box((-1,), (4,)), 1), UsageError, "takes global coordinates from 0"),
        ((LINE, 1.5), ArgumentTypeError, r"uniform\(seed=...\) takes an integer, not 1.5"),
        ((LINE, True), ArgumentTypeError, r"uniform\(seed=...\) takes an integer, not True"),
        ((LINE, -1), UsageError, r"seed=-1\): from 0 to 2\*\*32 - 1"),
        ((LINE, 1, 2**32), UsageError, r"stream=4294967296\): from 0"),
    ],
)
def test_arguments_out_of_their_range_are_refused(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        random.uniform(*arguments)


@pytest.mark.parametrize("xp", [0, "numpy", math, np.zeros(2)])
def test_numbers_are_made_by_numpy_or_cupy(xp: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"uniform\(xp=\.\.\.\) takes the module numpy or cupy"):
        random.uniform(LINE, 1, xp=xp)


@pytest.mark.parametrize("dtype", [None, "real", np.float32(1)])
def test_what_is_no_type_is_refused(dtype: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"normal\(\) takes a dtype, such as"):
        random.normal(LINE, 1, dtype=dtype)


@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64"])
def test_other_types_are_refused(dtype: str) -> None:
    with pytest.raises(UsageError, match=rf"makes float32 or float64, not {dtype}"):
        random.normal(LINE, 1, dtype=dtype)
