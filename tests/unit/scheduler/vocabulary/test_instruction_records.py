# SPDX-License-Identifier: MIT
"""Instructions as records: each kind has all of its fields there, and records become the same instructions again."""

from __future__ import annotations

from typing import Any

import pytest

from celerity_py import _native_testing
from tests.property.program_generator import seeded_program
from tests.support.executor_harness import DEVICE0, Script
from tests.verification.contexts import RankContext

NUM_PROGRAMS = 60


def planned(seed: int) -> list[dict[str, Any]]:
    """The instructions of rank 0 of a random program."""
    program = seeded_program(seed)
    context = RankContext(program.settings, 0)
    for step in program.steps:
        context.apply(step)
    context.finish()
    return context.take()


def test_records_of_all_kinds_become_the_same_instructions_again() -> None:
    kinds = set()
    for seed in range(NUM_PROGRAMS):
        records = planned(seed)
        assert _native_testing.InstructionRecords(records).instructions == records
        kinds |= {record["kind"] for record in records}
    assert kinds == set(_native_testing.INSTRUCTION_KINDS)


@pytest.mark.parametrize("seed", range(0, NUM_PROGRAMS, 10))
def test_no_field_of_a_record_is_optional(seed: int) -> None:
    for record in planned(seed):
        for name in record:
            lacking = {key: value for key, value in record.items() if key != name}
            with pytest.raises(KeyError, match=name):
                _native_testing.InstructionRecords([lacking])


def test_a_record_tells_whether_a_kernel_is_a_border_and_for_whom_memory_is() -> None:
    s = Script()
    s.alloc(DEVICE0, 1, 10)
    s.kernel(0, 5, (DEVICE0, 1), 10)
    s.records[0]["submission"] = 5
    s.records[1]["is_border"] = True
    alloc, kernel = _native_testing.InstructionRecords(s.records).instructions
    assert alloc["submission"] == 5
    assert kernel["is_border"]


def test_an_unknown_kind_is_refused() -> None:
    s = Script()
    s.add("polish", submission=1)
    with pytest.raises(ValueError, match="unknown kind 'polish'"):
        _native_testing.InstructionRecords(s.records)
