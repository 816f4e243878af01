# SPDX-License-Identifier: MIT
"""Random programs with one mistake each: every kind can be made, and a few are run. More, with ranks that differ:

`python -m tests.property.illegal_programs --programs 1000`
"""

from __future__ import annotations

import pytest

from tests.property.illegal_programs import Machine, illegal_program, judge
from tests.property.misuse import ALL_MISTAKES

NEEDS_NO_RANKS = (
    "all chunks write all",
    "a chunk reads what others write",
    "the whole reads less than its parts",
    "the whole writes more than its parts",
    "mapper of other dimensions",
    "an index space beyond the buffer",
    "reduction and access of one buffer",
    "a mapper raises",
    "what nobody wrote is read",
    "elements are left unwritten",
    "a kernel reads beyond its region",
    "a kernel writes through a read access",
    "a kernel raises",
    "a kernel submits",
    "a kernel uses a captured buffer",
    "a kernel writes between its boxes",
    "one device: local indices",
    "one device: all chunks write all",
    "a forked child waits",
    "plain value of a replay",
    "buffer of a replay",
    "a value after the submit",
)


@pytest.mark.parametrize("kind", ALL_MISTAKES)
def test_every_kind_of_mistake_fits_into_some_program(kind: str) -> None:
    illegal = illegal_program(1, kind)
    assert illegal.kind == kind
    assert illegal.odd_steps is None or illegal.odd_tampering or illegal.odd_steps != tuple(illegal.program.steps)


@pytest.mark.parametrize("kind", NEEDS_NO_RANKS)
def test_a_mistake_of_all_ranks_is_reported_by_the_right_error(kind: str) -> None:
    illegal = illegal_program(7, kind)
    verdict = judge(7, illegal, Machine(1, "cpu:1" if illegal.one_device else "cpu:2", "auto", 60))
    assert verdict.outcome == "right", (verdict.text, str(illegal))
