# SPDX-License-Identifier: MIT
"""Whether a function may be called once more on copies of its data, as its bytecode tells: nobody else would notice.

Only functions count of which everything is known: they name modules of computations, functions that count as well,
and values that cannot change. A function that names a list, an object or an array to write into, that prints, draws
random numbers or imports, does not count.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from celerity_py._native import Box, Region
from celerity_py.kernels import Kernel

_VALUES: Final = (bool, int, float, complex, str, bytes, type(None), type(...), slice, range, np.generic, np.dtype)
_VALUES_OF_OURS: Final = (Box, Region)
_MODULES: Final = frozenset({"numpy", "cupy", "math", "cmath", "operator", "scipy", "celerity_py"})
_BUILTINS: Final = frozenset(
    {
        "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "frozenset", "int",
        "isinstance", "len", "list", "max", "min", "pow", "range", "reversed", "round", "set", "slice",
        "sorted", "sum", "tuple", "zip", "Exception", "IndexError", "TypeError", "ValueError",
        "ZeroDivisionError",
    }
)  # fmt: skip
_STORES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME"})
_OUTER_STORES: Final = frozenset({"STORE_DEREF", "DELETE_DEREF"})
#: Attributes by which these modules keep a state, or reach files and other memory.
_EFFECTS: Final = frozenset(
    {
        "random", "save", "savez", "savez_compressed", "savetxt", "tofile", "memmap", "load", "loadtxt",
        "fromfile", "seterr", "seterrcall", "set_printoptions", "setbufsize", "ctypes", "lib", "testing", "io",
        "cuda", "configure", "Queue", "Buffer", "HostObject",
    }
)  # fmt: skip
_DEPTH: Final = 8  # functions that call functions


def may_run_again(function: Any, arguments: list[Any]) -> bool:
    """Whether a call of a kernel's function on copies changes nothing outside of them.

    Args:
        function: Of the kernel.
        arguments: Its plain arguments.
    """
    return all(map(_is_constant, arguments)) and _is_pure(function, _DEPTH)


def _is_pure(function: Any, depth: int) -> bool:
    if not isinstance(function, FunctionType) or depth == 0:
        return False
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if not all(map(_is_constant, given)):
        return False
    for code in _codes(function.__code__):
        for instruction in dis.get_instructions(code):
            name, operation = instruction.argval, instruction.opname
            if operation in _STORES or (operation in _OUTER_STORES and name in cells):
                return False
            if operation in {"LOAD_ATTR", "LOAD_METHOD"} and name in _EFFECTS:
                return False
            if operation in {"LOAD_GLOBAL", "LOAD_NAME"} and not _may_be_named(_global(function, name), name, depth):
                return False
    try:
        return all(_may_be_used(cell.cell_contents, depth) for cell in cells.values())
    except ValueError:  # a variable that has no value yet
        return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


_MISSING: Final = object()


def _global(function: FunctionType, name: str) -> Any:
    return function.__globals__.get(name, _MISSING)


def _may_be_named(value: Any, name: str, depth: int) -> bool:
    if value is _MISSING:
        return name in _BUILTINS and hasattr(builtins, name)
    return _may_be_used(value, depth)


def _may_be_used(value: Any, depth: int) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _MODULES and "random" not in value.__name__
    if isinstance(value, Kernel):
        return _is_pure(value.cpu, depth - 1)
    if isinstance(value, FunctionType | BuiltinFunctionType | np.ufunc | type):
        home = (getattr(value, "__module__", None) or "").partition(".")[0]
        return home in _MODULES or isinstance(value, np.ufunc) or _is_pure(value, depth - 1)
    return _is_constant(value)


def _is_constant(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.flags.writeable
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, (*_VALUES, *_VALUES_OF_OURS))
