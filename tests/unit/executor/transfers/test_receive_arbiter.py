# SPDX-License-Identifier: MIT
"""The receive arbiter, in every order in which requests, pilots and payloads can arrive."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celerity_py import _native_testing

FlatBox = tuple[int, int, int, int, int, int]
Transfer = tuple[int, int, int]
Event = Callable[[_native_testing.ReceiveArbiter], None]

TRANSFER = (7, 3, 0)
REDUCTION = (7, 3, 1)
HOST = (1, 5)
OTHER = (1, 6)


def row(begin: int, end: int) -> FlatBox:
    return (begin, 0, 0, end, 1, 1)


def cells(box: FlatBox) -> set[tuple[int, int, int]]:
    return {(i, j, k) for i in range(box[0], box[3]) for j in range(box[1], box[4]) for k in range(box[2], box[5])}


@dataclasses.dataclass(frozen=True)
class Input:
    """One thing that happens to the arbiter; `after` names inputs that always come first."""

    name: str
    apply: Event
    after: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Expectation:
    """Instruction `id` is complete once inputs `inputs` happened and `cells` of `destination` have arrived."""

    inputs: frozenset[str]
    destination: tuple[int, int]
    cells: frozenset[tuple[int, int, int]]


def receive(
    iid: int, boxes: list[FlatBox], destination: tuple[int, int] = HOST, transfer: Transfer = TRANSFER
) -> Input:
    return Input(f"I{iid}", lambda a: a.receive(iid, transfer, boxes, destination, 8))


def split_receive(iid: int, boxes: list[FlatBox], destination: tuple[int, int] = HOST) -> Input:
    return Input(f"I{iid}", lambda a: a.split_receive(iid, TRANSFER, boxes, destination, 8))


def await_receive(iid: int, boxes: list[FlatBox], after: tuple[str, ...], destination: tuple[int, int] = HOST) -> Input:
    return Input(f"I{iid}", lambda a: a.await_receive(iid, TRANSFER, destination, boxes), after)


def pilot(message: int, box: FlatBox, source: int = 1, transfer: Transfer = TRANSFER) -> Input:
    return Input(f"M{message}", lambda a: a.pilot(source, message, transfer, box))


def expect(inputs: tuple[str, ...], boxes: list[FlatBox], destination: tuple[int, int] = HOST) -> Expectation:
    return Expectation(frozenset(inputs), destination, frozenset().union(*(cells(b) for b in boxes)))


class Replay:
    """Applies one order of events and checks after each of them which receives are complete."""

    def __init__(self, expectations: dict[int, Expectation]) -> None:
        self.arbiter = _native_testing.ReceiveArbiter()
        self.expectations = expectations
        self.happened: set[str] = set()
        self.completed: set[int] = set()
        self.arrived: dict[tuple[int, int], set[tuple[int, int, int]]] = {HOST: set(), OTHER: set()}
        self.posts: list[dict[str, Any]] = []

    def apply(self, event: Input | int) -> None:
        if isinstance(event, Input):
            event.apply(self.arbiter)
            self.happened.add(event.name)
        else:
            post = self.posts.pop(event)
            assert cells(post["box"]) <= cells(post["message_box"])
            assert not cells(post["box"]) & self.arrived[post["destination"]], "received twice"
            self.arrived[post["destination"]] |= cells(post["box"])
            self.arbiter.complete(post["fragment"])
        self.posts += self.arbiter.take_posts()
        self.posts.sort(key=lambda post: (post["message"], post["destination"], post["box"]))
        new = self.arbiter.take_completed()
        assert len(set(new)) == len(new)
        assert not self.completed & set(new)
        self.completed |= set(new)
        due = {
            iid
            for iid, e in self.expectations.items()
            if e.inputs <= self.happened and e.cells <= self.arrived[e.destination]
        }
        assert self.completed == due


def orders(inputs: list[Input], expectations: dict[int, Expectation]) -> Iterator[Replay]:
    """Every order, each replayed from the start."""

    def extend(prefix: list[Input | int]) -> Iterator[Replay]:
        replay = Replay(expectations)
        for event in prefix:
            replay.apply(event)
        options: list[Input | int] = [
            i for i in inputs if i.name not in replay.happened and set(i.after) <= replay.happened
        ]
        options += range(len(replay.posts))
        if not options:
            yield replay
        for option in options:
            yield from extend([*prefix, option])

    yield from extend([])


def check_every_order(inputs: list[Input], expectations: dict[int, Expectation]) -> int:
    count = 0
    for replay in orders(inputs, expectations):
        count += 1
        assert replay.completed == set(expectations)
        assert replay.arbiter.num_open == 0
        assert replay.arbiter.num_unclaimed_pilots == 0
    print(f"{count} orders")
    return count


def test_a_receive_completes_when_all_its_messages_have_arrived() -> None:
    inputs = [receive(1, [row(0, 10)]), pilot(1, row(0, 4), source=1), pilot(2, row(4, 10), source=2)]
    assert check_every_order(inputs, {1: expect(("I1",), [row(0, 10)])}) == 16


def test_a_receive_of_several_boxes_takes_the_messages_of_each() -> None:
    boxes = [row(0, 3), row(5, 9)]
    inputs = [receive(1, boxes), pilot(1, row(0, 3)), pilot(2, row(5, 9))]
    check_every_order(inputs, {1: expect(("I1",), boxes)})


def test_two_receives_of_one_transfer_take_their_own_messages() -> None:
    inputs = [
        receive(1, [row(0, 4)]),
        receive(2, [row(4, 9)], OTHER),
        pilot(1, row(0, 4)),
        pilot(2, row(4, 9), source=2),
    ]
    check_every_order(inputs, {1: expect(("I1",), [row(0, 4)]), 2: expect(("I2",), [row(4, 9)], OTHER)})


def test_a_message_that_straddles_two_receives_is_cut_up_between_them() -> None:
    inputs = [
        receive(1, [row(0, 4)]),
        receive(2, [row(4, 9)], OTHER),
        pilot(1, row(0, 6)),
        pilot(2, row(6, 9), source=2),
    ]
    check_every_order(inputs, {1: expect(("I1",), [row(0, 4)]), 2: expect(("I2",), [row(4, 9)], OTHER)})


def test_parts_of_a_split_receive_complete_one_by_one() -> None:
    inputs = [
        split_receive(1, [row(0, 9)]),
        await_receive(2, [row(0, 6)], ("I1",)),
        await_receive(3, [row(4, 9)], ("I1",)),
        pilot(1, row(0, 4)),
        pilot(2, row(4, 9), source=2),
    ]
    expectations = {
        1: expect(("I1",), []),
        2: expect(("I2",), [row(0, 9)]),  # a message is all or nothing, and it needs both
        3: expect(("I3",), [row(4, 9)]),
    }
    check_every_order(inputs, expectations)


def test_awaits_look_only_at_their_own_allocation() -> None:
    inputs = [
        split_receive(1, [row(0, 4)]),
        split_receive(2, [row(4, 9)], OTHER),
        await_receive(3, [row(0, 4)], ("I1", "I2")),
        await_receive(4, [row(4, 9)], ("I1", "I2"), OTHER),
        pilot(1, row(0, 9)),
    ]
    expectations = {
        1: expect(("I1",), []),
        2: expect(("I2",), []),
        3: expect(("I3",), [row(0, 4)]),
        4: expect(("I4",), [row(4, 9)], OTHER),
    }
    check_every_order(inputs, expectations)


def test_an_await_may_span_two_split_receives_into_one_allocation() -> None:
    inputs = [
        split_receive(1, [row(0, 4)]),
        split_receive(2, [row(4, 9)]),
        await_receive(3, [row(2, 6)], ("I1", "I2")),
        pilot(1, row(0, 4)),
        pilot(2, row(4, 9)),
    ]
    expectations = {1: expect(("I1",), []), 2: expect(("I2",), []), 3: expect(("I3",), [row(0, 9)])}
    check_every_order(inputs, expectations)


def test_transfers_do_not_disturb_each_other() -> None:
    inputs = [
        receive(1, [row(0, 4)]),
        receive(2, [row(0, 4)], OTHER, (8, 3, 0)),
        pilot(1, row(0, 4)),
        pilot(1, row(0, 4), transfer=(8, 3, 0), source=2),
    ]
    inputs[3] = dataclasses.replace(inputs[3], name="M1 of T8")
    check_every_order(inputs, {1: expect(("I1",), [row(0, 4)]), 2: expect(("I2",), [row(0, 4)], OTHER)})


def test_boxes_of_two_and_three_dimensions_are_matched_by_overlap() -> None:
    a, b = (0, 0, 0, 2, 4, 3), (2, 0, 0, 4, 4, 3)
    halves = [(0, 0, 0, 4, 2, 3), (0, 2, 0, 4, 4, 3)]
    inputs = [receive(1, [a]), receive(2, [b], OTHER), pilot(1, halves[0]), pilot(2, halves[1])]
    check_every_order(inputs, {1: expect(("I1",), [a]), 2: expect(("I2",), [b], OTHER)})


def receive_partials(iid: int) -> Input:
    return Input(f"I{iid}", lambda a: a.receive_partials(iid, REDUCTION, HOST, 16, [0, 2, 3], [0, 2, 3]))


def test_each_contributing_rank_fills_a_slot_with_its_partial_result() -> None:
    inputs = [receive_partials(1), *(pilot(10 + source, row(0, 1), source, REDUCTION) for source in (0, 2, 3))]

    def extend(prefix: list[Input | int]) -> int:
        arbiter = _native_testing.ReceiveArbiter()
        posts: list[dict[str, Any]] = []
        names: set[str] = set()
        filled: dict[int, int] = {}
        completed: list[int] = []
        for event in prefix:
            if isinstance(event, Input):
                event.apply(arbiter)
                names.add(event.name)
            else:
                post = posts.pop(event)
                filled[post["source"]] = post["offset_bytes"]
                assert post["element_size"] == 16
                arbiter.complete(post["fragment"])
            posts += arbiter.take_posts()
            completed += arbiter.take_completed()
        done = "I1" in names and set(filled) == {0, 2, 3}
        assert completed == ([1] if done else [])
        options: list[Input | int] = [i for i in inputs if i.name not in names]
        options += range(len(posts))
        if not options:
            assert filled == {s: 16 * s for s in (0, 2, 3)}
            assert arbiter.num_open == arbiter.num_unclaimed_pilots == 0
            return 1
        return sum(extend([*prefix, option]) for option in options)

    assert extend([]) > 0


def test_an_await_for_what_has_arrived_long_ago_completes_at_once() -> None:
    arbiter = _native_testing.ReceiveArbiter()
    arbiter.await_receive(5, TRANSFER, HOST, [row(0, 3)])
    assert arbiter.take_completed() == [5]


def test_a_request_for_nothing_completes_at_once() -> None:
    arbiter = _native_testing.ReceiveArbiter()
    arbiter.receive(1, TRANSFER, [], HOST, 8)
    arbiter.split_receive(2, TRANSFER, [], HOST, 8)
    arbiter.receive_partials(3, REDUCTION, HOST, 8, [], [])
    assert arbiter.take_completed() == [1, 2, 3]
    assert arbiter.num_open == 0


def test_a_post_names_rank_message_and_place() -> None:
    arbiter = _native_testing.ReceiveArbiter()
    arbiter.receive(1, TRANSFER, [row(2, 5)], HOST, 8)
    arbiter.pilot(3, 11, TRANSFER, row(1, 5))
    (post,) = arbiter.take_posts()
    post.pop("fragment")
    assert post == {
        "instruction": 1,
        "source": 3,
        "message": 11,
        "transfer": TRANSFER,
        "destination": HOST,
        "box": row(2, 5),
        "message_box": row(1, 5),
        "offset_bytes": 0,
        "element_size": 8,
    }


def test_a_payload_nobody_waits_for_is_an_error() -> None:
    arbiter = _native_testing.ReceiveArbiter()
    with pytest.raises(ValueError, match="posted"):
        arbiter.complete(1)
    arbiter.receive_partials(1, REDUCTION, HOST, 8, [1], [1])
    with pytest.raises(RuntimeError, match="nobody receives"):
        arbiter.pilot(2, 1, REDUCTION, row(0, 1))


@pytest.mark.parametrize("pilot_first", [False, True])
def test_a_message_that_spans_several_boxes_of_one_receive_is_received_in_one_piece(pilot_first: bool) -> None:
    arbiter = _native_testing.ReceiveArbiter()
    events: list[Event] = [
        lambda a: a.receive(1, TRANSFER, [(0, 0, 0, 1, 2, 1), (1, 0, 0, 3, 5, 1)], HOST, 8),
        lambda a: a.pilot(1, 4, TRANSFER, (0, 1, 0, 3, 2, 1)),
    ]
    for event in reversed(events) if pilot_first else events:
        event(arbiter)
    (post,) = arbiter.take_posts()
    assert post["box"] == post["message_box"] == (0, 1, 0, 3, 2, 1)
