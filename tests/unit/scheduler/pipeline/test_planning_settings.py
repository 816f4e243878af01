# SPDX-License-Identifier: MIT
"""Settings of scheduler and executor have names, and the scheduler keeps the executor that it plans for."""

from __future__ import annotations

import sys

import pytest

from celerity_py._native import CudaSettings, Executor, ExecutorSettings, PlanningSettings, Scheduler


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
    executor = Executor()
    references = sys.getrefcount(executor)
    scheduler = Scheduler(PlanningSettings(), executor)
    assert sys.getrefcount(executor) == references + 1
    del scheduler
    assert sys.getrefcount(executor) == references


def test_settings_of_gpus_belong_to_as_many_devices() -> None:
    gpus = CudaSettings(
        ordinals=[3, 5], compute_lanes=4, small_copies=[(64, 72, 80, 88, 96)], release_cached_memory=print
    )
    assert (gpus.ordinals, gpus.compute_lanes, gpus.small_copies, gpus.release_cached_memory) == ([3, 5], 4, 1, True)
    with pytest.raises(ValueError, match="ordinals needs one entry per device"):
        Executor(ExecutorSettings(num_devices=3), gpus)
    with pytest.raises(ValueError, match="small_copies needs one entry per device"):
        Executor(ExecutorSettings(num_devices=2), gpus)
    with pytest.raises(AttributeError, match="lanes"):
        CudaSettings(lanes=4)


def test_settings_of_an_executor_have_names() -> None:
    settings = ExecutorSettings(num_ranks=4, rank=2, idle_spin_s=0.25, sync=True)
    assert (settings.num_ranks, settings.rank, settings.num_devices, settings.idle_spin_s) == (4, 2, 1, 0.25)
    assert settings.sync
    assert not settings.direct
    assert settings.trace is None
