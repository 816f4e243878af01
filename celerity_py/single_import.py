# SPDX-License-Identifier: MIT
"""One import per process: the extension, the threads of a run and MPI belong to the interpreter that came first."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

#: An attribute of `sys`, where a program that drops modules from `sys.modules` leaves it.
_FIRST: Final = "_celerity_py"


def begin() -> None:
    """Before the other modules are imported: refuse a sub-interpreter, and bring dropped modules back.

    Modules that were dropped from `sys.modules` still belong to queues and buffers of the program, and the extension
    cannot be loaded twice. So a second import gives the modules of the first one.

    Raises:
        ImportError: In a sub-interpreter.
    """
    if _is_sub_interpreter():
        raise ImportError(
            "celerity_py is imported in a sub-interpreter, but it works in the main interpreter of a process only. "
            "Import it there, or start another process."
        )
    first = getattr(sys, _FIRST, None)
    if first is not None:
        sys.modules.update(_modules_of(first))


def end(package: str) -> None:
    """The import of the package is complete."""
    setattr(sys, _FIRST, sys.modules[package])


def _modules_of(package: ModuleType) -> dict[str, ModuleType]:
    """The package and its modules, by their names."""
    found = {package.__name__: package}
    waiting = [package]
    while waiting:
        for value in list(vars(waiting.pop()).values()):
            if isinstance(value, ModuleType) and value.__name__.startswith(f"{package.__name__}."):
                if value.__name__ not in found:
                    waiting.append(value)
                found.setdefault(value.__name__, value)
    return found


def _is_sub_interpreter() -> bool:
    try:
        import ctypes

        current: Any = ctypes.pythonapi["PyInterpreterState_Get"]
        number_of: Any = ctypes.pythonapi["PyInterpreterState_GetID"]
    except ImportError:  # of an isolated sub-interpreter
        return True
    current.restype, number_of.argtypes, number_of.restype = ctypes.c_void_p, [ctypes.c_void_p], ctypes.c_int64
    return bool(number_of(current()))
