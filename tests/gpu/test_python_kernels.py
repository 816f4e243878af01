# SPDX-License-Identifier: MIT
"""Python kernels on GPUs: their arguments, and other parts of CuPy's world inside of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access

Launch = Callable[..., celerity.Queue]

SIZE = 10_001


@pytest.fixture
def values() -> Any:
    return np.random.default_rng(2).integers(0, 100, SIZE).astype(np.float64)


def test_views_yield_cupy_arrays_that_alias_the_allocation(queue: celerity.Queue, values: Any) -> None:
    import cupy

    seen: list[str] = []

    def kernel(chunk: Any, out: Any, x: Any) -> None:
        low, high = chunk.box.min[0], chunk.box.max[0]
        if not isinstance(x[...], cupy.ndarray) or chunk.xp is not cupy:
            seen.append(f"{type(x[...])}, {chunk.xp}")
        if x.array.data.ptr != x[low:high].data.ptr or x[low].shape != ():
            seen.append("another address or shape")
        if cupy.asarray(x).data.ptr != x.array.data.ptr:
            seen.append("a copy by the interface for arrays")
        out[chunk.box] = x[chunk.box]
        out[low:high:2] += 1

    x = celerity.Buffer.from_array(values)
    out = celerity.Buffer.from_array(np.zeros(SIZE))
    space = Box((1,), (SIZE,))
    queue.parallel_for(space, kernel, out.read_write(access.one_to_one()), x.read(access.one_to_one()))
    result = queue.fence(out).result()
    assert not seen
    assert result[0] == 0
    # Where a chunk starts decides which elements are incremented.
    difference = result[1:] - values[1:]
    assert set(np.unique(difference)) <= {0.0, 1.0}
    assert np.count_nonzero(difference) >= SIZE // 2 - 8


def test_views_of_elements_have_further_dimensions(queue: celerity.Queue) -> None:
    initial = np.arange(7 * 5 * 6, dtype=np.float32).reshape(7, 5, 2, 3)

    def turn(chunk: celerity.Chunk, out: celerity.View, u: celerity.View, nothing: celerity.View) -> None:
        assert nothing[...].shape == (0, 0, 2, 3)
        out[chunk.box] = chunk.xp.swapaxes(u[chunk.box], -1, -2)

    u = celerity.Buffer.from_array(initial, element=(2, 3), name="u")
    out = celerity.Buffer((7, 5), element=(3, 2), name="out")
    nothing = access.fixed(Box((0, 0), (0, 0)))
    queue.parallel_for((7, 5), turn, out.write(access.one_to_one()), u.read(access.one_to_one()), u.read(nothing))
    np.testing.assert_array_equal(queue.fence(out).result(), np.swapaxes(initial, 2, 3))
    found = queue.fence(out, Box((1, 1), (3, 2)), to="device").result()
    np.testing.assert_array_equal(found.get(), np.swapaxes(initial, 2, 3)[1:3, 1:2])
    assert queue.dot(u, u).result() == (initial.astype(np.float64) ** 2).sum()
    one = np.array([[1, 2, 3], [4, 5, 6]])
    queue.fill(u, one)
    queue.copy(u, u, Box((0, 0), (1, 5)), Box((6, 0), (7, 5)))
    assert (queue.fence(u).result() == one).all()
    assert queue.any(u).result()


@pytest.mark.parametrize("mode", ["constant", "edge", "wrap"])
def test_a_padded_array_is_made_on_the_gpu(queue: celerity.Queue, values: Any, mode: Any) -> None:
    import cupy

    seen: list[str] = []

    def kernel(chunk: Any, out: Any, x: Any) -> None:
        near = x.padded(chunk.box, 2, mode)
        if not isinstance(near, cupy.ndarray):
            seen.append(str(type(near)))
        out[chunk.box] = near[:-4] - near[4:]

    x = celerity.Buffer.from_array(values)
    out = celerity.Buffer(SIZE, np.float64)
    queue.parallel_for(SIZE, kernel, out.write(access.one_to_one()), x.read(access.all()))
    result = queue.fence(out).result()
    near = np.pad(values, 2, mode=mode)
    assert not seen
    np.testing.assert_array_equal(result, near[:-4] - near[4:])


def test_functions_of_numpy_and_dlpack_take_views_on_the_gpu(queue: celerity.Queue, values: Any) -> None:
    import cupy

    seen: list[str] = []

    def kernel(chunk: Any, out: Any, x: Any) -> None:
        total = np.sum(x)  # by CuPy
        if not isinstance(total, cupy.ndarray) or not np.array_equal(x, x[...]):
            seen.append("NumPy has not called CuPy")
        if cupy.from_dlpack(x).data.ptr != x.array.data.ptr:
            seen.append("a copy by DLPack")
        np.multiply(x[chunk.box], 2, out=out)
        try:
            np.asarray(x)
        except celerity.errors.ArgumentTypeError as error:
            seen.append(str(error))

    x = celerity.Buffer.from_array(values, name="x")
    out = celerity.Buffer.from_array(np.zeros(SIZE))
    queue.parallel_for(SIZE, kernel, out.read_write(access.one_to_one()), x.read(access.one_to_one()))
    assert (queue.fence(out).result() == 2 * values).all()
    assert all("which lies on a GPU. Compute with chunk.xp" in text for text in seen)
    assert seen


def test_arrays_of_cupy_make_buffers_and_are_no_arguments(queue: celerity.Queue, values: Any) -> None:
    import cupy

    array = cupy.asarray(values)
    assert (queue.fence(celerity.Buffer.from_array(array)).result() == values).all()
    made = celerity.Buffer.from_function(SIZE, np.float64, lambda box: array[box.min[0] : box.max[0]])
    assert (queue.fence(made).result() == values).all()
    with pytest.raises(celerity.errors.ArgumentTypeError, match=r"got a cupy\.ndarray as an argument\. It lies on"):
        queue.parallel_for(4, lambda chunk, given: None, array)


def test_large_updates_in_place_happen_once(queue: celerity.Queue) -> None:
    def kernel(chunk: Any, x: Any) -> None:
        x[chunk.box] += 1
        x[...] *= 2

    x = celerity.Buffer.from_array(np.zeros((300, 300), np.int32))
    for _ in range(3):
        queue.parallel_for(x.shape, kernel, x.read_write(access.one_to_one()))
    assert (queue.fence(x).result() == 14).all()


def test_a_chunk_that_accesses_nothing_gets_an_empty_view(queue: celerity.Queue) -> None:
    def kernel(chunk: Any, out: Any, x: Any) -> None:
        out[chunk.box] = x[...].size

    x = celerity.Buffer.from_array(np.zeros((4, 4)))
    out = celerity.Buffer(16, np.int64)
    queue.parallel_for(16, kernel, out.write(access.one_to_one()), x.read(lambda chunk: Box((2, 0), (2, 4))))
    assert not queue.fence(out).result().any()


@pytest.mark.filterwarnings("ignore:cupyx.jit.rawkernel is experimental:FutureWarning")
def test_kernels_written_with_cupyx_jit_run_inside(queue: celerity.Queue, values: Any) -> None:
    from cupyx import jit

    @jit.rawkernel()  # type: ignore[untyped-decorator]
    def add_one(y: Any, x: Any, size: Any) -> None:
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < size:
            y[i] = x[i] + 1

    def kernel(chunk: Any, out: Any, x: Any) -> None:
        source = x[chunk.box]
        add_one[(source.size + 127) // 128, 128](out[chunk.box], source, np.uint32(source.size))

    x, out = celerity.Buffer.from_array(values), celerity.Buffer(SIZE, np.float64)
    queue.parallel_for(SIZE, kernel, out.write(access.one_to_one()), x.read(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(out).result(), values + 1)


def test_raw_and_elementwise_kernels_and_cublas_run_inside(queue: celerity.Queue) -> None:
    import cupy

    square = cupy.ElementwiseKernel("float64 x", "float64 y", "y = x * x", "square")
    negate = cupy.RawKernel(
        'extern "C" __global__ void negate(double* x, long long n) {\n'
        "    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
        "    if (i < n) x[i] = -x[i];\n}",
        "negate",
    )

    def kernel(chunk: Any, out: Any, a: Any, b: Any) -> None:
        product = a[...] @ b[...]
        square(product, product)
        negate(((product.size + 63) // 64,), (64,), (product, np.int64(product.size)))
        out[chunk.box] = product

    random = np.random.default_rng(4)
    a, b = (random.integers(-3, 4, (65, 65)).astype(np.float64) for _ in range(2))
    out = celerity.Buffer((65, 65), np.float64)
    queue.parallel_for(
        out.shape,
        kernel,
        out.write(access.one_to_one()),
        celerity.Buffer.from_array(a).read(access.slice(1)),
        celerity.Buffer.from_array(b).read(access.slice(0)),
    )
    np.testing.assert_array_equal(queue.fence(out).result(), -((a @ b) ** 2))


@pytest.mark.parametrize("how", ["stream", "device", "value"])
def test_a_kernel_may_synchronise(queue: celerity.Queue, how: str) -> None:
    import cupy

    def kernel(chunk: Any, out: Any, x: Any) -> None:
        out[chunk.box] = x[chunk.box] + 1
        if how == "stream":
            chunk.stream.synchronize()
        elif how == "device":
            cupy.cuda.Device().synchronize()
        elif float(out[chunk.box].max()) < 1:
            raise AssertionError("the value is not there")

    x, out = celerity.Buffer.from_array(np.zeros(SIZE)), celerity.Buffer(SIZE, np.float64)
    for _ in range(10):
        queue.parallel_for(SIZE, kernel, out.write(access.one_to_one()), x.read(access.neighborhood(5)))
        x, out = out, x
    assert (queue.fence(x).result() == 10).all()


@pytest.mark.parametrize("what", ["array", "scalar", "python"])
def test_reducers_take_arrays_of_one_element_and_scalars(queue: celerity.Queue, what: str) -> None:
    def kernel(chunk: Any, total: Any, highest: Any) -> None:
        low, high = chunk.box.min[0], chunk.box.max[0]
        for first in range(low, high, 1000):
            items = chunk.xp.arange(first, min(first + 1000, high))
            if what == "array":
                total.combine(items.sum())
                highest.combine(items.max().reshape(1, 1))
            else:
                kind = np.int64 if what == "scalar" else int
                total.combine(kind(int(items.sum())))
                highest.combine(kind(int(items.max())))

    total, highest = celerity.Buffer((), np.int64), celerity.Buffer((1,), np.int64)
    queue.parallel_for(SIZE, kernel, celerity.reduction(total, "sum"), celerity.reduction(highest, "max"))
    assert queue.fence(total).result() == SIZE * (SIZE - 1) // 2
    assert queue.fence(highest).result() == SIZE - 1
