# SPDX-License-Identifier: MIT
"""Random programs as hypothesis draws and shrinks them; the generator itself does without hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.property.program_generator import ProgramGenerator
from tests.property.programs import Program


class HypothesisDraws:
    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return low if low == high else self._draw(st.integers(low, high))


@st.composite
def _programs(draw: DrawFn) -> Program:
    return ProgramGenerator(HypothesisDraws(draw), with_replays=True).generate()


def programs() -> SearchStrategy[Program]:
    return _programs()
