# SPDX-License-Identifier: MIT
"""Requests to the out-of-order engine, with the fields that do not matter filled in."""

from __future__ import annotations

from typing import Literal

from celerity_py import _native_testing

Phase = Literal["send", "receive", "work"]
#: A step from the priority of one queue to the next.
OF_QUEUE = 32
ONE_LANE = [("compute", 0, 1, 0)]
FOUR_LANES = [("compute", 0, 4, 0)]
TWO_DEVICES = [("compute", 0, 2, 0), ("compute", 1, 2, 0)]
TWO_DOMAINS = [("compute", 0, 1, 0), ("host_copy", 0, 1, 1)]


def submit(
    engine: _native_testing.Engine,
    iid: int,
    *dependencies: int,
    priority: int = 0,
    task: int = 0,
    phase: Phase = "work",
    policy: str = "plain",
    lane_class: int = 0,
    held: bool = False,
    is_brief: bool = False,
) -> None:
    engine.submit(iid, priority, (task, phase), list(dependencies), policy, lane_class, is_brief)
    if not held:
        engine.release(iid)


def issue_all(engine: _native_testing.Engine) -> dict[int, tuple[int, int, list[tuple[int, int]]]]:
    issued = {}
    while (item := engine.next()) is not None:
        issued[item[0]] = (item[1], item[2], item[3])
    return issued
