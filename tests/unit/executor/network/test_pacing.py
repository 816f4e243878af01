# SPDX-License-Identifier: MIT
"""The time between two looks of the executor thread at the network."""

from __future__ import annotations

from typing import Any

import pytest

from celerity_py._native_testing import time_to_next_look_s


def test_who_awaits_nothing_looks_seldom() -> None:
    assert time_to_next_look_s(0, 0, is_awaiting=False, spins=True) == pytest.approx(50e-3)


def test_who_has_just_made_progress_looks_again_at_once() -> None:
    assert time_to_next_look_s(0, 0) == 0
    assert time_to_next_look_s(10, 10, spins=True) == 0


def test_ranks_with_less_than_a_core_each_never_look_without_a_pause() -> None:
    assert time_to_next_look_s(0, 0, cores_per_rank=0.5) == pytest.approx(20e-6)
    assert time_to_next_look_s(0, 0, cores_per_rank=1) == 0
    assert time_to_next_look_s(200e-6, 0, cores_per_rank=1) > 0


@pytest.mark.parametrize("waited_s", [1e-3, 4e-3, 15e-3, 1, 100])
def test_a_message_is_late_by_at_most_a_part_of_what_was_waited(waited_s: float) -> None:
    assert 0 < time_to_next_look_s(waited_s, waited_s) <= min(waited_s / 8, 2e-3)


@pytest.mark.parametrize("quiet_s", [6e-3, 20e-3, 1, 100])
def test_a_quiet_network_is_looked_at_less_often_if_transfers_are_direct(quiet_s: float) -> None:
    assert time_to_next_look_s(0, 0, has_other_ways=True) == pytest.approx(50e-6)
    assert 400e-6 <= time_to_next_look_s(0, quiet_s, has_other_ways=True) <= max(400e-6, min(quiet_s / 16, 2e-3))


@pytest.mark.parametrize("more", [{"has_requests": True}, {"spins": True}], ids=str)
def test_whoever_knows_of_a_message_does_not_wait_longer_the_longer_it_was_quiet(more: dict[str, bool]) -> None:
    assert time_to_next_look_s(0, 100, has_other_ways=True, **more) == pytest.approx(400e-6)


@pytest.mark.parametrize("more", [{}, {"cores_per_rank": 0.5}, {"has_other_ways": True}], ids=str)
def test_a_message_that_has_just_moved_is_looked_at_again_at_once(more: dict[str, Any]) -> None:
    assert time_to_next_look_s(1, 1, 0, has_requests=True, **more) == 0
    assert time_to_next_look_s(1, 1, 160e-6, has_requests=True) == pytest.approx(20e-6)
    assert time_to_next_look_s(1, 1, 0, has_requests=False) == pytest.approx(2e-3)
