# SPDX-License-Identifier: MIT
"""Kernels in CUDA C++ on GPUs: items, resources, and messages about mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import ArgumentTypeError, DimensionMismatch, UsageError

Array = npt.NDArray[Any]
Launch = Callable[..., celerity.Queue]

# Boxes at some distance from the origin, of odd extents that no block divides.
BOXES = [
    Box((), ()),
    Box((5,), (1000,)),
    Box((3, 2), (40, 103)),
    Box((1, 2, 3), (12, 24, 50)),
]
# One element more than the box at every end.
SHAPES = [(), (1001,), (41, 104), (13, 25, 51)]


def indices(dims: int, item: str = "item") -> str:
    return ", ".join(f"{item}[{d}]" for d in range(dims))


# ---- items


def numbering(dims: int, block: tuple[int, ...] | None = None) -> celerity.CudaKernel:
    """Adds to each item's element a number made of its coordinates."""
    number = " + ".join(["7", *(f"{1000**d} * item[{d}]" for d in range(dims))])
    source = f"""
    __global__ void number(celerity::chunk<{dims}> chunk, accessor<long long, {dims}> out) {{
        const auto item = chunk.item();
        if (!chunk.contains(item)) return;
        out[item] += {number};
    }}"""
    return celerity.CudaKernel(source, "number", block=block)


def numbers(dims: int) -> Array:
    """The result of `numbering` in a buffer of zeros."""
    grids = np.indices(SHAPES[dims])
    everywhere = sum((1000**d * grids[d] for d in range(dims)), start=np.full(SHAPES[dims], 7, np.int64))
    expected = np.zeros(SHAPES[dims], np.int64)
    expected[BOXES[dims].slices] = np.asarray(everywhere)[BOXES[dims].slices]
    return expected


BLOCKS: list[tuple[int, tuple[int, ...] | None]] = [(dims, None) for dims in range(4)]
BLOCKS += [(0, (64,)), (1, (1024,)), (1, (1,)), (2, (1, 7)), (2, (32, 32)), (3, (64, 1, 1)), (3, (2, 3, 5))]


@pytest.mark.parametrize(("dims", "block"), BLOCKS)
def test_every_item_of_the_index_space_is_run_once(
    queue: celerity.Queue, dims: int, block: tuple[int, ...] | None
) -> None:
    out = celerity.Buffer.from_array(np.zeros(SHAPES[dims], np.int64))
    queue.parallel_for(BOXES[dims], numbering(dims, block), out.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(out).result(), numbers(dims))


def neighbours(dims: int) -> celerity.CudaKernel:
    """Adds up both neighbours in all dimensions. Those outside are 0, by the sizes of the index space or by `at_or`."""
    sums = []
    for d in range(dims):
        for step, inside in (
            (-1, f"item[{d}] > chunk.global_min[{d}]"),
            (1, f"item[{d}] + 1 < chunk.global_max[{d}]"),
        ):
            moved = ", ".join(f"item[{e}] + ({step if e == d else 0})" for e in range(dims))
            sums.append(f"if ({inside}) sum += values({moved});" if step < 0 else f"sum += values.at_or(0, {moved});")
    source = f"""
    using number = double;
    __global__ void add(celerity::chunk<{dims}> chunk, accessor<number, {dims}> out,
                        const accessor<const number, {dims}> values) {{
        const auto item = chunk.item();
        if (!chunk.contains(item)) return;
        number sum = 0;
        {" ".join(sums)}
        out({indices(dims)}) = sum;
    }}"""
    return celerity.CudaKernel(source, "add")


def sum_of_neighbours(values: Array) -> Array:
    padded = np.pad(values, 1)
    inner = (slice(1, -1),) * values.ndim
    return sum((np.roll(padded, step, d)[inner] for d in range(values.ndim) for step in (-1, 1)), np.zeros_like(values))


@pytest.mark.parametrize("bounds_check", [False, True])
@pytest.mark.parametrize("hint", [celerity.hints.split_1d(), celerity.hints.split_2d()], ids=repr)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_accessors_reach_the_halo_of_a_chunk_in_global_coordinates(
    launch: Launch, num_gpus: int, dims: int, hint: Any, bounds_check: bool
) -> None:
    queue = launch(num_gpus, bounds_check=bounds_check)
    initial = np.random.default_rng(3).integers(0, 1000, SHAPES[dims]).astype(np.float64)
    values = celerity.Buffer.from_array(initial)
    out = celerity.Buffer(SHAPES[dims], np.float64)
    kernel = neighbours(dims)
    halo = access.neighborhood(*(1,) * dims, shape="axes")
    for _ in range(3):
        queue.parallel_for(
            out.shape, kernel, out.write(access.one_to_one()), values.read(halo), hints=() if dims == 1 else hint
        )
        values, out = out, values
    expected = initial
    for _ in range(3):
        expected = sum_of_neighbours(expected)
    np.testing.assert_array_equal(queue.fence(values).result(), expected)


WRAPPED = celerity.CudaKernel(
    """
    __global__ void add(celerity::chunk<2> chunk, accessor<long long, 2> out,
                        accessor<const long long, 2, celerity::wrap> values) {
        const auto item = chunk.item();
        if (!chunk.contains(item)) return;
        long long sum = 0;
        for (int i = -1; i <= 1; ++i) {
            for (int j = -2; j <= 2; ++j) sum += (3 * i + j + 6) * values(item[0] + i, item[1] + j);
        }
        out[item] = sum;
    }""",
    "add",
)


@pytest.mark.parametrize("bounds_check", [False, True])
@pytest.mark.parametrize("hint", [celerity.hints.split_1d(), celerity.hints.split_2d()], ids=repr)
@pytest.mark.parametrize("parts", [1, 3])
def test_a_periodic_halo_lies_at_the_opposite_side(
    launch: Launch, num_gpus: int, parts: int, hint: Any, bounds_check: bool
) -> None:
    queue = launch(num_gpus, bounds_check=bounds_check)
    values = np.random.default_rng(3).integers(-1000, 1000, (41, 104))
    source = celerity.Buffer.from_array(values)
    out = celerity.Buffer(values.shape, np.int64)
    hints = [hint, celerity.hints.oversubscribe(parts)]
    near = access.neighborhood(1, 2, wrap=True)
    queue.parallel_for(values.shape, WRAPPED, out.write(access.one_to_one()), source.read(near), hints=hints)
    expected = sum((3 * i + j + 6) * np.roll(values, (-i, -j), (0, 1)) for i in range(-1, 2) for j in range(-2, 3))
    np.testing.assert_array_equal(queue.fence(out).result(), expected)


@pytest.mark.parametrize("bounds_check", [False, True])
@pytest.mark.parametrize(
    "space",
    [Box((0, 0), (9, 20)), Box((30, 0), (41, 9)), Box((5, 80), (20, 104)), Box((33, 97), (41, 104))],
    ids=str,
)
def test_the_sides_of_a_periodic_buffer_lie_in_separate_memory(launch: Launch, space: Box, bounds_check: bool) -> None:
    queue = launch(1, bounds_check=bounds_check)
    values = np.random.default_rng(4).integers(-1000, 1000, (41, 104))
    source = celerity.Buffer.from_array(values)
    out = celerity.Buffer.from_array(np.zeros(values.shape, np.int64))
    near = access.neighborhood(1, 2, wrap=True)
    for _ in range(2):
        queue.parallel_for(space, WRAPPED, out.write(access.one_to_one()), source.read(near))
    queue.wait()
    height, width = space.shape
    taken = (height + 2) * (width + 4) + height * width
    assert queue.statistics().executor["memories"][2]["peak_bytes"] <= 8 * taken + 1024
    shifts = [(i, j) for i in range(-1, 2) for j in range(-2, 3)]
    expected = sum((3 * i + j + 6) * np.roll(values, (-i, -j), (0, 1))[space.slices] for i, j in shifts)
    np.testing.assert_array_equal(queue.fence(out, space).result(), expected)


def test_a_grid_of_the_users_own_loops_over_the_chunk(queue: celerity.Queue) -> None:
    source = """
    __global__ void number(celerity::chunk<2> chunk, accessor<int, 2> out) {
        const auto item = chunk.item();
        for (long long i = item[0]; i < chunk.max[0]; i += chunk.step(0))
            for (long long j = item[1]; j < chunk.max[1]; j += chunk.step(1)) out(i, j) += (int)(1000 * i + j);
    }"""
    out = celerity.Buffer.from_array(np.zeros((123, 457), np.int32))
    kernel = celerity.CudaKernel(source, "number", block=(4, 32), grid=(3, 2))
    queue.parallel_for(out.shape, kernel, out.read_write(access.one_to_one()))
    rows, columns = np.indices(out.shape)
    np.testing.assert_array_equal(queue.fence(out).result(), 1000 * rows + columns)


def test_a_kernel_without_items_of_its_own_on_some_devices_runs_on_the_others(queue: celerity.Queue) -> None:
    out = celerity.Buffer.from_array(np.zeros(1, np.int64))
    queue.parallel_for(1, numbering(1), out.read_write(access.one_to_one()))
    assert queue.fence(out).result().tolist() == [7]


def test_a_buffer_without_dimensions_is_indexed_by_nothing(queue: celerity.Queue) -> None:
    source = """
    __global__ void triple(celerity::chunk<0> chunk, accessor<float, 0> out, accessor<const float, 0> value) {
        const auto item = chunk.item();
        if (chunk.contains(item)) out() = 3 * value[item];
    }"""
    value = celerity.Buffer.from_array(np.float32(5))
    out = celerity.Buffer((), np.float32)
    queue.parallel_for((), celerity.CudaKernel(source, "triple"), out.write(), value.read())
    assert queue.fence(out).result() == 15


# ---- resources, and code of other people


def test_dynamic_shared_memory_may_exceed_48_kib(queue: celerity.Queue) -> None:
    source = """
    __global__ void turn(celerity::chunk<1> chunk, accessor<int, 1> out, accessor<const int, 1> values) {
        extern __shared__ int mirrored[];
        for (int i = threadIdx.x; i < 16000; i += blockDim.x) mirrored[i] = values(i);
        __syncthreads();
        const auto item = chunk.item();
        if (chunk.contains(item)) out[item] = mirrored[15999 - item[0]];
    }"""
    values = celerity.Buffer.from_array(np.arange(16000, dtype=np.int32))
    out = celerity.Buffer(16000, np.int32)
    kernel = celerity.CudaKernel(source, "turn", block=(512,), shared_bytes=64_000)
    queue.parallel_for(16000, kernel, out.write(access.one_to_one()), values.read(access.all()))
    np.testing.assert_array_equal(queue.fence(out).result(), np.arange(16000)[::-1])


def test_more_shared_memory_than_there_is_is_refused(queue: celerity.Queue) -> None:
    kernel = celerity.CudaKernel(
        "__global__ void f(celerity::chunk<1> chunk) {}", "f", block=(32,), shared_bytes=1 << 20
    )
    with pytest.raises(UsageError, match="has shared_bytes=1048576, but GPU"):
        queue.parallel_for(1, kernel)


def test_blocks_larger_than_a_kernel_is_compiled_for_are_refused(queue: celerity.Queue) -> None:
    source = "__global__ void __launch_bounds__(128) f(celerity::chunk<1> chunk) {}"
    with pytest.raises(UsageError, match=r"blocks of 1024 threads \(1024,\), but .* has room for 128"):
        queue.parallel_for(1, celerity.CudaKernel(source, "f", block=(1024,)))


def test_device_functions_templates_and_several_kernels_live_in_one_source(queue: celerity.Queue) -> None:
    source = """
    namespace mine {
    template <typename T> T twice(T x) { return x + x; }  // a device function, as all without a word on it are
    __global__ void __launch_bounds__(256) doubled(celerity::chunk<1> chunk, accessor<int, 1> x) {
        const auto item = chunk.item();
        if (chunk.contains(item)) x[item] = twice(x[item]);
    }
    }
    extern "C" __global__ void plus_one(const celerity::chunk<1> chunk, const accessor<int, 1> x) {
        const auto item = chunk.item();
        if (chunk.contains(item)) x[item] += 1;
    }"""
    x = celerity.Buffer.from_array(np.arange(1000, dtype=np.int32))
    for name in ("mine::doubled", "plus_one"):
        queue.parallel_for(1000, celerity.CudaKernel(source, name), x.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(x).result(), 2 * np.arange(1000) + 1)


def test_a_kernel_per_backend_runs_the_one_for_gpus(queue: celerity.Queue) -> None:
    def on_cpu(chunk: Any, out: Any) -> None:
        raise AssertionError("this is for the CPU backend")

    def on_gpu(chunk: Any, out: Any) -> None:
        out[...] += 1

    out = celerity.Buffer.from_array(np.zeros(SHAPES[1], np.int64))
    queue.parallel_for(BOXES[1], celerity.kernel(cpu=on_cpu, cuda=numbering(1)), out.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(out).result(), numbers(1))
    queue.parallel_for(out.shape, celerity.kernel(cpu=on_cpu, cuda=on_gpu), out.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(out).result(), numbers(1) + 1)


def test_a_kernel_for_the_cpu_only_is_refused(queue: celerity.Queue) -> None:
    with pytest.raises(UsageError, match="no implementation for the CUDA backend"):
        queue.parallel_for(1, celerity.kernel(cpu=lambda chunk: None))


def test_cuda_and_python_kernels_take_turns(queue: celerity.Queue) -> None:
    @celerity.kernel
    def halve(chunk: Any, x: Any) -> None:
        x[chunk.box] //= 2

    source = """
    __global__ void plus(celerity::chunk<1> chunk, accessor<int, 1> x, int n) {
        const auto item = chunk.item();
        if (chunk.contains(item)) x[item] += n;
    }"""
    kernel = celerity.CudaKernel(source, "plus")
    expected = np.arange(10_000, dtype=np.int32)
    x = celerity.Buffer.from_array(expected)
    for n in range(30):
        queue.parallel_for(x.shape, kernel, x.read_write(access.one_to_one()), n)
        queue.parallel_for(x.shape, halve, x.read_write(access.one_to_one()))
        expected = (expected + n) // 2
    np.testing.assert_array_equal(queue.fence(x).result(), expected)


# ---- mistakes


def test_what_does_not_compile_is_told_with_the_lines_of_the_source_and_the_program_goes_on(
    queue: celerity.Queue,
) -> None:
    source = "__global__ void f(celerity::chunk<1> chunk) {\n    int x = 1;\n    x = nonsense;\n}\n"
    with pytest.raises(UsageError, match=r"does not compile") as caught:
        queue.parallel_for(10, celerity.CudaKernel(source, "f"), name="step")
    text = str(caught.value)
    assert 'f.cu(3): error: identifier "nonsense" is undefined' in text
    assert 'kernel "step" (submitted at ' in text
    assert text.count("test_cuda_kernels.py:") == 2  # where it was submitted, and where it was made
    out = celerity.Buffer.from_array(np.zeros(SHAPES[1], np.int64))
    queue.parallel_for(BOXES[1], numbering(1), out.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(out).result(), numbers(1))


def test_arguments_that_do_not_fit_are_refused_and_the_program_goes_on(queue: celerity.Queue) -> None:
    out = celerity.Buffer.from_array(np.zeros(SHAPES[2], np.int64))
    write = out.read_write(access.one_to_one())
    with pytest.raises(ArgumentTypeError, match="takes 1 behind its chunk"):
        queue.parallel_for(BOXES[2], numbering(2), write, 1)
    with pytest.raises(DimensionMismatch, match="takes a celerity::chunk<2>"):
        queue.parallel_for(BOXES[3], numbering(2), write)
    with pytest.raises(ArgumentTypeError, match="elements are float32, those of the parameter long long"):
        queue.parallel_for(BOXES[2], numbering(2), celerity.Buffer(SHAPES[2], np.float32).write(access.one_to_one()))
    queue.parallel_for(BOXES[2], numbering(2), write)
    np.testing.assert_array_equal(queue.fence(out).result(), numbers(2))


def test_a_submission_that_is_refused_leaves_no_launch_behind(queue: celerity.Queue) -> None:
    source = "__global__ void f(celerity::chunk<2> chunk, accessor<long long, 1> x) { x(chunk.min[0]) = 5; }"
    x = celerity.Buffer.from_array(np.zeros(1000, np.int64))
    with pytest.raises(DimensionMismatch, match="Nothing was submitted"):
        queue.parallel_for((10, 100), celerity.CudaKernel(source, "f"), x.read_write(access.one_to_one()))
    # Has the id that the refused one would have had.
    queue.parallel_for(1000, plus_one, x.read_write(access.one_to_one()))
    assert (queue.fence(x).result() == 1).all()


@celerity.kernel
def plus_one(chunk: Any, x: Any) -> None:
    x[chunk.box] += 1


@pytest.mark.parametrize("bounds_check", [False, True])
def test_accesses_of_many_boxes_are_within_bounds(launch: Launch, num_gpus: int, bounds_check: bool) -> None:
    queue = launch(num_gpus, bounds_check=bounds_check)
    spots = celerity.Region([Box((n, 3 * n), (n + 1, 3 * n + 2)) for n in range(20)])
    source = """
    __global__ void gather(celerity::chunk<1> chunk, accessor<long long, 1> out, accessor<const long long, 2> values) {
        const auto item = chunk.item();
        if (chunk.contains(item)) out[item] = values(item[0], 3 * item[0]) + values(item[0], 3 * item[0] + 1);
    }"""
    initial = np.arange(40 * 70, dtype=np.int64).reshape(40, 70)
    values, out = celerity.Buffer.from_array(initial), celerity.Buffer(20, np.int64)
    kernel = celerity.CudaKernel(source, "gather")
    queue.parallel_for(20, kernel, out.write(access.one_to_one()), values.read(lambda chunk: spots))
    rows = np.arange(20)
    np.testing.assert_array_equal(queue.fence(out).result(), initial[rows, 3 * rows] + initial[rows, 3 * rows + 1])


# ---- compiled kernels on disk


def test_results_are_kept_on_disk_and_damaged_ones_compiled_again(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    queue = launch()
    source = f"""
    __global__ void number(celerity::chunk<1> chunk, accessor<long long, 1> out) {{ // {tmp_path}
        const auto item = chunk.item();
        if (chunk.contains(item)) out[item] = item[0];
    }}"""
    folder = tmp_path / "celerity_py" / "kernels"
    out = celerity.Buffer(100, np.int64)
    queue.parallel_for(100, celerity.CudaKernel(source, "number"), out.write(access.one_to_one()))
    (path,) = folder.glob("*.kernel")
    path.write_bytes(path.read_bytes()[:-5])
    damaged = path.stat().st_size
    from celerity_py.cuda import compilation

    monkeypatch.setattr(compilation, "_functions", {})  # as a process that starts
    queue.parallel_for(100, celerity.CudaKernel(source, "number"), out.write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(out).result(), np.arange(100))
    assert path.stat().st_size == damaged + 5
