# SPDX-License-Identifier: MIT
"""Settings of the scheduler have names, and it keeps the executor that it plans for."""

from __future__ import annotations

import sys

import pytest

from celerity_py._native import Executor, PlanningSettings, Scheduler


def test_each_field_is_a_keyword_and_an_attribute() -> None:
    settings = PlanningSettings(num_ranks=4, rank=2, lookahead="infinite", direct_ranks=[True] * 4)
    settings.horizon_step = 7
    assert (settings.num_ranks, settings.rank, settings.lookahead, settings.horizon_step) == (4, 2, "infinite", 7)
    assert settings.direct_ranks == [True] * 4
    assert settings.program is None


def test_a_field_or_value_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="num_rank"):
        PlanningSettings(num_rank=4)
    with pytest.raises(ValueError, match="lookahead is one of none, auto, infinite, but got 'far'"):
        PlanningSettings(lookahead="far")


def test_an_executor_lives_as_long_as_its_scheduler() -> None:
    executor = Executor(num_ranks=1, rank=0, num_devices=1)
    references = sys.getrefcount(executor)
    scheduler = Scheduler(PlanningSettings(), executor)
    assert sys.getrefcount(executor) == references + 1
    del scheduler
    assert sys.getrefcount(executor) == references
