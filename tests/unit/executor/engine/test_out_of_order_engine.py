# SPDX-License-Identifier: MIT
"""The out-of-order engine, driven as devices would drive it: lanes run in order, completion is reported at random."""

from __future__ import annotations

import dataclasses
import random

import pytest

from celerity_py import _native_testing
from tests.support.issue_requests import (
    FOUR_LANES,
    OF_QUEUE,
    ONE_LANE,
    TWO_DEVICES,
    TWO_DOMAINS,
    Phase,
    issue_all,
    submit,
)


def test_a_chain_is_issued_at_once_on_one_lane() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1)
    submit(engine, 2, 1)
    submit(engine, 3, 2)
    assert issue_all(engine) == {1: (0, 1, []), 2: (0, 2, []), 3: (0, 3, [])}


def test_lanes_that_do_not_wait_get_nothing_before_what_it_depends_on_is_complete() -> None:
    engine = _native_testing.Engine(FOUR_LANES, lanes_wait=False)
    submit(engine, 1)
    submit(engine, 2, 1)
    submit(engine, 3)
    submit(engine, 4, 2, 3)
    assert list(issue_all(engine)) == [1, 3]
    engine.complete(1)
    assert [waits for _, _, waits in issue_all(engine).values()] == [[]]
    engine.complete(2)
    assert issue_all(engine) == {}
    engine.complete(3)
    assert list(issue_all(engine)) == [4]


def test_independent_instructions_go_to_idle_lanes_and_then_to_the_least_loaded() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    for iid in range(1, 7):
        submit(engine, iid)
    lanes = [lane for lane, _, _ in issue_all(engine).values()]
    assert lanes == [0, 1, 2, 3, 0, 1]


def test_only_the_first_successor_inherits_the_lane_the_others_wait() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1)
    submit(engine, 2, 1)
    submit(engine, 3, 1)
    issued = issue_all(engine)
    assert issued[2] == (0, 2, [])
    assert issued[3] == (1, 1, [(0, 1)])


def test_a_wait_that_an_earlier_wait_implies_is_left_out() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("compute", 1, 1, 0), ("compute", 2, 1, 0)])
    submit(engine, 1, lane_class=0)
    submit(engine, 2, 1, lane_class=1)
    submit(engine, 3, 2, lane_class=2)
    submit(engine, 4, 1, lane_class=2)  # lane 2 waited for lane 1, which had waited for 1
    submit(engine, 5, 1, 2, lane_class=2)
    issued = issue_all(engine)
    assert issued[3][2] == [(1, 1)]
    assert issued[4][2] == []
    assert issued[5][2] == []


def test_of_several_predecessors_only_those_are_waited_for_that_no_other_implies() -> None:
    engine = _native_testing.Engine([("compute", d, 1, 0) for d in range(4)])
    submit(engine, 1, lane_class=0)
    submit(engine, 2, 1, lane_class=1)
    submit(engine, 3, lane_class=2)
    submit(engine, 4, 1, 2, 3, lane_class=3)
    assert sorted(issue_all(engine)[4][2]) == [(1, 1), (2, 1)]


def test_in_which_order_predecessors_are_named_does_not_matter() -> None:
    for dependencies in ((1, 2), (2, 1)):
        engine = _native_testing.Engine([("compute", d, 1, 0) for d in range(3)])
        submit(engine, 1, lane_class=0)
        submit(engine, 2, 1, lane_class=1)
        submit(engine, 3, *dependencies, lane_class=2)
        assert issue_all(engine)[3][2] == [(1, 1)]


def test_nobody_waits_for_what_is_complete() -> None:
    engine = _native_testing.Engine(TWO_DEVICES)
    submit(engine, 1, lane_class=0)
    issue_all(engine)
    engine.complete(1)
    submit(engine, 2, 1, lane_class=1)
    assert issue_all(engine)[2][2] == []


def test_lanes_of_different_domains_meet_on_the_host() -> None:
    engine = _native_testing.Engine(TWO_DOMAINS)
    submit(engine, 1, lane_class=0)
    submit(engine, 2, 1, lane_class=1)
    assert list(issue_all(engine)) == [1]
    assert engine.complete(1) == [1]
    assert issue_all(engine) == {2: (1, 1, [])}


def test_the_host_acts_only_after_completion() -> None:
    engine = _native_testing.Engine(ONE_LANE)
    submit(engine, 1)
    submit(engine, 2, 1, policy="host")
    submit(engine, 3, 2)
    assert list(issue_all(engine)) == [1]
    engine.complete(1)
    assert issue_all(engine) == {2: (-1, 0, [])}
    engine.complete(2)
    assert issue_all(engine) == {3: (0, 2, [])}


def test_the_highest_priority_goes_first_and_then_the_oldest() -> None:
    engine = _native_testing.Engine(ONE_LANE)
    for iid, priority in [(1, 1), (2, 5), (3, 0), (4, 5)]:
        submit(engine, iid, priority=priority)
    assert list(issue_all(engine)) == [2, 4, 1, 3]


def test_work_flows_past_a_horizon_before_the_horizon_is_complete() -> None:
    engine = _native_testing.Engine(TWO_DEVICES)
    submit(engine, 1, lane_class=0)
    submit(engine, 2, lane_class=0)
    submit(engine, 3, 1, 2, policy="clock")
    submit(engine, 4, 3, lane_class=1)
    submit(engine, 5, 3, policy="host")
    issued = issue_all(engine)
    assert sorted(issued[4][2]) == [(0, 1), (1, 1)]
    assert 5 not in issued
    assert engine.complete(1) == [1]
    assert engine.complete(2) == [2, 3]
    assert list(issue_all(engine)) == [5]


def test_a_horizon_asks_only_for_positions_that_imply_the_others() -> None:
    engine = _native_testing.Engine([("compute", d, 1, 0) for d in range(3)])
    submit(engine, 1, lane_class=0)
    submit(engine, 2, 1, lane_class=1)
    submit(engine, 3, 1, 2, policy="clock")
    submit(engine, 4, 3, policy="clock")
    submit(engine, 5, 4, lane_class=2)
    assert issue_all(engine)[5][2] == [(1, 1)]


def test_a_horizon_over_two_domains_lets_work_pass_only_when_complete() -> None:
    engine = _native_testing.Engine(TWO_DOMAINS)
    submit(engine, 1, lane_class=0)
    submit(engine, 2, lane_class=1)
    submit(engine, 3, 1, 2, policy="clock")
    submit(engine, 4, 3, lane_class=0)
    assert sorted(issue_all(engine)) == [1, 2]
    engine.complete(2)
    assert engine.complete(1) == [1, 3]
    assert list(issue_all(engine)) == [4]


def test_a_horizon_whose_predecessors_are_complete_completes_at_once() -> None:
    engine = _native_testing.Engine(ONE_LANE)
    submit(engine, 1, policy="clock")
    submit(engine, 2, 1, policy="clock")
    assert engine.take_completed() == [1, 2]
    assert engine.num_live == 0


def test_completing_a_lane_instruction_completes_what_it_ran_after() -> None:
    engine = _native_testing.Engine(TWO_DEVICES)
    submit(engine, 1, lane_class=0)
    submit(engine, 2, lane_class=1)
    submit(engine, 3, 1, policy="clock")
    submit(engine, 4, 3, 2, lane_class=1)
    submit(engine, 5, 4, lane_class=1)
    issue_all(engine)
    completed = engine.complete(5)
    assert sorted(completed) == [1, 2, 3, 4, 5]
    assert completed.index(1) < completed.index(3) < completed.index(4) < completed.index(5)
    assert engine.num_live == 0
    assert engine.complete(4) == []


def test_nobody_follows_a_deferred_instruction_before_the_launcher_has_enqueued_it() -> None:
    engine = _native_testing.Engine([("compute", 0, 1, 0), ("compute", 1, 1, 0)])
    submit(engine, 1, policy="deferred")
    submit(engine, 2, 1, lane_class=1)
    submit(engine, 3)  # would overtake 1 on its lane
    assert list(issue_all(engine)) == [1]
    engine.notify_issued(1)
    issued = issue_all(engine)
    assert issued[2] == (1, 1, [(0, 1)])
    assert issued[3] == (0, 2, [])


def test_deferred_instructions_may_queue_up_behind_each_other() -> None:
    engine = _native_testing.Engine(ONE_LANE)
    submit(engine, 1, policy="deferred")
    submit(engine, 2, policy="deferred")
    assert issue_all(engine) == {1: (0, 1, []), 2: (0, 2, [])}


def test_a_remote_wait_is_issued_after_all_lane_instructions_with_smaller_keys() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, policy="host")
    submit(engine, 2, 1, task=3, phase="send")
    submit(engine, 3, task=3, phase="receive", priority=9, policy="pull")
    submit(engine, 4, task=4)
    assert list(issue_all(engine)) == [1, 4]
    engine.complete(1)
    assert list(issue_all(engine)) == [2, 3]


def test_remote_waits_of_equal_keys_do_not_hold_each_other_back() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, policy="host")
    submit(engine, 2, task=3, phase="receive", policy="pull")
    submit(engine, 3, 1, task=3, phase="receive", policy="pull")
    submit(engine, 4, task=3, phase="send")
    submit(engine, 5, task=5, phase="receive", policy="pull")
    assert list(issue_all(engine)) == [1, 4, 2]
    engine.complete(1)
    assert list(issue_all(engine)) == [3, 5]


def test_a_deferred_instruction_holds_remote_waits_back_until_it_is_enqueued() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, task=1, policy="deferred")
    submit(engine, 2, task=2, phase="receive", policy="pull")
    assert list(issue_all(engine)) == [1]
    engine.notify_issued(1)
    assert list(issue_all(engine)) == [2]


def test_a_remote_wait_whose_writer_is_known_to_be_enqueued_ignores_the_order() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, policy="host")
    submit(engine, 2, 1, task=3)
    submit(engine, 3, task=4, phase="receive", policy="pull", held=True)
    assert list(issue_all(engine)) == [1]
    engine.release(3, is_ready=True)
    assert list(issue_all(engine)) == [3]


def test_a_smaller_key_that_arrives_late_closes_the_gate_again() -> None:
    engine = _native_testing.Engine(FOUR_LANES)
    submit(engine, 1, task=4, phase="receive", policy="pull")
    submit(engine, 2, priority=1, policy="host")
    assert engine.next() == (2, -1, 0, [], [])
    submit(engine, 3, 2, task=3)
    assert engine.next() is None
    engine.complete(2)
    assert list(issue_all(engine)) == [3, 1]


def test_mistakes_of_the_driver_are_reported() -> None:
    engine = _native_testing.Engine(ONE_LANE)
    submit(engine, 5)
    with pytest.raises(ValueError, match="grow"):
        submit(engine, 5)
    with pytest.raises(ValueError, match="lane class"):
        submit(engine, 6, lane_class=1)
    with pytest.raises(ValueError, match="a policy is one of"):
        submit(engine, 7, policy="sideways")
    with pytest.raises(ValueError, match="remote waits"):
        submit(_native_testing.Engine(ONE_LANE, remote="none"), 7, policy="pull")
    with pytest.raises(ValueError, match="one of none, pulls, answers"):
        _native_testing.Engine(ONE_LANE, remote="sideways")
    with pytest.raises(RuntimeError, match="never issued"):
        engine.complete(5)
    with pytest.raises(ValueError, match="phase"):
        engine.submit(8, 0, (0, "sideways"), [], "plain")


@dataclasses.dataclass
class Item:
    """An instruction as the model below knows it."""

    id: int
    dependencies: list[int]
    policy: str
    key: tuple[int, int]
    ancestors: set[int]


class Device:
    """Executes the instructions that the engine hands out, and checks their order against the graph itself."""

    def __init__(self, rng: random.Random, classes: list[tuple[str, int, int, int]]) -> None:
        self.rng = rng
        self.has_priorities = rng.random() < 0.7
        order = rng.choice(["age", "path", "predecessors"])
        self.engine = _native_testing.Engine(classes, most_shared=rng.choice([0, 1, 2]), order=order)
        self.num_lanes = sum(size for _, _, size, _ in classes)
        self.lanes: list[list[tuple[int, int, list[tuple[int, int]]]]] = [[] for _ in range(self.num_lanes)]
        self.reached = [0] * self.num_lanes
        self.host: list[int] = []
        self.items: dict[int, Item] = {}
        self.executed: set[int] = set()
        self.reported: list[int] = []
        self.to_report: list[int] = []
        self.issued: set[int] = set()

    def pull(self) -> None:
        while (item := self.engine.next()) is not None:
            iid, lane, sequence, waits, _ = item
            info = self.items[iid]
            if info.policy == "pull":
                smaller = [o.id for o in self.items.values() if o.policy not in ("host", "clock") and o.key < info.key]
                assert all(o in self.issued for o in smaller), f"remote wait {iid} was issued too early"
            if lane < 0:
                assert all(d in self.reported for d in info.dependencies), f"{iid} ran on the host too early"
                self.host.append(iid)
            else:
                assert sequence == self.reached[lane] + len(self.lanes[lane]) + 1
                self.lanes[lane].append((iid, sequence, waits))
            if info.policy != "deferred":
                self.issued.add(iid)

    def runnable(self) -> list[tuple[str, int]]:
        fronts = [
            ("lane", lane)
            for lane, queue in enumerate(self.lanes)
            if queue and queue[0][0] in self.issued and all(self.reached[other] >= s for other, s in queue[0][2])
        ]
        return fronts + [("host", i) for i in range(len(self.host))]

    def execute(self, where: str, index: int) -> None:
        if where == "host":
            iid = self.host.pop(index)
        else:
            iid, sequence, _ = self.lanes[index].pop(0)
            self.reached[index] = sequence
        for ancestor in self.items[iid].ancestors:
            assert ancestor in self.executed, f"{iid} ran before {ancestor}"
        self.run(iid)
        self.to_report.append(iid)

    def run(self, iid: int) -> None:
        self.executed.add(iid)
        # Horizons and epochs have no body: they have happened once everything before them has.
        for item in self.items.values():
            if item.policy == "clock" and item.id not in self.executed and item.ancestors <= self.executed:
                self.executed.add(item.id)

    def step(self) -> bool:
        self.pull()
        moves = [(self.execute, *move) for move in self.runnable()]
        if not moves and not self.to_report and not self.pending_launches():
            return False
        choice = self.rng.random()
        if (self.pending_launches() and choice < 0.3) or not (moves or self.to_report):
            iid = self.rng.choice(self.pending_launches())
            self.engine.notify_issued(iid)
            self.issued.add(iid)
        elif moves and (choice < 0.7 or not self.to_report):
            act, where, index = self.rng.choice(moves)
            act(where, index)
        else:
            completed = self.engine.complete(self.to_report.pop(self.rng.randrange(len(self.to_report))))
            self.note(completed)
        return True

    def pending_launches(self) -> list[int]:
        # A launcher enqueues in the order of its lane.
        fronts = []
        for queue in self.lanes:
            waiting = [iid for iid, _, _ in queue if iid not in self.issued]
            fronts += waiting[:1]
        return fronts

    def note(self, completed: list[int]) -> None:
        for iid in completed:
            assert iid in self.executed
            assert all(d in self.reported for d in self.items[iid].dependencies), f"{iid} was reported out of order"
            self.reported.append(iid)


def random_graph(rng: random.Random, device: Device, num_classes: int) -> None:
    names: tuple[Phase, ...] = ("send", "receive", "work")
    fronts: list[int] = []
    for iid in range(1, 120):
        policy = rng.choices(["plain", "pull", "deferred", "host", "clock"], [54, 12, 14, 20, 10])[0]
        candidates = list(device.items)[-12:]
        dependencies = rng.sample(candidates, min(len(candidates), rng.choice([0, 1, 1, 2, 3])))
        if policy == "clock":
            dependencies = fronts[-40:]
        ancestors = set(dependencies).union(*(device.items[d].ancestors for d in dependencies))
        # Keys order the graph topologically, as those of the instruction graph do.
        key = max([(iid // 5, rng.randrange(3)), *(device.items[d].key for d in dependencies)])
        device.items[iid] = Item(iid, dependencies, policy, key, ancestors)
        if policy == "clock" and not ancestors:
            device.executed.add(iid)
        submit(
            device.engine,
            iid,
            *dependencies,
            priority=rng.randrange(3) + (OF_QUEUE * rng.randrange(4) if device.has_priorities else 0),
            task=key[0],
            phase=names[key[1]],
            policy=policy,
            lane_class=rng.randrange(num_classes),
            is_brief=rng.random() < 0.3,
        )
        fronts = [f for f in fronts if f not in ancestors] + [iid]


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_run_in_an_order_that_respects_every_dependency(seed: int) -> None:
    rng = random.Random(seed)
    num_classes = rng.choice([1, 2, 3])
    device = Device(rng, [("compute", d, rng.choice([1, 2, 4]), rng.choice([0, 0, 1])) for d in range(num_classes)])
    random_graph(rng, device, num_classes)
    device.note(device.engine.take_completed())
    while device.step():
        pass
    assert device.engine.num_live == 0, f"stuck: {device.engine.unissued()} and {device.engine.in_flight()}"
    assert sorted(device.reported) == list(device.items)
