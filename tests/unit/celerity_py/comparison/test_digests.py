# SPDX-License-Identifier: MIT
"""Digests tell values apart by their contents, and by nothing else."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from celerity_py.comparison.program_digests import digest_of_function
from celerity_py.comparison.value_digests import digest_of
from celerity_py.kernels import CudaKernel

DTYPES = (
    "int8",
    "uint16",
    "int64",
    "float32",
    "float64",
    "complex64",
    "bool",
    "datetime64[s]",
    "S3",
    "U2",
    "longdouble",
)
PADDED = np.dtype([("a", np.float32), ("b", np.int8), ("c", [("d", np.int16), ("e", np.int64)], (2,))], align=True)


def sample(dtype: Any) -> np.ndarray[Any, Any]:
    values = np.arange(60).reshape(3, 4, 5)
    return values.astype("int64").astype(dtype) if np.dtype(dtype).kind != "b" else values % 3 == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_counts(dtype: str) -> None:
    array = sample(dtype)
    seen = {digest_of(array)}
    assert digest_of(array.copy()) in seen
    for position in range(array.size):
        changed = array.copy()
        changed.flat[position] = (
            array.flat[(position + 1) % array.size] if dtype != "bool" else not array.flat[position]
        )
        seen.add(digest_of(changed))
    assert len(seen) == 1 + array.size
    assert all(0 <= digest < 2**64 for digest in seen)


def test_shape_and_dtype_count_and_the_layout_does_not() -> None:
    array = sample("float32")
    different = [array.reshape(4, 3, 5), array.view(np.int32), array.astype(np.float64), array[:2]]
    assert len({digest_of(item) for item in [array, *different]}) == 5
    strided = np.zeros((3, 8, 5), np.float32)[:, ::2]
    strided[...] = array
    for same in (np.asfortranarray(array), strided, array[::-1].copy()[::-1]):
        assert digest_of(same) == digest_of(array)


def test_large_arrays_of_any_layout_have_the_digest_of_their_copy() -> None:
    array = np.arange(3 * 2_000_000, dtype=np.int64).reshape(3, 2_000_000)
    for view in (array[:, ::2], array.T, array[:, 1]):
        assert digest_of(view) == digest_of(view.copy())


def test_padding_does_not_count() -> None:
    # Memory of their own, because a copy of such an array leaves the padding as it finds it.
    arrays = [np.frombuffer(bytearray([fill] * 7 * PADDED.itemsize), PADDED) for fill in (0, 255)]
    for array in arrays:
        array["a"], array["b"], array["c"]["d"], array["c"]["e"] = 1, 2, 3, 4
    assert arrays[0].tobytes() != arrays[1].tobytes()
    assert digest_of(arrays[0]) == digest_of(arrays[1])
    arrays[1]["c"]["d"][3, 1] = 5
    assert digest_of(arrays[0]) != digest_of(arrays[1])


def test_empty_and_0d_arrays_have_digests() -> None:
    assert digest_of(np.zeros(0)) != digest_of(np.zeros((0, 1)))
    assert digest_of(np.array(3)) != digest_of(np.array(4))


def test_values_of_any_nesting_are_told_apart() -> None:
    values: list[Any] = [
        None,
        0,
        0.0,
        "0",
        b"0",
        False,
        [],
        (),
        {},
        [0],
        [[0]],
        {0: 1},
        {1: 0},
        [0, 1],
        ["01"],
        ["0", "1"],
    ]
    values += [np.int32(0), np.int64(0), np.zeros(1), [np.zeros(2)], [np.zeros(1), np.zeros(1)], np.array([None])]
    assert len({digest_of(value) for value in values}) == len(values)
    assert digest_of(["a", {"b": (1, 2.5)}, sample("int8")]) == digest_of(["a", {"b": (1, 2.5)}, sample("int8")])
    assert digest_of(object()) == digest_of(object())


def test_another_process_finds_the_same() -> None:
    code = "import numpy as np; from celerity_py.comparison.value_digests import digest_of\n"
    code += "print(digest_of(np.arange(9.0)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) == digest_of(np.arange(9.0))


CHANGED = {"source": "//", "name": "other", "block": (4, 8), "items": (2, 1), "grid": (3,), "shared_bytes": 64}


@pytest.mark.parametrize("parameter", list(inspect.signature(CudaKernel).parameters))
def test_kernels_differ_in_everything_that_a_cuda_kernel_is_made_of(parameter: str) -> None:
    given: dict[str, Any] = {"source": "", "name": "k", "block": (8, 32)}
    changed = digest_of_function(CudaKernel(**(given | {parameter: CHANGED[parameter]})))
    assert digest_of_function(CudaKernel(**given)) != changed
