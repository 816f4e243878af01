# SPDX-License-Identifier: MIT
"""Each contradiction that `validate()` of the engine looks for is made by a native test, which expects the error."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_each_contradiction_of_the_engine_is_made_once_by_the_native_test() -> None:
    source = (ROOT / "executor/core/engine/engine_checks.cpp").read_text()
    statements = re.findall(r'(?:return|\?)\s+"([^"]+)"[;\s]', source)
    made = re.findall(r'^    \{"([^"]+)",', (ROOT / "tests/native/test_engine_checks.cpp").read_text(), re.MULTILINE)
    assert len(statements) > 24
    assert sorted(made) == sorted(statement for statement in statements if statement != "instruction ")
