# SPDX-License-Identifier: MIT
"""The plain values of CUDA kernels: converted to what the kernel declares, or refused."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

from celerity_py.errors import UsageError
from tests.support.fake_gpus import FakeGpus, prepare, stand_in_for_gpus


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    return stand_in_for_gpus(monkeypatch)


@pytest.mark.parametrize(
    ("declared", "value", "packed"),
    [
        ("bool", True, struct.pack("?", True)),
        ("bool", np.bool_(False), struct.pack("?", False)),
        ("signed char", -128, struct.pack("b", -128)),
        ("unsigned short", np.int64(65535), struct.pack("H", 65535)),
        ("int", np.float32(3), struct.pack("i", 3)),
        ("int", 2.0, struct.pack("i", 2)),
        ("int", True, struct.pack("i", 1)),
        ("int", np.bool_(True), struct.pack("i", 1)),
        ("unsigned long long", 2**64 - 1, struct.pack("Q", 2**64 - 1)),
        ("long", -(2**63), struct.pack("q", -(2**63))),
        ("float", 1, struct.pack("f", 1)),
        ("float", 0.1, np.float32(0.1).tobytes()),
        ("float", np.float64(0.1), np.float32(0.1).tobytes()),
        ("float", float("inf"), struct.pack("f", float("inf"))),
        ("double", np.float16(0.5), struct.pack("d", 0.5)),
        ("__half", 0.5, np.float16(0.5).tobytes()),
        ("float2", 1 + 2j, np.complex64(1 + 2j).tobytes()),
        ("float2", 3, np.complex64(3).tobytes()),
        ("double2", np.complex64(1 - 1j), np.complex128(1 - 1j).tobytes()),
        ("unsigned long long", ctypes.c_void_p(2**48), struct.pack("Q", 2**48)),
        ("unsigned long long", ctypes.c_void_p(None), struct.pack("Q", 0)),
    ],
)
def test_values_become_what_the_kernel_declares(gpus: FakeGpus, declared: str, value: Any, packed: bytes) -> None:
    assert prepare(gpus, f"{declared} x", value) == packed


@pytest.mark.filterwarnings("ignore:Casting complex values")  # NumPy warns, and drops the imaginary part
@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("int", 2**31, "is not a whole number from -2147483648 to 2147483647"),
        ("int", np.int64(-(2**31) - 1), "is not a whole number"),
        ("unsigned char", -1, "is not a whole number from 0 to 255"),
        ("int", 2.5, "is not a whole number"),
        ("int", np.float32(2.5), "is not a whole number"),
        ("int", float("nan"), "is not a whole number"),
        ("long long", float("inf"), "is not a whole number"),
        ("int", 1 + 0j, "does not convert to int32"),
        ("int", np.complex64(1), "does not convert to int32"),
        ("float", 1e300, "does not convert to float32"),
        ("__half", 1e6, "does not convert to float16"),
        ("float", 1j, "does not convert to float32"),
        ("float", np.complex64(1 + 2j), "does not convert to float32"),
        ("float2", 1e300, "does not convert to complex64"),
    ],
)
def test_values_that_would_change_are_refused(gpus: FakeGpus, declared: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        prepare(gpus, f"int n, {declared} x", 1, value)
    text = f"argument 2, {value!r} of type {type(value).__name__}, does not fit the parameter `{declared} x`"
    assert text in str(caught.value)
    assert "fake_gpus.py:" in str(caught.value)


def test_an_address_needs_a_parameter_that_holds_it(gpus: FakeGpus) -> None:
    with pytest.raises(UsageError, match=r"An address is an `unsigned long long` of the kernel"):
        prepare(gpus, "long long x", ctypes.c_void_p(1))


def test_complex_and_other_values_may_be_mixed(gpus: FakeGpus) -> None:
    assert prepare(gpus, "int n, double2 z, float f", 1.0, 2j, 3) == struct.pack("=iddf", 1, 0, 2, 3)
