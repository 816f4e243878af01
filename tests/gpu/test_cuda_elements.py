# SPDX-License-Identifier: MIT
"""Kernels in CUDA C++ on GPUs: element types and plain values of each type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.cuda.signatures import SPELLINGS
from celerity_py.errors import UsageError

Array = npt.NDArray[Any]
FLOAT16 = "#include <cuda_fp16.h>\n"


# ---- element types


def copying(spelling: str, prelude: str = "") -> celerity.CudaKernel:
    source = f"""{prelude}
    __global__ void copy(celerity::chunk<1> chunk, accessor<{spelling}, 1> out, accessor<const {spelling}, 1> values) {{
        const auto item = chunk.item();
        if (chunk.contains(item)) out[item] = values[item];
    }}"""
    return celerity.CudaKernel(source, "copy")


def values_of(dtype: Any, size: int = 777) -> Array:
    raw = np.random.default_rng(7).integers(0, 100, size)
    return (raw % 2 == 1) if dtype == np.bool_ else (raw + 1j * raw[::-1] if dtype.kind == "c" else raw).astype(dtype)


ELEMENTS = [(dtype, spelling, FLOAT16 if dtype == "float16" else "") for dtype, spelling in SPELLINGS.items()]
ELEMENTS += [
    ("complex64", "cuda::std::complex<float>", "#include <cuda/std/complex>"),
    ("complex128", "cuDoubleComplex", "#include <cuComplex.h>"),
    ("int64", "int64_t", ""),
    ("int8", "char", ""),
]


@pytest.mark.parametrize(("dtype", "spelling", "prelude"), ELEMENTS)
def test_elements_of_every_type_are_copied(queue: celerity.Queue, dtype: str, spelling: str, prelude: str) -> None:
    initial = values_of(np.dtype(dtype))
    values = celerity.Buffer.from_array(initial)
    out = celerity.Buffer(initial.shape, dtype)
    one_to_one = access.one_to_one()
    queue.parallel_for(out.shape, copying(spelling, prelude), out.write(one_to_one), values.read(one_to_one))
    np.testing.assert_array_equal(queue.fence(out).result(), initial)


PARTICLE = "struct Particle { float position[3]; int charge; };"


def test_elements_may_be_structures(queue: celerity.Queue) -> None:
    dtype = np.dtype([("position", np.float32, 3), ("charge", np.int32)])
    initial = np.zeros(100, dtype)
    initial["position"] = np.arange(300, dtype=np.float32).reshape(100, 3)
    initial["charge"] = np.arange(100)
    source = f"""{PARTICLE}
    __global__ void move(celerity::chunk<1> chunk, accessor<Particle, 1> particles) {{
        const auto item = chunk.item();
        if (!chunk.contains(item)) return;
        particles[item].position[1] += 1;
        particles[item].charge *= -1;
    }}"""
    particles = celerity.Buffer.from_array(initial)
    queue.parallel_for(100, celerity.CudaKernel(source, "move"), particles.read_write(access.one_to_one()))
    result = queue.fence(particles).result()
    initial["position"][:, 1] += 1
    initial["charge"] *= -1
    np.testing.assert_array_equal(result, initial)


def test_elements_may_be_arrays(queue: celerity.Queue) -> None:
    initial = np.arange(7 * 5 * 6, dtype=np.float32).reshape(7, 5, 2, 3)
    source = """
    using Matrix = celerity::element<float, 2, 3>;
    __global__ void move(celerity::chunk<2> chunk, accessor<celerity::element<float, 3, 2>, 2> out,
                         accessor<const Matrix, 2> u) {
        const auto item = chunk.item();
        if (!chunk.contains(item)) return;
        const bool has_row_before = item[0] > 0;
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 3; ++j)
                out[item](j, i) = u[item](i, j) + (has_row_before ? u(item[0] - 1, item[1])(i, j) : 0);
    }"""
    u = celerity.Buffer.from_array(initial, element=(2, 3), name="u")
    out = celerity.Buffer((7, 5), element=(3, 2), name="out")
    move = celerity.CudaKernel(source, "move")
    queue.parallel_for((7, 5), move, out.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
    expected = initial.copy()
    expected[1:] += initial[:-1]
    np.testing.assert_array_equal(queue.fence(out).result(), np.swapaxes(expected, 2, 3))


def test_structures_of_another_size_than_the_elements_do_not_compile(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(100, np.dtype([("x", np.float64)]))
    with pytest.raises(UsageError, match="Particle has another size than the elements"):
        queue.parallel_for(
            100,
            copying("Particle", PARTICLE),
            buffer.write(access.one_to_one()),
            celerity.Buffer.from_array(np.zeros(100, buffer.dtype)).read(access.one_to_one()),
        )


# ---- values


def writing(spelling: str, prelude: str = "") -> celerity.CudaKernel:
    source = f"""{prelude}
    __global__ void write(celerity::chunk<1> chunk, unsigned char before, accessor<{spelling}, 1> out,
                          {spelling} value, double behind) {{
        const auto item = chunk.item();
        if (chunk.contains(item) && before == 250 && behind == 0.1) out[item] = value;
    }}"""
    return celerity.CudaKernel(source, "write")


@pytest.mark.parametrize(("dtype", "spelling", "prelude"), ELEMENTS)
def test_values_of_every_type_arrive(queue: celerity.Queue, dtype: str, spelling: str, prelude: str) -> None:
    value = values_of(np.dtype(dtype))[5]
    out = celerity.Buffer(10, dtype)
    queue.parallel_for(10, writing(spelling, prelude), 250, out.write(access.one_to_one()), value, 0.1)
    np.testing.assert_array_equal(queue.fence(out).result(), np.full(10, value))


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", 3), ("int32", 2.0), ("int64", True), ("float64", np.float16(0.5)), ("uint8", 255)]
)
def test_values_are_converted_to_what_the_kernel_declares(queue: celerity.Queue, dtype: str, value: Any) -> None:
    out = celerity.Buffer(10, dtype)
    queue.parallel_for(10, writing(SPELLINGS[dtype]), 250, out.write(access.one_to_one()), value, 0.1)
    np.testing.assert_array_equal(queue.fence(out).result(), np.full(10, value, dtype))


def test_each_launch_gets_its_own_values(queue: celerity.Queue) -> None:
    kernel = writing("int")
    buffers = [celerity.Buffer(10, np.int32) for _ in range(50)]
    for number, buffer in enumerate(buffers):
        queue.parallel_for(10, kernel, 250, buffer.write(access.one_to_one()), number, 0.1)
    for number, buffer in enumerate(buffers):
        assert (queue.fence(buffer).result() == number).all()
