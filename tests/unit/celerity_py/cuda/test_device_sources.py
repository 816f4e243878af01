# SPDX-License-Identifier: MIT
"""The CUDA sources of the runtime and of the applications compile for old and new GPUs, on hosts without one."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from celerity_py import CudaKernel, small_operations
from celerity_py.cuda import compilation, small_copies
from celerity_py.cuda.compilation import Program
from celerity_py.fusion.kernels import FusedKernel
from celerity_py.reductions.cuda_reductions import program_of
from celerity_py.reductions.ordered_reductions import _kernel_for
from tests.property.fused_programs import make_all
from tests.support.fused_cases import BOX as CASE_BOX
from tests.support.fused_cases import CASES
from tests.support.fused_kernels import make_kernel
from tests.support.fused_sheets import BOX as SHEET_BOX
from tests.support.fused_sheets import conversions, products_of_complex_numbers, sheets
from tests.support.partial_results import CASES as REDUCTIONS

APPLICATIONS = Path(__file__).parents[4] / "cluster_jobs" / "apps"
ARCHITECTURES = "75", "90"  # the oldest that CUDA 13 knows, and Hopper


@cache
def _compiler() -> ctypes.CDLL | None:
    """NVRTC of the package nvidia-cuda-nvrtc, from any folder of the path."""
    for folder in sys.path:
        for library in sorted(Path(folder).glob("nvidia/*/lib/libnvrtc.so.*")):
            return ctypes.CDLL(str(library))
    return None


needs_compiler = pytest.mark.skipif(_compiler() is None, reason="nvidia-cuda-nvrtc is not installed")


def compile_source(text: str, architecture: str, options: tuple[str, ...]) -> str:
    """The compiler's log, empty for a source without errors and warnings."""
    nvrtc = _compiler()
    assert nvrtc is not None
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    count = len(compilation.headers())
    texts = (ctypes.c_char_p * count)(*compilation.headers().values())
    names = (ctypes.c_char_p * count)(*compilation.headers())
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"program.cu", count, texts, names) == 0
    try:
        given = [f"-arch=sm_{architecture}", *options]
        arguments = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
        status = nvrtc.nvrtcCompileProgram(program, len(given), arguments)
        assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
        log = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetProgramLog(program, log) == 0
        said = log.value.decode().strip()
        assert status == 0 or said
        return said
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _application(name: str, sources: str, kernel: str, items: str = "1,1,1") -> Program:
    """A kernel of an application, by the names of the strings that are its source."""
    sys.path.insert(0, str(APPLICATIONS))
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(str(APPLICATIONS))
    return Program(
        "".join(getattr(module, source) for source in sources.split()), kernel, (f"-DCELERITY_ITEMS={items}",)
    )


def _reductions() -> Program:
    """The kernels of all operations and dtypes."""
    sources = [program_of(op, dtype).source for op, dtype in REDUCTIONS]
    return Program("\n".join(f"namespace case{i} {{\n{text}\n}}" for i, text in enumerate(sources)), "reduce_partials")


def _ordered(op: str, dtype: str) -> Program:
    kernel = _kernel_for(op, dtype, 0)
    return Program(kernel.source, kernel.name)


def _small(name: str, dtype: str, ndim: int) -> Program:
    kernel = small_operations._kernel_for(getattr(small_operations, name), np.dtype(dtype), ndim).cuda
    assert isinstance(kernel, CudaKernel)
    return Program(kernel.source, kernel.name)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "reductions": _reductions,
    "ordered-sum": lambda: _ordered("sum", "float64"),
    "ordered-product": lambda: _ordered("prod", "float32"),
    **{
        f"{name[1:].lower()}-{dtype}-{ndim}": partial(_small, name, dtype, ndim)
        for name, dtypes in (
            ("_FILL", ("bool", "complex64")),
            ("_COPY", ("int8", "complex128")),
            ("_FIND", ("bool", "complex64")),
            ("_DOT", ("int32", "float64")),
            ("_NORM", ("uint8", "float32")),
        )
        for dtype, ndim in zip(dtypes, (0, 3), strict=True)
    },
    "wave_sim": lambda: _application("wave_sim", "WAVE_STEP_SOURCE", "wave_step", "1,8,4"),
    "matmul": lambda: _application("matmul", "MULTIPLY_SOURCE", "multiply", "1,8,4"),
    "nbody": lambda: _application("nbody", "ACCELERATION_SOURCE NBODY_STEP_SOURCE", "nbody_step"),
    "rsim": lambda: _application("rsim", "RSIM_SOURCE", "advance_light"),
}


@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_compiles(name: str, architecture: str) -> None:
    program = PROGRAMS[name]()
    options = (*compilation._BASE_OPTIONS, *program.options)
    assert not compile_source(program.text, architecture, options)


@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_that_copy_and_exchange_compile(architecture: str) -> None:
    assert not compile_source(small_copies._SOURCE, architecture, ("--std=c++17",))


def _unit_of(kernels: Iterable[FusedKernel], coordinate: str) -> str:
    """Many fused kernels as one source, without the lines that include headers."""
    headers = (text.decode() for text in compilation.fused_headers().values())
    lines = [
        line for text in headers for line in text.splitlines() if not line.startswith(("#include", "#pragma once"))
    ]
    texts = [kernel.text for kernel in kernels]
    return "\n".join([f"#define CELERITY_COORDINATE {coordinate}", *lines, "namespace fused {", *texts, "}"])


def _fused_cases() -> list[FusedKernel]:
    return [make_kernel(function, CASE_BOX, *given, name=name) for name, (function, given) in CASES.items()]


def _fused_operations() -> list[FusedKernel]:
    """Every operation on every dtype."""
    every = sheets() | {"conversions": conversions(), "complex": products_of_complex_numbers()}
    return [
        make_kernel(sheet.function, SHEET_BOX, *sheet.arguments, name=f"of_{name}") for name, sheet in every.items()
    ]


def _random_kernels() -> list[FusedKernel]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows and divisions by 0 are meant
        made, _ = make_all(itertools.count(5_000_000), 10)
    return [one.kernels[0] for one in made]


@needs_compiler
@pytest.mark.parametrize(("coordinate", "architecture"), [("int", "75"), ("long long", "90")])
@pytest.mark.parametrize("make", [_fused_cases, _fused_operations, _random_kernels])
def test_fused_kernels_compile(make: Callable[[], list[FusedKernel]], coordinate: str, architecture: str) -> None:
    options = ("--std=c++17", "--fmad=false", "--disable-warnings")  # not all that is declared is used
    assert not compile_source(_unit_of(make(), coordinate), architecture, options)


@needs_compiler
def test_a_mistake_in_a_fused_kernel_is_found() -> None:
    text = _unit_of(_fused_cases()[:1], "int").replace("op_add(", "op_plus(", 1)
    assert "op_plus" in compile_source(text, "90", ("--std=c++17", "--disable-warnings"))


@needs_compiler
def test_a_mistake_is_found() -> None:
    assert "undefined" in compile_source(small_copies._SOURCE.replace("is_behind(", "is_before(", 1), "90", ())
