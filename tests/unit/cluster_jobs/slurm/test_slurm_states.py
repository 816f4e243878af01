# SPDX-License-Identifier: MIT
"""Reading what squeue, scontrol and sacct print."""

from __future__ import annotations

import pytest

from cluster_jobs.slurm.states import JobState, parse_duration, parse_sacct, parse_scontrol, parse_squeue

SQUEUE = """17_3|RUNNING|None|1:05|n[1-2]
17_4|PENDING|Dependency|0:00|
18|PENDING|(launch failed requeued held)|0:00|
20|COMPLETING|None|0:09|n1
"""
SCONTROL = (
    "JobId=19 ArrayJobId=17 ArrayTaskId=3 JobName=a b UserId=root(0) JobState=TIMEOUT Reason=None Requeue=1 "
    "ExitCode=0:15 RunTime=00:01:02 TimeLimit=00:01:00 Command=/x\n"
    "JobId=17 ArrayJobId=17 ArrayTaskId=4-7%2 JobName=a JobState=PENDING Reason=Dependency ExitCode=0:0\n"
    "JobId=21 JobName=check JobState=COMPLETED Reason=None ExitCode=0:0 RunTime=1-00:00:01 TimeLimit=UNLIMITED\n"
)
SACCT = """17_3|TIMEOUT|0:0
17_4|CANCELLED by 1000|0:0
17_[5-7%2]|PENDING|0:0
18|COMPLETED|0:0
18.batch|COMPLETED|0:0
"""


def test_tasks_of_arrays_and_jobs_are_read_from_squeue() -> None:
    states = parse_squeue(SQUEUE)
    assert states["17_3"] == JobState("17_3", "RUNNING", "", "1:05")
    assert states["17_4"] == JobState("17_4", "PENDING", "Dependency", "0:00")
    assert all(state.is_active for state in states.values())
    assert parse_squeue("\n") == {}


def test_scontrol_names_tasks_by_their_array_and_waiting_ones_only_together() -> None:
    states = parse_scontrol(SCONTROL)
    assert set(states) == {"17_3", "21"}
    assert states["17_3"] == JobState("17_3", "TIMEOUT", "None", "0:15", 62, 60)
    assert states["17_3"].explained() == "ran into its time limit"
    assert (states["21"].ran_s, states["21"].limit_s) == (86401, None)
    assert not states["21"].is_active


def test_sacct_says_who_has_cancelled_and_its_steps_are_left_out() -> None:
    states = parse_sacct(SACCT)
    assert set(states) == {"17_3", "17_4", "18"}
    assert states["17_4"] == JobState("17_4", "CANCELLED", "by 1000", "0:0")
    assert states["17_4"].explained() == "was cancelled (by 1000)"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:01:00", 60), ("2-03:04:05", 183845), ("UNLIMITED", None), ("", None), ("Partition_Limit", None)],
)
def test_durations_are_read_as_seconds(text: str, seconds: int | None) -> None:
    assert parse_duration(text) == seconds
