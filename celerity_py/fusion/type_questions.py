# SPDX-License-Identifier: MIT
"""Whether a function asks for the type of a number, or for its text: what stands for a number in a trace has others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any, Final

from celerity_py.calls.named_paths import named_paths
from celerity_py.calls.reached_values import FOREIGN

#: Functions of Python and NumPy. With one of them, a trace gets the numbers themselves, and holds for these.
_QUESTIONS: Final = frozenset(
    ("isinstance", "issubclass", "type", "callable", "hasattr", "str", "repr", "format", "ascii", "isscalar")
)
_MOST_FUNCTIONS: Final = 64


def asks_for_types(function: Callable[..., Any]) -> bool:
    """Whether a function, or one that it names, names such a function. Says yes too often rather than too seldom."""
    start = getattr(function, "__func__", function)
    todo, seen = [start], {start}
    while todo:
        current = todo.pop()
        if not isinstance(current, FunctionType):
            continue
        for code in _codes_in(current.__code__):
            if not _QUESTIONS.isdisjoint(code.co_names) or _imports_of_program(code):
                return True
            for other in (*map(current.__globals__.get, code.co_names), *_enclosed_by(current)):
                if isinstance(other, FunctionType) and other not in seen and len(seen) < _MOST_FUNCTIONS:
                    seen.add(other)
                    todo.append(other)
    return False


def _imports_of_program(code: CodeType) -> bool:
    """Whether a function imports modules that may have such functions."""
    return any(path.kind == "import" and path.name.partition(".")[0] not in FOREIGN for path in named_paths(code).read)


def _enclosed_by(function: FunctionType) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)
