# SPDX-License-Identifier: MIT
"""Runs fused kernels on the host, compiled by g++, and the same functions on arrays of NumPy."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import celerity_py.fusion
from celerity_py import Box, Region
from celerity_py.calls.views import View
from celerity_py.fusion.calls import AccessArgument
from celerity_py.fusion.kernels import FusedKernel, make
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.parts import Chunk
from celerity_py.vocabulary.submissions import Site, Submission

Array = np.ndarray[Any, Any]
PRELUDE = Path(celerity_py.fusion.__file__).with_name("fused_operations.cuh")
COMPILER = shutil.which("g++") or "c++"
FLAGS = ("-std=c++20", "-O1", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared", "-w")


@dataclass(frozen=True)
class Access:
    """An access to a whole buffer of the test; accesses to the same array are accesses to one buffer."""

    array: Array
    """All elements of the buffer, with those of `element` behind."""
    box: Box | None = None
    writable: bool = True
    declared: Region | None = None
    element_ndim: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape[: self.array.ndim - self.element_ndim])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype((self.array.dtype, self.array.shape[len(self.shape) :]))


class ReferenceChunk(Chunk):
    """A chunk for arrays of NumPy, with coordinates of its items."""

    def __init__(self, box: Box, global_box: Box) -> None:
        super().__init__(box, global_box, 0, None, np)

    def index(self, dim: int, box: Box | None = None) -> Array:
        whole = self.box if box is None else box
        line = np.arange(whole.min[dim], whole.max[dim], dtype=np.int64)
        return np.broadcast_to(line.reshape([-1 if dim == one else 1 for one in range(whole.ndim)]), whole.shape)


def owner_of(function: Callable[..., Any]) -> Submission:
    return Submission("kernel", getattr(function, "__name__", "kernel"), function, [], None, sys._getframe())


def _records(arguments: Sequence[Any]) -> dict[int, BufferRecord]:
    """One per array, by its identity."""
    records: dict[int, BufferRecord] = {}
    for argument in arguments:
        if isinstance(argument, Access) and id(argument.array) not in records:
            record = BufferRecord(argument.shape, argument.dtype, f"b{len(records)}", Site(sys._getframe()))
            record.id = len(records)
            record.runtime = SimpleNamespace(checks_values=False)
            records[id(argument.array)] = record
    return records


def maker_arguments(arguments: Sequence[Any]) -> list[Any]:
    """What `make` gets for the arguments of a test."""
    records = _records(arguments)
    return [
        AccessArgument(
            records[id(one.array)], one.box or Box([0] * len(one.shape), one.shape), one.declared, one.writable
        )
        if isinstance(one, Access)
        else one
        for one in arguments
    ]


def make_kernel(
    function: Callable[..., Any], box: Box, *arguments: Any, name: str = "kernel", **options: Any
) -> FusedKernel:
    return make(
        function, name, box, options.pop("whole", box), maker_arguments(arguments), owner_of(function), **options
    )


def run_on_numpy(function: Callable[..., Any], box: Box, arguments: Sequence[Any], whole: Box | None = None) -> None:
    """Run the function on the arrays themselves."""
    records, owner = _records(arguments), owner_of(function)
    views: list[Any] = []
    for one in arguments:
        if isinstance(one, Access):
            accessed = one.box or Box([0] * len(one.shape), one.shape)
            base = one.array[accessed.slices]
            base.flags.writeable = one.writable
            record = records[id(one.array)]
            views.append(View(base, accessed, accessed, one.declared, one.writable, record, owner))
        else:
            views.append(one)
    with np.errstate(all="ignore"):
        function(ReferenceChunk(box, whole or box), *views)


class _Launch(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("memories", "strides", "numbers", "scalars")]


def compile_texts(texts: Sequence[str], folder: Path, name: str = "unit") -> ctypes.CDLL:
    """One library of the texts of many kernels."""
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    body = "\n".join(texts)
    source.write_text(f'#include "{PRELUDE}"\nnamespace fused {{\n{body}\n}}\n')
    subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def launch(library: ctypes.CDLL, kernel: FusedKernel, arguments: Sequence[Any], name: str = "") -> None:
    """Run the passes of a kernel on the arrays of the arguments, and on scratch memory full of garbage."""
    arrays = [arguments[place].array for place in kernel.accesses]
    addresses = [array.ctypes.data for array in arrays]
    strides = [stride for array in arrays for stride in array.strides]
    kept = []
    for scratch in kernel.scratch:
        memory = np.full(scratch.shape, 0x5A, dtype=np.uint8).repeat(scratch.dtype.itemsize, axis=-1)
        memory = memory.reshape(-1).view(scratch.dtype).reshape(scratch.shape)
        kept.append(memory)
        origin = sum(low * stride for low, stride in zip(scratch.origin, memory.strides, strict=True))
        addresses.append(memory.ctypes.data - origin)
        strides.extend(memory.strides)
    values = [
        np.array(addresses or [0], np.int64),
        np.array(strides or [0], np.int64),
        np.array(kernel.numbers or [0], np.int64),
        kernel.scalars_of(arguments),
    ]
    given = _Launch(*(value.ctypes.data for value in values))
    for place in range(kernel.num_passes):
        getattr(library, f"{name or kernel.name}_{place}")(ctypes.byref(given))


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal to the bit; NaNs are equal whatever their bits."""
    return a.dtype == b.dtype and a.shape == b.shape and not differing(a, b).any()


def differing(a: Array, b: Array) -> Array:
    """Where two arrays differ."""
    if a.dtype.kind == "c":
        return differing(a.real, b.real) | differing(a.imag, b.imag)
    if a.dtype.kind != "f":
        return np.asarray(a != b)
    bits = np.dtype(f"u{a.dtype.itemsize}")
    unequal = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
    return np.asarray(unequal & ~(np.isnan(a) & np.isnan(b)))


def copies(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with arrays of their own, one per array that there was."""
    arrays: dict[int, Array] = {}
    result: list[Any] = []
    for one in arguments:
        if isinstance(one, Access):
            array = arrays.setdefault(id(one.array), one.array.copy())
            result.append(Access(array, one.box, one.writable, one.declared, one.element_ndim))
        else:
            result.append(one)
    return result


def describe_difference(kernel: FusedKernel, expected: Sequence[Any], found: Sequence[Any]) -> str:
    """Empty if both are equal."""
    texts = []
    for place in kernel.accesses:
        a, b = expected[place].array, found[place].array
        where = np.argwhere(differing(a, b))
        texts += [
            f"argument {place} at {tuple(map(int, one))}: {a[tuple(one)]!r} != {b[tuple(one)]!r}" for one in where[:5]
        ]
    return "\n".join(texts)
