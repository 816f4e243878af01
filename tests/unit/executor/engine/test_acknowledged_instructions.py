# SPDX-License-Identifier: MIT
"""The out-of-order engine: instructions that another rank completes, and instructions that are held."""

from __future__ import annotations

from celerity_py import _native_testing
from tests.support.issue_requests import FOUR_LANES, ONE_LANE, issue_all, submit


def test_an_acknowledged_instruction_is_complete_only_when_somebody_says_so() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("peer", 0, 1, 0)])
    submit(engine, 1)
    submit(engine, 2, 1, lane_class=1, policy="signal")
    submit(engine, 3, 1, 2)  # overwrites what 2 sends
    submit(engine, 4, 1)
    assert list(issue_all(engine)) == [1, 2, 4]
    assert engine.complete_lane(1, 1) == [1]  # the flag is written, and so what it follows is complete
    assert issue_all(engine) == {}
    assert engine.num_in_flight == 2
    assert engine.complete(2) == [2]
    assert list(issue_all(engine)) == [3]


def test_an_acknowledgement_may_come_before_the_lane_is_seen_to_be_past_it() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("peer", 0, 1, 0)])
    submit(engine, 1)
    submit(engine, 2, 1, lane_class=1, policy="signal")
    submit(engine, 3, lane_class=1, policy="signal")
    issue_all(engine)
    assert engine.complete(3) == [3]  # its flag may have been written before that of 2, and before 1 is over
    assert engine.in_flight() == [1, 2]
    assert engine.complete_lane(1, 2) == [1]  # 2 has written its flag, but has no answer
    assert engine.complete(2)[-1] == 2
    assert engine.num_live == 0


def test_an_answer_completes_what_the_flag_depends_on_and_nothing_else() -> None:
    engine = _native_testing.Engine([("compute", 0, 2, 0), ("peer", 0, 1, 0)])
    submit(engine, 1)
    submit(engine, 2)
    submit(engine, 3, 1, lane_class=1, policy="signal")
    submit(engine, 4, 2, lane_class=1, policy="signal")
    submit(engine, 5, 4, policy="host")
    issued = issue_all(engine)
    assert issued[1][0] != issued[2][0]
    assert engine.complete(4) == [2, 4]  # though 3 is before it on their lane, and 1 still runs
    assert list(issue_all(engine)) == [5]
    submit(engine, 6, 1)
    assert issue_all(engine)[6] == (issued[1][0], 2, [])
    assert engine.complete(3) == [1, 3]
    submit(engine, 7, lane_class=1, policy="signal")
    assert issue_all(engine)[7] == (2, 3, [])
    assert engine.complete_lane(2, 3) == []
    assert engine.complete(7) == [7]


def test_an_answer_does_not_stand_for_what_the_lane_of_the_flag_has_waited_for() -> None:
    engine = _native_testing.Engine([("compute", 0, 3, 0), ("peer", 0, 1, 0)], remote="answers")
    submit(engine, 1, task=1)
    submit(engine, 2, task=2)
    submit(engine, 3, 1, task=3, phase="send", lane_class=1, policy="signal")
    submit(engine, 4, 2, task=4, phase="send", lane_class=1, policy="signal")  # its flag may be written right behind 2
    submit(engine, 5, task=5)
    submit(engine, 6, 1, 4, 5, task=6)
    found = {}
    while (item := engine.next()) is not None:
        found[item[0]] = item[1:]
    lane, _, waits, answers = found[6]
    assert answers == [4]
    assert lane == found[5][0]
    assert waits == [(found[1][0], 1)]


def test_who_can_wait_for_an_answer_on_its_lane_is_issued_before_it() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("peer", 0, 1, 0)], remote="answers")
    submit(engine, 1, task=1)
    submit(engine, 2, 1, task=2, phase="send", lane_class=1, policy="signal")
    submit(engine, 3, 1, 2, task=3)  # overwrites what 2 sends
    assert engine.next() == (1, 0, 1, [], [])
    assert engine.next() == (2, 1, 1, [(0, 1)], [])
    assert engine.next() == (3, 0, 2, [], [2])
    assert engine.complete_lane(0, 2) == [1, 2, 3]  # nothing else can have let it pass
    assert engine.complete_lane(1, 1) == []
    assert engine.complete(2) == []
    assert engine.num_live == 0


def test_who_waits_for_an_answer_is_issued_behind_all_that_another_rank_may_need() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("peer", 0, 1, 0)], remote="answers")
    submit(engine, 1, task=1, phase="send", lane_class=1, policy="signal")
    submit(engine, 2, task=2, phase="receive", lane_class=1, policy="pull", held=True)
    submit(engine, 3, 1, task=3)
    assert list(issue_all(engine)) == [1]
    engine.release(2)
    assert list(issue_all(engine)) == [2, 3]

    engine = _native_testing.Engine([("compute", 0, 1, 0), ("peer", 0, 1, 0)], remote="answers")
    submit(engine, 1, task=1, phase="send", lane_class=1, policy="signal")
    submit(engine, 2, task=2, phase="receive", lane_class=1, policy="pull", held=True)
    submit(engine, 3, 1, task=3)
    assert list(issue_all(engine)) == [1]
    assert engine.complete(1) == [1]  # it waits for nobody any more
    assert engine.next() == (3, 0, 1, [], [])


def test_nobody_is_sent_to_wait_for_an_answer_while_that_is_not_allowed() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("peer", 0, 1, 0)], remote="answers")
    submit(engine, 1, task=1, phase="send", lane_class=1, policy="signal")
    submit(engine, 2, 1, task=2)
    engine.allow_remote_waits(False)
    assert list(issue_all(engine)) == [1]
    engine.allow_remote_waits(True)
    assert engine.next() == (2, 0, 1, [], [1])


def test_only_what_depends_on_its_one_wait_alone_may_go_right_behind_it() -> None:
    engine = _native_testing.Engine([("compute", 0, 2, 0), ("peer", 0, 1, 0)])
    submit(engine, 1)
    submit(engine, 2)
    submit(engine, 3, 1, lane_class=1, policy="signal")
    submit(engine, 4, 1, 2, lane_class=1, policy="signal")  # its lane has waited for 1 before
    found = {}
    while (item := engine.next()) is not None:
        found[item[0]] = (len(item[3]), engine.depended_on_one)
    assert found == {1: (0, False), 2: (0, False), 3: (1, True), 4: (1, False)}


def test_each_of_several_flags_behind_one_kernel_knows_that_it_may_go_right_behind_it() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("peer", 0, 2, 0)])
    submit(engine, 1)
    for iid in range(2, 6):
        submit(engine, iid, 1, lane_class=1, policy="signal")
    submit(engine, 6, 1, lane_class=1)  # to the lane, the others have said it
    found = {}
    while (item := engine.next()) is not None:
        found[item[0]] = (item[1], item[3], engine.depended_on_one)
    assert [found[iid][0] for iid in range(2, 6)] == [1, 2, 1, 2]
    assert all(found[iid][1:] == ([(0, 1)], True) for iid in range(2, 6))
    assert found[6][1:] == ([], False)


def test_work_behind_an_acknowledged_instruction_on_its_lane_completes_before_it() -> None:
    engine = _native_testing.Engine(ONE_LANE)
    submit(engine, 1, policy="signal")
    submit(engine, 2)
    submit(engine, 3, 2)
    issue_all(engine)
    assert engine.complete(3) == [2, 3]
    assert engine.in_flight() == [1]
    assert engine.complete(1) == [1]


def test_nothing_flows_past_a_horizon_before_the_acknowledgement_it_stands_for() -> None:
    engine = _native_testing.Engine(ONE_LANE)
    submit(engine, 1, policy="signal")
    submit(engine, 2, 1, policy="clock")
    submit(engine, 3, 2)
    assert list(issue_all(engine)) == [1]
    assert engine.complete_lane(0, 1) == []
    assert issue_all(engine) == {}
    assert engine.complete(1) == [1, 2]
    assert list(issue_all(engine)) == [3]


def test_a_held_instruction_waits_for_its_release_and_for_its_predecessors() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, policy="pull", held=True)
    submit(engine, 2, 1)
    submit(engine, 3, policy="host")
    submit(engine, 4, 3, policy="signal", held=True)
    assert list(issue_all(engine)) == [3]
    engine.release(4)
    assert issue_all(engine) == {}
    engine.release(1)
    engine.release(1)
    assert list(issue_all(engine)) == [1, 2]
    engine.complete(3)
    assert list(issue_all(engine)) == [4]


def test_a_held_instruction_holds_back_remote_waits_with_larger_keys() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, task=1, phase="receive", policy="pull", held=True)
    submit(engine, 2, task=2, phase="receive", policy="pull")
    submit(engine, 3, task=3)
    assert list(issue_all(engine)) == [3]
    engine.release(1)
    assert list(issue_all(engine)) == [1, 2]


def test_no_remote_wait_is_handed_out_while_none_is_allowed() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    engine.allow_remote_waits(False)
    submit(engine, 1, task=1, phase="receive", policy="pull")
    submit(engine, 2, task=2)
    assert list(issue_all(engine)) == [2]
    engine.allow_remote_waits(True)
    assert list(issue_all(engine)) == [1]


def test_what_a_launcher_thread_enqueues_is_issued_after_answers_only() -> None:
    engine = _native_testing.Engine([("compute", 0, 2, 0), ("peer", 0, 1, 0)], remote="answers")
    submit(engine, 1, task=1, phase="send", lane_class=1, policy="signal")
    submit(engine, 2, 1, task=2, policy="launched")
    submit(engine, 3, 1, task=2, policy="deferred")
    assert list(issue_all(engine)) == [1]
    assert engine.complete(1) == [1]
    assert list(issue_all(engine)) == [2, 3]
