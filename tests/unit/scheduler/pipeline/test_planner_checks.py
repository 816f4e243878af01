# SPDX-License-Identifier: MIT
"""Each statement that `validate()` of the planner checks is broken by a native test, which expects the error."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_each_statement_of_validate_is_broken_once_by_the_native_test() -> None:
    core = ROOT / "scheduler/core"
    sources = [path.read_text() for path in sorted(core.rglob("*.[ch]pp")) if path.name != "ensure.hpp"]
    statements = [found for text in sources for found in re.findall(r'\bensure\([^;]*?"([^"]+)"\)', text)]
    broken = re.findall(r'^    \{"([^"]+)",', (ROOT / "tests/native/test_planner_checks.cpp").read_text(), re.MULTILINE)
    assert len(statements) > 40
    assert sorted(broken) == sorted(statements)
