# SPDX-License-Identifier: MIT
"""The out-of-order engine with queues of several priorities, and with other orders among equals."""

from __future__ import annotations

import pytest

from celerity_py import _native_testing
from tests.support.issue_requests import FOUR_LANES, OF_QUEUE, ONE_LANE, TWO_DEVICES, issue_all, submit

#: Instructions of higher queues that a waiting one of a lower queue lets pass.
LONGEST_WAIT = 32
#: Brief instructions in flight on a class of lanes that queues share.
MOST_BRIEF = 16


def test_a_higher_queue_goes_first_whatever_the_kinds() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    for iid, priority in [(1, 31), (2, OF_QUEUE), (3, 4 * OF_QUEUE), (4, 3 + OF_QUEUE)]:
        submit(engine, iid, priority=priority)
    assert list(issue_all(engine)) == [3, 4, 2, 1]


def test_no_queue_waits_for_more_than_so_many_instructions_of_higher_ones() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, priority=0)
    submit(engine, 2, priority=OF_QUEUE)
    iid = 2
    issued: list[int] = []
    while len(issued) < 3 * LONGEST_WAIT:
        while iid < len(issued) + 12:  # there are always more of the highest queue
            iid += 1
            submit(engine, iid, priority=2 * OF_QUEUE)
        item = engine.next()
        assert item is not None
        issued.append(item[0])
    assert issued.index(1) == LONGEST_WAIT
    assert issued.index(2) == LONGEST_WAIT + 1


def test_lanes_keep_places_free_for_queues_that_have_no_work_yet() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=2)
    engine.announce(0)
    for iid in range(1, 4):
        submit(engine, iid)
    assert list(issue_all(engine)) == [1, 2, 3]  # one priority: the lane takes all
    engine.announce(2)
    for iid in range(4, 8):
        submit(engine, iid)
    order = list(issue_all(engine))
    assert order == [4, 5]
    submit(engine, 8, priority=2 * OF_QUEUE)
    for iid in (1, 2, 3, 4):
        engine.complete(iid)
        order += issue_all(engine)
    assert order == [4, 5, 8]
    with pytest.raises(ValueError, match="no such priority"):
        engine.announce(7)


def test_an_instruction_lends_its_queue_to_the_predecessors_that_wait() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=1)
    submit(engine, 1)
    submit(engine, 2, priority=OF_QUEUE)
    submit(engine, 3, priority=0)
    assert list(issue_all(engine)) == [2]  # the place on the lane is taken
    submit(engine, 4, 3, priority=2 * OF_QUEUE)
    order = [2]
    while engine.num_live > 0:
        engine.complete(order[-1])
        order += issue_all(engine)
    assert order == [2, 3, 4, 1]


def test_a_horizon_lends_nothing() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=1)
    submit(engine, 1, priority=OF_QUEUE)
    submit(engine, 2)
    submit(engine, 3)
    assert list(issue_all(engine)) == [1]
    submit(engine, 4, 1, 2, 3, policy="clock")
    submit(engine, 5, 4, priority=3 * OF_QUEUE)
    submit(engine, 6, priority=2 * OF_QUEUE)
    assert issue_all(engine) == {}
    engine.complete(1)
    assert list(issue_all(engine)) == [6]


def test_lanes_that_queues_share_take_few_instructions_and_the_highest_queue_gets_the_next_place() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=2)
    for iid in range(1, 6):
        submit(engine, iid)
    submit(engine, 6, priority=OF_QUEUE)
    assert list(issue_all(engine)) == [6, 1]
    submit(engine, 7, priority=2 * OF_QUEUE)
    assert issue_all(engine) == {}
    engine.complete(6)
    assert list(issue_all(engine)) == [7]
    engine.complete(7)  # 1 ran before it on the lane
    assert list(issue_all(engine)) == [2, 3], "other queues may have work again"


def test_brief_instructions_have_places_of_their_own() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=1)
    engine.announce(1)
    submit(engine, 1)
    submit(engine, 2)
    for iid in range(3, 25):
        submit(engine, iid, is_brief=True)
    assert list(issue_all(engine)) == [1, *range(3, 3 + MOST_BRIEF)]
    submit(engine, 30, priority=OF_QUEUE, is_brief=True)
    assert issue_all(engine) == {}
    engine.complete(1)
    assert list(issue_all(engine)) == [2]
    engine.complete(3)
    assert list(issue_all(engine)) == [30], "the highest queue gets the next place"


def test_a_free_place_goes_to_what_waits_before_a_newcomer_of_a_higher_queue() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=1)
    engine.announce(1)
    for iid in (1, 2, 3):
        submit(engine, iid)
    assert list(issue_all(engine)) == [1]
    engine.complete(1)
    submit(engine, 4, priority=OF_QUEUE)  # nothing was issued since the place became free
    assert list(issue_all(engine)) == [2]
    engine.complete(2)
    assert list(issue_all(engine)) == [4], "it has waited since, in a higher queue"
    engine.complete(4)
    assert list(issue_all(engine)) == [3]


def test_each_free_place_goes_to_the_oldest_of_those_that_wait_for_the_same_lanes() -> None:
    engine = _native_testing.Engine(TWO_DEVICES, most_shared=1)
    engine.announce(1)
    for iid in range(1, 9):
        submit(engine, iid, lane_class=iid % 2)
    order = list(issue_all(engine))
    assert order == [1, 2]
    for iid in (2, 1, 4, 3, 6, 5):
        engine.complete(iid)
        order += issue_all(engine)
    assert order == [1, 2, 4, 3, 6, 5, 8, 7]


def test_no_queue_waits_for_a_place_for_more_than_so_many_instructions_of_higher_ones() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=1)
    submit(engine, 1, priority=OF_QUEUE)
    submit(engine, 2)
    order = list(issue_all(engine))
    iid = 2
    while 2 not in order:
        for _ in range(2):  # there are always more of the higher queue
            iid += 1
            submit(engine, iid, priority=OF_QUEUE)
        assert issue_all(engine) == {}
        engine.complete(order[-1])
        (issued,) = issue_all(engine)
        order.append(issued)
        assert len(order) <= LONGEST_WAIT + 3
    assert order.index(2) >= LONGEST_WAIT


def test_lanes_of_one_queue_take_any_number() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=2)
    for iid in range(1, 6):
        submit(engine, iid, priority=3 * OF_QUEUE)
    submit(engine, 6, priority=0, policy="host")
    assert len(issue_all(engine)) == 6


def test_an_instruction_that_waits_for_another_rank_keeps_no_place_from_smaller_keys() -> None:
    engine = _native_testing.Engine(ONE_LANE, most_shared=1)
    submit(engine, 1, task=1, priority=OF_QUEUE)
    submit(engine, 2, task=3, phase="receive", policy="pull", priority=2 * OF_QUEUE)
    assert list(issue_all(engine)) == [1]
    submit(engine, 3, task=2)  # before the pull gets the place, but behind it in the order of queues
    engine.complete(1)
    assert list(issue_all(engine)) == [3]
    engine.complete(3)
    assert list(issue_all(engine)) == [2]


def test_a_lane_instruction_with_a_small_key_gets_a_place_although_remote_waits_are_more_urgent() -> None:
    engine = _native_testing.Engine(FOUR_LANES, most_shared=1)
    submit(engine, 1, task=2)
    submit(engine, 2, task=1)
    for iid in range(3, 9):
        submit(engine, iid, task=iid, phase="receive", policy="pull", priority=4 * OF_QUEUE)
    order: list[int] = []
    while engine.num_live > 0:
        issued = list(issue_all(engine))
        assert issued, f"stuck with {engine.unissued()}"
        order += issued
        for iid in issued:
            engine.complete(iid)
    assert order[:2] == [1, 2]


# ---- among equals


@pytest.mark.parametrize(("order", "expected"), [("age", [2, 3, 4]), ("path", [4, 3, 2]), ("predecessors", [3, 4, 2])])
def test_equals_go_by_age_or_by_the_way_to_the_end_or_by_predecessors(order: str, expected: list[int]) -> None:
    engine = _native_testing.Engine(FOUR_LANES, order=order)
    submit(engine, 1, policy="host")
    assert list(issue_all(engine)) == [1]
    submit(engine, 2, 1, 100, 101)  # those are complete
    submit(engine, 3, 1)
    submit(engine, 4, 1, 100)
    submit(engine, 5, 3)
    submit(engine, 6, 4)
    submit(engine, 7, 6)
    engine.complete(1)
    assert [iid for iid in issue_all(engine) if iid in expected] == expected


def test_a_longer_way_moves_an_instruction_that_is_ready_already() -> None:
    engine = _native_testing.Engine(FOUR_LANES, order="path")
    submit(engine, 1)
    submit(engine, 2)
    submit(engine, 3, 2)
    assert list(issue_all(engine)) == [2, 1, 3]


def test_kinds_go_before_ways() -> None:
    engine = _native_testing.Engine(FOUR_LANES, order="path")
    submit(engine, 1, priority=1)
    submit(engine, 2, priority=2)
    for iid in range(3, 20):
        submit(engine, iid, 1 if iid == 3 else iid - 1, priority=1)
    assert list(issue_all(engine))[:2] == [2, 1]


def test_ways_have_an_end_so_that_a_long_chain_costs_little() -> None:
    engine = _native_testing.Engine(ONE_LANE, order="path")
    submit(engine, 1, policy="host")
    for iid in range(2, 3000):
        submit(engine, iid, iid - 1)
    assert list(issue_all(engine)) == [1]
    engine.complete(1)
    assert len(issue_all(engine)) == 2998
