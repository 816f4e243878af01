# SPDX-License-Identifier: MIT
"""CELERITY_CHECK: unwritten elements, elements from outside of a region, and programs on one device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access
from celerity_py.calls.call_checks import CallChecks, box_around, box_around_first
from celerity_py.calls.fill_patterns import fill_of, outside, position_of
from tests.support.scripts import line_of, run

DTYPES = (
    *("int8", "uint8", "int16", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128", "bool"),
    *("datetime64[s]", "S3", "longdouble"),
)
RECORD = np.dtype([("a", np.float32), ("b", np.int8)], align=True)


@pytest.fixture(params=[1, 3])
def checked_queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices=f"cpu:{request.param}", check=True, horizon_step=2)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, check=None, horizon_step=None)


def told_of(tmp_path: Path, program: str, devices: int = 1) -> str:
    """The message of a program that must fail, with all checks."""
    result = run(tmp_path, f"celerity.configure(devices='cpu:{devices}')\n{program}", CELERITY_CHECK="1")
    assert result.returncode == 1, result.stderr
    assert result.stdout == "", "it went on behind the mistake"
    return result.stderr


# ---- elements left unwritten

LEAVES = """
out = celerity.Buffer((8, 6), DTYPE, name="out")
old = celerity.Buffer.from_array(np.ones((8, 6), DTYPE), name="old")

def partly(chunk, out, *others):
    BODY

with celerity.Queue() as queue:
    queue.SUBMIT  # the line
    queue.wait()
    print("not reached")
"""
KERNEL = 'parallel_for((8, 6), partly, out.write(access.one_to_one()), name="partly")'
HOST_TASK = 'host_task(partly, out.write(access.all()), name="partly")'


def leaves(body: str, dtype: str = "np.float32", submit: str = KERNEL) -> str:
    return LEAVES.replace("BODY", body).replace("DTYPE", dtype).replace("SUBMIT", submit)


@pytest.mark.parametrize("dtype", ["np.float32", "np.int64", "np.uint8", "np.bool_", "np.complex128"])
@pytest.mark.parametrize(
    ("body", "first"),
    [("pass", "[0:4, 0:6]"), ("out[1:3, 1:] = 0", "[0:1, 0:6]"), ("out[:, 0:2] = 1", "[0:4, 2:6]")],
)
def test_elements_left_unwritten_are_an_error_behind_the_kernel(
    tmp_path: Path, body: str, first: str, dtype: str
) -> None:
    told = told_of(tmp_path, leaves(body, dtype))
    where = re.escape(line_of(tmp_path, "# the line"))
    wanted = (
        rf'IncompleteWrite: kernel "partly" \(submitted at {where}\) declares write access to B1 "out" \[0:4, 0:6\]'
    )
    # A written byte may equal its random pattern, and counts as unwritten beside those that are.
    box = r"\[.*\]" if dtype == "np.uint8" else re.escape(first)
    assert re.search(rf"{wanted}, but leaves \d+ of these 24 elements unwritten, first {box}\.", told), told


def test_a_write_that_uses_the_old_contents_is_found(tmp_path: Path) -> None:
    told = told_of(tmp_path, leaves("out[...] += 1"))
    assert re.search(r'declares write access to B1 "out" .* but leaves 24 of these 24 .* read_write', told)


def test_host_tasks_are_checked_too(tmp_path: Path) -> None:
    told = told_of(tmp_path, leaves("out[0:8, 0:5] = 2", submit=HOST_TASK))
    assert re.search(r'host task "partly" .* leaves 8 of these 48 elements unwritten, first \[0:8, 5:6\]', told)


def test_a_few_elements_of_small_integers_are_found_when_the_kernel_runs_again(tmp_path: Path) -> None:
    loop = "parallel_for((8, 6), partly, out.write(access.one_to_one()), name='partly')"
    body = "out[...] = 3 * np.eye(8, 6, dtype=np.int8)[out.box.slices]; out.array[0, 0] = UNTOUCHED"
    program = leaves(body, "np.int8", loop)
    program = program.replace("out.array[0, 0] = UNTOUCHED", "out.array[0, 0] = before", 1)
    program = program.replace("    out[...] = 3", "    before = out.array[0, 0]\n    out[...] = 3", 1)
    program = program.replace("    queue.parallel_for", "    for step in range(30): queue.parallel_for")
    told = told_of(tmp_path, program)
    assert re.search(r"leaves 1 of these 24 elements unwritten, first \[[04]:[15], 0:1\]", told), told


@pytest.mark.parametrize("dtype", [*DTYPES, RECORD], ids=str)
def test_a_kernel_that_writes_everything_is_never_accused(checked_queue: celerity.Queue, dtype: Any) -> None:
    """Of random bits, constants and zeros; small integers agree with the pattern here and there."""
    generator = np.random.default_rng(1)
    out = celerity.Buffer((64, 40), dtype, name="out")
    size = np.dtype(dtype).itemsize
    sources = [np.zeros((64, 40), dtype), np.ones((64, 40), dtype)]
    if out.dtype.kind in "iuS":
        sources += [np.frombuffer(generator.bytes(64 * 40 * size), dtype).reshape(64, 40) for _ in range(4)]

    def fill(chunk: celerity.Chunk, out: celerity.View, source: Any) -> None:
        out.array[...] = source[chunk.box.slices]

    for step in range(40):
        checked_queue.parallel_for(out.shape, fill, out.write(access.one_to_one()), sources[step % len(sources)])
    result = checked_queue.fence(out).result(20)
    np.testing.assert_array_equal(result, sources[39 % len(sources)])


def test_what_another_access_of_the_chunk_reads_is_not_filled(checked_queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.arange(12.0), name="u")

    def double(chunk: celerity.Chunk, target: celerity.View, source: celerity.View) -> None:
        target[chunk.box] = 2 * source[chunk.box]

    checked_queue.parallel_for(12, double, u.write(access.one_to_one()), u.read(access.one_to_one()))
    np.testing.assert_array_equal(checked_queue.fence(u).result(10), 2 * np.arange(12.0))


def test_empty_accesses_0d_buffers_and_reductions_pass(checked_queue: celerity.Queue) -> None:
    scalar, total = celerity.Buffer((), np.int64), celerity.Buffer((), np.int64)
    rows = celerity.Buffer(9)

    def last(chunk: celerity.Chunk) -> Box:
        return Box((chunk.box.max[0],), (chunk.box.max[0] + 1,))

    def write(chunk: celerity.Chunk, out: celerity.View, value: int) -> None:
        out[...] = value

    def count(chunk: celerity.Chunk, out: celerity.View, total: celerity.Reducer) -> None:
        out[...] = 1
        total.combine(chunk.box.size)

    checked_queue.parallel_for((), write, scalar.write(), 5)
    checked_queue.parallel_for(9, count, rows.write(access.one_to_one()), celerity.reduction(total, "sum"))
    checked_queue.parallel_for(9, lambda chunk, out: write(chunk, out, 2), rows.read_write(access.one_to_one()))
    assert checked_queue.fence(scalar).result(10) == 5
    assert checked_queue.fence(total).result(10) == 9
    np.testing.assert_array_equal(checked_queue.fence(rows).result(10), np.full(9, 2))


# ---- regions

STRIPES = """
def stripes(chunk, shape):
    return celerity.Region([Box((row, 0), (row + 1, shape[1])) for row in range(chunk.box.min[0], chunk.box.max[0], 2)])
"""


def test_what_is_computed_from_the_gaps_of_a_region_is_found(tmp_path: Path) -> None:
    told = told_of(
        tmp_path,
        STRIPES
        + """
u = celerity.Buffer.from_array(np.ones((8, 4), np.float32), name="u")
total = celerity.Buffer((8,), np.float64, name="total")

def add(chunk, total, u):
    total[chunk.box] = u.array.sum()

with celerity.Queue() as queue:
    queue.parallel_for(8, add, total.write(access.one_to_one()), u.read(stripes), name="add")  # the line
    queue.wait()
    print("not reached")
""",
    )
    where = re.escape(line_of(tmp_path, "# the line"))
    region = re.escape("{[0:1, 0:4], [2:3, 0:4]}")
    wanted = rf'"add" \(submitted at {where}\) computes B2 "total" at \[0\] from elements of B1 "u" that lie outside of'
    assert re.search(rf"OutOfBoundsAccess: kernel {wanted} its declared region {region}", told), told


@pytest.mark.parametrize("mode", ["write", "read_write"])
@pytest.mark.parametrize("dtype", ["np.int32", "np.float64"])
def test_what_is_written_into_the_gaps_of_a_region_is_found(tmp_path: Path, mode: str, dtype: str) -> None:
    told = told_of(
        tmp_path,
        STRIPES
        + f"""
u = celerity.Buffer.from_array(np.zeros((8, 4), {dtype}), name="u")

def clear(chunk, u):
    u.array[:] = 1

with celerity.Queue() as queue:
    queue.parallel_for(8, clear, u.{mode}(stripes), name="clear")
    queue.wait()
    print("not reached")
""",
    )
    assert re.search(
        r'OutOfBoundsAccess: .*"clear" .* writes B1 "u" \[1:2, 0:4\], outside of its declared region', told
    )


@pytest.mark.parametrize("mode", ["write", "read_write"])
def test_regions_are_copied_there_and_back(checked_queue: celerity.Queue, mode: str) -> None:
    u = celerity.Buffer.from_array(np.arange(32.0).reshape(8, 4), name="u")

    def stripes(chunk: celerity.MapperChunk, shape: tuple[int, ...]) -> Region:
        return Region([Box((row, 1), (row + 1, 3)) for row in range(shape[0]) if row % 2 and row in _rows(chunk)])

    def negate(chunk: celerity.Chunk, u: celerity.View) -> None:
        for row in range(1, 8, 2):
            if row in _rows(chunk):
                u[row, 1:3] = -u[row, 1:3] if mode == "read_write" else [-4.0 * row - 1, -4.0 * row - 2]

    checked_queue.parallel_for(8, negate, getattr(u, mode)(stripes))
    expected = np.arange(32.0).reshape(8, 4)
    expected[1::2, 1:3] *= -1
    np.testing.assert_array_equal(checked_queue.fence(u).result(10), expected)


def _rows(chunk: Any) -> range:
    return range(chunk.box.min[0], chunk.box.max[0])


# ---- programs on one device


@pytest.mark.parametrize(
    ("kernel", "submit", "error"),
    [
        (
            "out[chunk.box] = u[chunk.box.grow(1) & u.shape_box].sum()",
            "out.write(access.one_to_one()), u.read(access.one_to_one())",
            r'OutOfBoundsAccess: kernel "wrong" .* indexes B2 "u" at \[0:5\], outside of its declared region \[0:4\]',
        ),
        (
            "out.array[:] = u.array; out[0:4] = 1",
            "out.write(access.one_to_one()), u.read(access.one_to_one())",
            r'OutOfBoundsAccess: kernel "wrong" .* indexes B1 "out" at \[0:4\], outside of its declared region \[4:8\]',
        ),
        (
            "out[...] = u[chunk.box].sum()",
            "out.write(access.all()), u.read(access.one_to_one())",
            r'OverlappingAccess: kernel "wrong": .* chunk \[0:4\] writes \[0:8\], which chunk \[4:8\] writes too',
        ),
        (
            "out[chunk.box] = u[chunk.box]",
            "out.write(lambda chunk: Box((0,), (4,))), u.read(access.one_to_one())",
            r'OverlappingAccess: kernel "wrong": .*"out"',
        ),
    ],
    ids=["mapper too small", "local indices", "overlapping writes", "overlapping callable"],
)
def test_one_device_is_checked_as_if_there_were_two(tmp_path: Path, kernel: str, submit: str, error: str) -> None:
    program = f"""
out = celerity.Buffer(8, name="out")
u = celerity.Buffer.from_array(np.arange(8.0, dtype=np.float32), name="u")

def wrong(chunk, out, u):
    {kernel}

with celerity.Queue() as queue:
    queue.parallel_for(8, wrong, {submit}, name="wrong")
    queue.wait()
"""
    told = told_of(tmp_path, program)
    assert re.search(error, told), told


@pytest.mark.parametrize("hints", [(), celerity.hints.split_2d(), celerity.hints.border_first(1)], ids=str)
def test_chunks_on_one_device_keep_to_hints_and_constraints(hints: Any) -> None:
    celerity.configure(devices="cpu:1", check=True)
    seen: list[Box] = []
    with celerity.Queue() as queue:
        queue.parallel_for((12, 3), lambda chunk: seen.append(chunk.box), hints=hints, constrain=(4, 1))
        queue.parallel_for((), lambda chunk: seen.append(chunk.box))
    celerity.configure(devices=None, check=None)
    assert sorted(seen, key=lambda box: box.min) == [Box((), ()), Box((0, 0), (8, 3)), Box((8, 0), (12, 3))]


# ---- patterns


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_arithmetic_keeps_the_mark_of_a_nan(dtype: Any) -> None:
    fill = fill_of(np.dtype(dtype))
    words = np.full((3, fill.num_words), fill.constant(outside(2)))
    values = np.ndarray(3, dtype, words)
    assert np.isnan(values).all()
    for computed in (values + 1, values * values, values.sum(keepdims=True), np.float64(0.5) * values.real):
        found = fill_of(computed.dtype)
        marks = found.marks_in(computed.view(found.word))
        assert {position_of(int(mark)) for mark in marks if mark} == {2}
    for harmless in (np.nan, np.inf, -np.inf, 0, -1.5):
        given = np.array([harmless], dtype)
        assert position_of(int(fill.marks_in(given.view(fill.word)).max())) is None


def test_random_patterns_agree_with_chance_as_often_as_promised() -> None:
    fill, generator = fill_of(np.dtype(np.uint8)), np.random.default_rng(5)
    words = fill.random(generator, (100_000,))
    assert fill.chance == 1 / 256
    assert 250 < np.count_nonzero(words == 3) < 540
    wide = fill_of(np.dtype(np.int32)).random(generator, (1000,)).view(np.int32)
    assert wide.min() >= 2**30


def test_the_first_box_has_elements_that_were_found_only() -> None:
    boxes = [Box((0, 0), (2, 3)), Box((4, 0), (6, 3))]
    assert box_around_first(np.array([0]), boxes) == Box((0, 0), (1, 1))
    assert box_around_first(np.array([0, 1, 3, 4, 7]), boxes) == Box((0, 0), (2, 2))
    assert box_around_first(np.array([7, 10]), boxes) == Box((4, 1), (6, 2))


def test_chance_is_told_from_neglect() -> None:
    checks, generator = CallChecks(), np.random.default_rng(3)
    for call in range(2000):  # of a kernel that writes everything
        hits = np.flatnonzero(generator.random(500) < 1 / 256)
        assert checks.find_unwritten("complete", hits, 500, 1 / 256).size == 0, call
    calls = 0
    for calls in range(8):  # noqa: B007 - of one that forgets the 77th element
        hits = np.union1d(np.flatnonzero(generator.random(500) < 1 / 256), [77])
        found = checks.find_unwritten("forgetful", hits, 500, 1 / 256)
        if found.size:
            break
    assert list(found) == [77]
    assert calls > 2
    assert checks.find_unwritten("at once", np.arange(100), 500, 1 / 256).size == 100


def test_a_box_grows_in_the_last_dimension_first() -> None:
    mask = np.zeros((4, 5), bool)
    mask[1:3, 2:] = True
    mask[3, 2:4] = True
    assert box_around(mask, 7, Box((10, 20), (14, 25))) == Box((11, 22), (13, 25))
    assert box_around(np.array(True), 0, Box((), ())) == Box((), ())
