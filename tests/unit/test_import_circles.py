# SPDX-License-Identifier: MIT
"""No circle of imports in the package."""

from __future__ import annotations

import ast
from collections.abc import Container
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "celerity_py" else ("celerity_py", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_modules(path: Path, modules: Container[str]) -> set[str]:
    """The modules that a file imports anywhere: at its head, in functions, and for type checkers."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in modules}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in modules:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            within = {name for name in names if name in modules}
            # The native modules, which are no files of Python, lie in the package.
            from_face = within < names and not names <= within | {"celerity_py._native", "celerity_py._native_testing"}
            found |= within | ({node.module} if from_face else set())
    return found


def _circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other. Leaves off modules that import, or are imported by, no other one."""
    left = dict(imports)
    while True:
        imported = set().union(*left.values()) if left else set()
        ends = {name for name, names in left.items() if not names & left.keys() or name not in imported}
        if not ends:
            return [sorted(left)] if left else []
        left = {name: names - ends for name, names in left.items() if name not in ends}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even in functions or for type checkers: a reader can begin at the bottom."""
    folders = ("celerity_py", "executor", "scheduler")
    paths = {_module_of(path): path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    imports = {name: _imported_modules(path, paths) - {name} for name, path in paths.items()}
    assert len(imports) > 150
    assert _circles(imports) == []


def test_circles_are_found() -> None:
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
