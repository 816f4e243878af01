# SPDX-License-Identifier: MIT
"""The comparison with Celerity: each of its features has an answer, and each test that an answer names exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATES = {"works", "differs", "not for us"}


def _rows() -> list[tuple[int, str, str, str]]:
    """Number, feature, state and answer of each row."""
    text = (ROOT / "docs" / "parity.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, flags=re.MULTILINE)
    return [(int(number), feature, state, answer) for number, feature, state, answer in rows]


@functools.cache
def _tests_in(path: Path) -> frozenset[str]:
    if path.suffix == ".cpp":
        return frozenset(re.findall(r"^void (check_\w+)\(", path.read_text(), flags=re.MULTILINE))
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def test_each_feature_has_one_answer_and_none_is_open() -> None:
    rows = _rows()
    assert [number for number, *_ in rows] == list(range(1, 101))
    assert {state for _, _, state, _ in rows} <= STATES


@pytest.mark.parametrize(("number", "feature", "state", "answer"), _rows())
def test_an_answer_names_tests_that_exist(number: int, feature: str, state: str, answer: str) -> None:
    named = re.findall(r"`([\w/]+\.(?:py|cpp))::(\w+)`", answer)
    missing = [f"{file}::{name}" for file, name in named if name not in _tests_in(ROOT / "tests" / file)]
    assert not missing, f"row {number}, {feature}"
    assert named or state != "works", f"row {number}, {feature}, names no test"
    assert answer.count("::") == len(named), f"row {number}, {feature}, names a test in another form"
