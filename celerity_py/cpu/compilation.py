# SPDX-License-Identifier: MIT
"""Compiles fused kernels for the processor with numba, once per host, and keeps the result on disk.

numba is imported for a compilation only. A result from disk is loaded by llvmlite, in milliseconds.
"""

from __future__ import annotations

import ctypes.util
import functools
import hashlib
import importlib.metadata
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from celerity_py.kept_kernels.results import take_or_make
from celerity_py.scheduler.errors import InternalError

_log = logging.getLogger(__name__)

_NUM_PARAMETERS: Final = 5
_FOREIGN: Final = ("numba_", "NRT_")
_WAYS: Final = 3  # of LLVM to optimize


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """Functions of a text, one per pass, for as long as this object lives. Any thread may call them, without the GIL.

    Each is `void f(char* const* memories, const int64* strides, const int64* numbers, const char* scalars, const int64*
    bounds)`. Memories are the addresses of elements at global origins, strides are those in bytes of each memory's
    dimensions, numbers and scalars (16 bytes each) are those of the text's launch. Bounds are those of a part of the
    pass's box: per dimension the lowest coordinate, and the one behind the highest. Several threads may compute parts.
    """

    addresses: tuple[int, ...]
    _engine: Any  # has the machine code


def compile_for_cpu(text: str, name: str, num_passes: int, *, folder: Path | None = None) -> CpuKernel:
    """Take a kernel from disk, or compile it. Of all processes of a host that want the same one, one compiles.

    Args:
        text: As `fusion.cpu_emission` writes it.
        name: That of the kernel: the functions are `name_0`, `name_1`, ...
        num_passes: The number of functions.
        folder: For results, instead of the user's cache.

    Raises:
        ImportError: If numba is not installed.
        InternalError: If the result would need numba to run.
    """
    if num_passes == 0:
        return CpuKernel((), None)
    names = [f"{name}_{place}" for place in range(num_passes)]
    symbols, machine_code = _split(take_or_make(_key_of(text), lambda: _compile(text, names), folder))
    engine = _load(machine_code)
    return CpuKernel(tuple(engine.get_function_address(symbol) for symbol in symbols), engine)


def _key_of(text: str) -> str:
    """The name of a result, which depends on everything that went into it."""
    return hashlib.sha256(f"{_fixed_key()}\n{text}".encode()).hexdigest()


@functools.cache
def _fixed_key() -> str:
    own = Path(__file__)
    names = ("compilation.py", "operations.py", "folds.py", "random_numbers.py", "../random.py")
    sources = [(own.parent / name).read_text() for name in names]
    versions = [importlib.metadata.version(name) for name in ("numba", "llvmlite")]
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    return repr([*sources, *versions, *settings, *_processor()])


@functools.cache
def _processor() -> tuple[str, str]:
    """Name and abilities of this processor, as LLVM has them."""
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def _compile(text: str, names: list[str]) -> bytes:
    symbols, module = translate(text, names)
    machine_code: bytes = _target_machine().emit_object(module)
    return "\n".join([*symbols, "", ""]).encode() + machine_code


def translate(text: str, names: list[str]) -> tuple[list[str], Any]:
    """Functions of a text as an optimized module of LLVM, and their symbols in it."""
    import numba
    from llvmlite import binding
    from numba.core import types

    from celerity_py.cpu import folds, operations, random_numbers

    space = vars(random_numbers) | vars(folds) | vars(operations)
    exec(compile(text, "<fused kernel>", "exec"), space)  # noqa: S102 - our own text
    signature = types.void(*[types.voidptr] * _NUM_PARAMETERS)
    functions = [numba.cfunc(signature, nopython=True, error_model="numpy")(space[name]) for name in names]
    module = binding.parse_assembly(functions[0].inspect_llvm())
    for function in functions[1:]:
        module.link_in(binding.parse_assembly(function.inspect_llvm()))
    module.link_in(binding.parse_assembly(_gil_functions()))
    foreign = [one.name for one in module.functions if one.is_declaration and one.name.startswith(_FOREIGN)]
    if foreign:
        raise InternalError(f"A fused kernel calls {', '.join(foreign)} of numba. This is a bug in celerity_py.")
    return [function.native_name for function in functions], module


def _gil_functions() -> str:
    """Numba's functions around the report of an exception, as text for LLVM.

    No kernel raises one. But a process without numba lacks them, and LLVM then leaves all addresses in the code null.
    """
    from llvmlite import ir

    number = ir.IntType(32)
    module = ir.Module()
    ensure, release = (
        ir.Function(module, ir.FunctionType(ir.VoidType(), [number.as_pointer()]), f"numba_gil_{name}")
        for name in ("ensure", "release")
    )
    python_ensure = ir.Function(module, ir.FunctionType(number, []), "PyGILState_Ensure")
    python_release = ir.Function(module, ir.FunctionType(ir.VoidType(), [number]), "PyGILState_Release")
    builder = ir.IRBuilder(ensure.append_basic_block())
    builder.store(builder.call(python_ensure, []), ensure.args[0])
    builder.ret_void()
    builder = ir.IRBuilder(release.append_basic_block())
    builder.call(python_release, [builder.load(release.args[0])])
    builder.ret_void()
    return str(module)


def _split(contents: bytes) -> tuple[list[str], bytes]:
    head, _, machine_code = contents.partition(b"\n\n")
    return head.decode().split("\n"), machine_code


def _target_machine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    name, features = _processor()
    target = binding.Target.from_triple(binding.get_process_triple())
    return target.create_target_machine(cpu=name, features=features, opt=_WAYS, jit=True)


def _load(machine_code: bytes) -> Any:
    """An engine of its own: symbols of different processes may have the same name."""
    from llvmlite import binding

    library = ctypes.util.find_library("m")
    if library is not None:
        binding.load_library_permanently(library)
    machine = _target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(machine_code))
    engine.finalize_object()
    return engine
