# SPDX-License-Identifier: MIT
"""The time that the executor sleeps between two looks at the network."""

from __future__ import annotations

import pytest

from celerity_py.executor.network.pacing import Pacing


def sleep_s(
    since_progress_s: float,
    since_arrival_s: float,
    *,
    spins: bool = False,
    direct: bool = False,
    requests: bool = False,
) -> float:
    pacing = Pacing(is_spinning=spins, cores_per_rank=4, has_other_ways=direct)
    return pacing.timeout_s(since_progress_s, since_arrival_s, is_awaiting=True, has_requests=requests)


def test_who_awaits_nothing_sleeps_long() -> None:
    pacing = Pacing(is_spinning=True, cores_per_rank=4)
    assert pacing.timeout_s(0, 0, is_awaiting=False) == pytest.approx(50e-3)


def test_who_has_just_made_progress_looks_again_at_once() -> None:
    assert sleep_s(0, 0) == 0
    assert sleep_s(10, 10, spins=True) == 0


@pytest.mark.parametrize("waited_s", [1e-3, 4e-3, 15e-3, 1, 100])
def test_a_message_is_late_by_at_most_a_part_of_what_was_waited(waited_s: float) -> None:
    assert 0 < sleep_s(waited_s, waited_s) <= min(waited_s / 8, 2e-3)


@pytest.mark.parametrize("quiet_s", [6e-3, 20e-3, 1, 100])
def test_a_quiet_network_is_looked_at_less_often_if_transfers_are_direct(quiet_s: float) -> None:
    assert sleep_s(0, 0, direct=True) == pytest.approx(50e-6)
    assert 400e-6 <= sleep_s(0, quiet_s, direct=True) <= max(400e-6, min(quiet_s / 16, 2e-3))


@pytest.mark.parametrize("more", [{"requests": True}, {"spins": True}], ids=str)
def test_whoever_knows_of_a_message_does_not_wait_longer_the_longer_it_was_quiet(more: dict[str, bool]) -> None:
    assert sleep_s(0, 100, direct=True, **more) == pytest.approx(400e-6)
