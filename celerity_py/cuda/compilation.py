# SPDX-License-Identifier: MIT
"""Compiles CUDA C++ once per host and architecture, keeps the result on disk, and loads it onto devices."""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from celerity_py.cuda.contexts import on_device
from celerity_py.kept_kernels.results import LOCK_TIMEOUT_S, take_or_make

_log = logging.getLogger(__name__)

#: Every kernel includes them.
_HEADER_NAMES: Final = (
    "celerity_device.cuh",
    "celerity_operations.cuh",
    "celerity_reducers.cuh",
    "celerity_random.cuh",
)
#: Every fused kernel does so with the last one, which includes the others.
_FUSED_HEADER_NAMES: Final = (
    *("fused_types.cuh", "fused_operations.cuh", "celerity_random.cuh", "fused_random.cuh"),
    *("fused_tiles.cuh", "fused_folds.cuh"),
)
_FUSION: Final = Path(__file__).parent.parent / "fusion"
_BASE_OPTIONS: Final = ("-std=c++17", "--device-as-default-execution-space")


class CompilationError(Exception):
    """The compiler's log."""


@dataclass(frozen=True)
class Program:
    """The input of a compilation, without the architecture."""

    source: str  # the user's
    name: str  # of the kernel
    options: tuple[str, ...] = ()
    checks: tuple[str, ...] = field(default=())  # static assertions behind the source

    @property
    def text(self) -> str:
        """The whole translation unit; the compiler counts the user's lines only."""
        lines = [
            *(f'#include "{name}"' for name in _HEADER_NAMES),
            "using celerity::accessor;",
            "using celerity::reducer;",
            "using celerity::ordered_reducer;",
            f'#line 1 "{self.file_name}"',
            self.source,
            *self.checks,
        ]
        return "\n".join(lines) + "\n"

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The texts of the headers, by the names under which `text` includes them."""
        return headers()

    @property
    def file_name(self) -> str:
        """The name of the source in messages of the compiler."""
        return f"{self.name.rpartition('::')[2]}.cu"


@dataclass(frozen=True)
class FusedProgram(Program):
    """The text that the maker of fused kernels has written, in its namespace; `name` is that of a function in it."""

    @property
    def text(self) -> str:
        """See `Program.text`."""
        return f'#include "{_FUSED_HEADER_NAMES[-1]}"\nnamespace fused {{\n{self.source}\n}}\n'

    @property
    def headers(self) -> dict[bytes, bytes]:
        """See `Program.headers`."""
        return fused_headers()


@dataclass(frozen=True)
class Compiled:
    """A cubin, or PTX for devices that are newer than the compiler, and the kernel's mangled name in it."""

    image: bytes
    symbol: str


#: (program, architecture such as "90") -> the result; raises CompilationError.
Compiler = Callable[[Program, str], Compiled]


@functools.cache
def headers() -> dict[bytes, bytes]:
    """The texts of the device headers, by the names under which sources include them."""
    return {name.encode(): (Path(__file__).parent / name).read_bytes() for name in _HEADER_NAMES}


@functools.cache
def fused_headers() -> dict[bytes, bytes]:
    """The same for fused kernels."""
    folders = {name: Path(__file__).parent if name in _HEADER_NAMES else _FUSION for name in _FUSED_HEADER_NAMES}
    return {name.encode(): (folder / name).read_bytes() for name, folder in folders.items()}


# ---- the compiler


def compile_with_nvrtc(program: Program, architecture: str) -> Compiled:
    """Call NVRTC.

    Raises:
        CompilationError: With the compiler's log, if it does not like the program.
    """
    from cupy.cuda import nvrtc

    supported = [number for number in nvrtc.getSupportedArchs() if number <= int(architecture)]
    is_known = int(architecture) in supported
    target = f"-arch=sm_{architecture}" if is_known else f"-arch=compute_{max(supported, default=architecture)}"
    handle = nvrtc.createProgram(program.text, program.file_name, [*program.headers.values()], [*program.headers])
    try:
        nvrtc.addNameExpression(handle, program.name)
        try:
            nvrtc.compileProgram(handle, [target, *_BASE_OPTIONS, *program.options, *_include_options()])
        except nvrtc.NVRTCError as error:
            raise CompilationError(nvrtc.getProgramLog(handle).strip() or str(error)) from None
        log = nvrtc.getProgramLog(handle).strip()
        if log:
            _log.info("The compiler says of the CUDA kernel %r:\n%s", program.name, log)
        symbol = nvrtc.getLoweredName(handle, program.name)
        image = nvrtc.getCUBIN(handle) if is_known else nvrtc.getPTX(handle)
        return Compiled(image if isinstance(image, bytes) else image.encode(), symbol)
    finally:
        nvrtc.destroyProgram(handle)


def compiler_version() -> str:
    """NVRTC's, on which results depend."""
    from cupy.cuda import nvrtc

    return ".".join(map(str, nvrtc.getVersion()))


@functools.cache
def _include_options() -> tuple[str, ...]:
    """For `#include <cuda_fp16.h>`, `<cuda/std/complex>` and the like."""
    import cupy

    bundled = Path(cupy.__file__).parent / "_core" / "include"
    folders = [bundled, *(bundled / "cupy" / "_cccl" / name for name in ("libcudacxx", "cub", "thrust"))]
    toolkit = cupy.cuda.get_cuda_path()
    if toolkit:
        folders += [Path(toolkit) / "include"]
    return tuple(f"-I{folder}" for folder in folders if folder.is_dir())


# ---- results on disk


def is_cacheable(program: Program) -> bool:
    """Whether the result depends on the program alone: included files of the user may change."""
    return re.search(r'^\s*#\s*include\s*"', program.source, flags=re.MULTILINE) is None


def key_of(program: Program, architecture: str, version: str) -> str:
    """The name of a result, which depends on everything that went into it."""
    parts = (version, architecture, program.text, program.name, *_BASE_OPTIONS, *program.options)
    digest = hashlib.sha256(b"".join(program.headers.values()))
    for part in parts:
        encoded = part.encode()
        digest.update(b"%d\n" % len(encoded) + encoded)
    return digest.hexdigest()


def compile_cached(
    program: Program,
    architecture: str,
    version: str,
    *,
    compiler: Compiler = compile_with_nvrtc,
    folder: Path | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Compiled:
    """Take the result from disk, or compile. Of all processes of a host that want the same result, one compiles.

    Args:
        program: The input of the compilation.
        architecture: Of the device, as "90".
        version: Of the compiler.
        compiler: Compiles, if need be.
        folder: For results, instead of the user's cache.
        lock_timeout_s: How long another process may compile before this one does so itself.

    Raises:
        CompilationError: If the compiler does not like the program.
    """
    if not is_cacheable(program):
        return compiler(program, architecture)
    key = key_of(program, architecture, version)
    return _decode(take_or_make(key, lambda: _encode(compiler(program, architecture)), folder, lock_timeout_s))


def _encode(compiled: Compiled) -> bytes:
    return compiled.symbol.encode() + b"\n" + compiled.image


def _decode(contents: bytes) -> Compiled:
    symbol, _, image = contents.partition(b"\n")
    return Compiled(image, symbol.decode())


# ---- on devices

_functions: dict[tuple[Program, int], int] = {}  # by ordinal; never unloaded, as that would wait for streams


def is_loaded(program: Program, ordinals: tuple[int, ...]) -> bool:
    """Whether `load` would return at once."""
    return all((program, ordinal) in _functions for ordinal in ordinals)


def load(program: Program, ordinals: tuple[int, ...]) -> list[int]:
    """Compile, if need be, and load onto devices.

    Returns:
        A CUfunction per ordinal.

    Raises:
        CompilationError: If the compiler does not like the program.
    """
    import cupy

    functions = []
    for ordinal in ordinals:
        function = _functions.get((program, ordinal))
        if function is None:
            device: Any = cupy.cuda.Device(ordinal)
            compiled = compile_cached(program, str(device.compute_capability), compiler_version())
            with on_device(ordinal):
                module = cupy.cuda.driver.moduleLoadData(compiled.image)
                function = int(cupy.cuda.driver.moduleGetFunction(module, compiled.symbol))
            _functions[program, ordinal] = function
        functions.append(function)
    return functions


def most_threads(function: int, ordinal: int) -> int:
    """Threads per block that the registers of the device suffice for."""
    import cupy

    driver = cupy.cuda.driver
    with on_device(ordinal):
        return int(driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function))


def allow_shared_bytes(function: int, ordinal: int, shared_bytes: int) -> int:
    """Let a kernel use more dynamic shared memory than it may without asking.

    Returns:
        The dynamic shared memory that the device has for one block of this kernel. If that is too little, nothing
        changes.
    """
    import cupy

    driver = cupy.cuda.driver
    device = cupy.cuda.Device(ordinal)
    with on_device(ordinal):
        static_bytes = int(driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
        most = int(device.attributes["MaxSharedMemoryPerBlockOptin"]) - static_bytes
        if shared_bytes <= most:
            driver.funcSetAttribute(function, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        return most
