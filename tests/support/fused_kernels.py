# SPDX-License-Identifier: MIT
"""Runs fused kernels on the host, compiled by g++, and the same functions on arrays of NumPy."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import celerity_py.fusion
from celerity_py import Box, Region, _native_testing
from celerity_py.calls.views import View
from celerity_py.fusion.calls import AccessArgument
from celerity_py.fusion.cpu_kernels import FusedCpuKernel
from celerity_py.fusion.kernels import FusedKernel, make
from celerity_py.fusion.launches import PassLaunch
from celerity_py.reductions.partial_results import Reducer, ReductionPort
from celerity_py.submit.fused_targets import threads_of
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.parts import Chunk
from celerity_py.vocabulary.submissions import Site, Submission

Array = np.ndarray[Any, Any]
PRELUDE = Path(celerity_py.fusion.__file__).with_name("fused_folds.cuh")
COMPILER = shutil.which("g++") or "c++"
#: Of headers that other kernels have as well.
INCLUDES = (f"-I{Path(celerity_py.fusion.__file__).parent.parent / 'cuda'}",)
#: A vector at an address that is no multiple of its size ends the process, as on a GPU.
CHECKS = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")
FLAGS = ("-std=c++20", "-O1", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared", "-w", *INCLUDES, *CHECKS)


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


@dataclass(frozen=True)
class Result(Access):
    """A reduction into a buffer of the test, in which its partial result lies."""

    op: Any = "sum"


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
        ReductionPort(records[id(one.array)], one.op)
        if isinstance(one, Result)
        else AccessArgument(
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
        if isinstance(one, Result):
            port = ReductionPort(records[id(one.array)], one.op)
            views.append(Reducer(one.array.reshape(port.shape), port, owner))
        elif isinstance(one, Access):
            accessed = one.box or Box([0] * len(one.shape), one.shape)
            where: Any = (*accessed.slices, ...)
            base = one.array[where]
            base.flags.writeable = one.writable
            record = records[id(one.array)]
            views.append(View(base, accessed, accessed, one.declared, one.writable, record, owner))
        else:
            views.append(one)
    with np.errstate(all="ignore"):
        function(Chunk(box, whole or box, 0, None, np), *views)


#: What CUDA gives to each thread, and a loop over all threads, for a pass of which `{0}` is the name.
SHIM = """
struct extent { unsigned x, y, z; };
static extent blockIdx, threadIdx, blockDim, gridDim;
"""
RUN = """
extern "C" void run_{0}(const {1}_launch* l, const unsigned* grid, const unsigned* block) {{
  gridDim = {{grid[0], grid[1], grid[2]}}; blockDim = {{block[0], block[1], block[2]}};
  for(extent b{{}}; b.z < grid[2]; ++b.z) for(b.y = 0; b.y < grid[1]; ++b.y) for(b.x = 0; b.x < grid[0]; ++b.x)
    for(extent t{{}}; t.z < block[2]; ++t.z) for(t.y = 0; t.y < block[1]; ++t.y) for(t.x = 0; t.x < block[0]; ++t.x) {{
      blockIdx = b; threadIdx = t;
      {0}(*l);
    }}
}}
"""


def compile_texts(texts: Sequence[str], folder: Path, name: str = "unit", coordinate: str = "int") -> ctypes.CDLL:
    """One library of the texts of many kernels."""
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    runs = [
        RUN.format(found, re.sub(r"_\d+(_single)?$", "", found))
        for text in texts
        for found in re.findall(r"^CELERITY_KERNEL void (\w+)\(", text, re.MULTILINE)
    ]
    body = "\n".join([*texts, *runs])
    source.write_text(
        f'#define CELERITY_COORDINATE {coordinate}\n{SHIM}#include "{PRELUDE}"\nnamespace fused {{\n{body}\n}}\n'
    )
    subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class Memory:
    """The memory of an array while kernels run on it: with rows of any length, at any address, between guards."""

    def __init__(self, array: Array, address: int, padding: int) -> None:
        """`address` is that of the first element modulo 16, and rows are `padding` bytes longer than their elements."""
        self.array = array
        strides = [array.itemsize]
        for extent in array.shape[:0:-1]:
            strides.append(strides[-1] * extent + (padding if len(strides) == 1 else 0))
        strides = strides[: array.ndim][::-1]
        size = sum((extent - 1) * stride for extent, stride in zip(array.shape, strides, strict=True)) + array.itemsize
        self._bytes = np.full(size + 96, 0x5A, np.uint8)
        start = 32 + (address - self._bytes.ctypes.data) % 16
        self.view: Array = np.ndarray(array.shape, array.dtype, self._bytes, start, strides)
        self.view[...] = array
        covered = np.zeros(len(self._bytes), np.bool_)
        for byte in range(array.itemsize):
            np.ndarray(array.shape, np.bool_, covered, start + byte, strides)[...] = True
        self._outside = ~covered

    def take_back(self) -> None:
        """Put the elements into the array, and see that nothing else was written."""
        self.array[...] = self.view
        assert (self._bytes[self._outside] == 0x5A).all(), "a kernel has written beside its arrays"


def placed(arrays: Sequence[Array], draws: random.Random | None) -> list[Memory]:
    """Memory for arrays. With `draws`, rows and addresses are often such that vectors are possible, and often not."""
    shift = draws.randrange(4) if draws else 0
    found: dict[int, Memory] = {}
    for array in arrays:
        row = array.shape[-1] * array.itemsize if array.shape else array.itemsize
        address, padding = shift * array.itemsize % 16, -row % 16
        if draws is None:
            address, padding = 0, 0
        elif draws.random() < 0.1:
            address, padding = draws.randrange(4) * array.itemsize % 16, draws.randrange(3) * array.itemsize
        if id(array) not in found:
            found[id(array)] = Memory(array, address, padding)
    return [found[id(array)] for array in arrays]


@dataclass
class Given:
    """What a launch gives, with the memory that it keeps."""

    addresses: list[int]
    strides: list[int]
    numbers: list[int]
    scalars: Array
    kept: list[Array]

    def block(self) -> Array:
        """As the kernel gets it."""
        words = (self.addresses or [0], self.strides or [0], self.numbers or [0])
        return np.concatenate([*(np.array(one, np.int64) for one in words), self.scalars.reshape(-1).view(np.int64)])


def given_to(kernel: FusedKernel, arguments: Sequence[Any], arrays: Sequence[Array]) -> Given:
    """What a launch on arrays gives, those of the kernel's accesses, and scratch memory full of garbage."""
    given = Given([], [], list(kernel.numbers), kernel.scalars_of(arguments), [])
    for array in arrays:
        given.addresses.append(array.ctypes.data)
        given.strides.extend(array.strides)
    for scratch in kernel.scratch:
        memory = np.full(scratch.shape, 0x5A, dtype=np.uint8).repeat(scratch.dtype.itemsize, axis=-1)
        memory = memory.reshape(-1).view(scratch.dtype).reshape(scratch.shape)
        given.kept.append(memory)
        origin = sum(low * stride for low, stride in zip(scratch.origin, memory.strides, strict=True))
        given.addresses.append(memory.ctypes.data - origin)
        given.strides.extend(memory.strides)
    return given


class Grid(NamedTuple):
    """x first."""

    blocks: list[int]
    threads: list[int]
    is_single: bool


def begin_pass(one: PassLaunch, given: Given) -> Grid:
    """Let native code set the columns of vectors, and tell the grid; its blocks are 0 if there are no items."""
    addresses, strides, numbers = (table or [0] for table in (given.addresses, given.strides, given.numbers))
    words = [*addresses, *strides, *numbers]
    begin = len(addresses) + len(strides)
    bounds = given.numbers[one.bounds : one.bounds + 2 * one.dims]
    begun = _native_testing.begin_pass(bounds, threads_of(one), words, len(addresses), begin)
    if begun is None:
        return Grid([0, 0, 0], [1, 1, 1], False)
    blocks, threads, is_single, changed = begun
    given.numbers[:] = changed[begin : begin + len(given.numbers)]
    return Grid(list(blocks), list(threads), is_single)


def launch(
    library: ctypes.CDLL,
    kernel: FusedKernel,
    arguments: Sequence[Any],
    name: str = "",
    draws: random.Random | None = None,
) -> int:
    """Run the passes of a kernel on the arrays of the arguments, and tell how many of them used vectors.

    With `draws`, the place of the arrays in memory and the extents of grids and blocks are drawn.
    """
    memories = placed([arguments[place].array for place in kernel.accesses], draws)
    given, num_wide = given_to(kernel, arguments, [memory.view for memory in memories]), 0
    for place, one in enumerate(kernel.passes):
        if draws:
            block = tuple(draws.randint(1, 3) for _ in range(one.dims))
            single = one.single and one.single._replace(block=block)
            one = replace(one, shape=one.shape._replace(block=block), single=single)  # noqa: PLW2901
        blocks, threads, is_single = begin_pass(one, given)
        if one.wide_bounds is not None:
            num_wide += given.numbers[one.wide_bounds] < given.numbers[one.wide_bounds + 1]
        text = kernel.text.partition(f"void {kernel.name}_{place}(")[2].partition("CELERITY_KERNEL")[0]
        if draws:  # there may be more blocks than needed, and less where the text has loops
            for axis in range(one.dims):
                least = 1 if f"CELERITY_TILES({'xyz'[axis]}" in text or one.most_blocks else blocks[axis]
                blocks[axis] = draws.randint(least, blocks[axis] + 1)
        content = given.block()
        run = getattr(library, f"run_{name or kernel.name}_{place}{'_single' if is_single else ''}")
        run(content.ctypes.data_as(ctypes.c_void_p), (ctypes.c_uint * 3)(*blocks), (ctypes.c_uint * 3)(*threads))
    for memory in memories:
        memory.take_back()
    return num_wide


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
            result.append(replace(one, array=array))
        else:
            result.append(one)
    return result


def describe_difference(kernel: FusedKernel | FusedCpuKernel, expected: Sequence[Any], found: Sequence[Any]) -> str:
    """Empty if both are equal."""
    texts = []
    for place in kernel.accesses:
        a, b = expected[place].array, found[place].array
        where = np.argwhere(differing(a, b))
        texts += [
            f"argument {place} at {tuple(map(int, one))}: {a[tuple(one)]!r} != {b[tuple(one)]!r}" for one in where[:5]
        ]
    return "\n".join(texts)
