# SPDX-License-Identifier: MIT
"""The requests of an executor to its engine, by kind of instruction and by the abilities of the rank."""

from __future__ import annotations

from typing import Any

import pytest

from celerity_py import _native_testing
from tests.support.executor_harness import DEVICE0, DEVICE1, HOST, TRANSFER, USER, Record, Script, row, send_record
from tests.support.issue_requests import OF_QUEUE

BOX = row(0, 10)
ON_THE_HOST = ("host", None, None)
CLOCK = ("clock", None, None)


def requests(*records: Record, **rules: Any) -> list[tuple[str, str | None, int | None]]:
    return _native_testing.make_requests(_native_testing.InstructionRecords(records), **rules)


def request(kind: str, fields: Record, **rules: Any) -> tuple[str, str | None, int | None]:
    s = Script()
    s.add(kind, **fields)
    (made,) = requests(*s.records, **rules)
    return made


def copy(source: int, destination: int) -> tuple[str, str | None, int | None]:
    s = Script()
    s.copy((source, 1), (destination, 1), 10)
    return requests(*s.records, num_devices=2)[0]


def kernel(
    device: int = 0, *, is_border: bool = False, queue: int = 0, **rules: Any
) -> tuple[str, str | None, int | None]:
    s = Script()
    s.kernel(device, 5, (DEVICE0 + device, 1), 10)
    s.records[-1] |= {"is_border": is_border, "priority": OF_QUEUE * queue}
    return requests(*s.records, num_devices=2, **rules)[0]


def receive(destination: int, *, kind: str = "receive", **rules: Any) -> tuple[str, str | None, int | None]:
    place = {"destination": (destination, 1), "element_size_bytes": 8}
    return request(kind, {"transfer": TRANSFER, "boxes": [BOX], **place}, **rules)


def send(source: int, **rules: Any) -> tuple[str, str | None, int | None]:
    return requests(send_record(1, [], BOX) | {"source": (source, 1)}, **rules)[0]


@pytest.mark.parametrize(
    ("source", "destination", "lane"),
    [
        (USER, HOST, ("host_copy", 0)),
        (HOST, DEVICE1, ("host_to_device", 1)),
        (DEVICE1, HOST, ("device_to_host", 1)),
        (DEVICE0, DEVICE1, ("peer", 1)),
        (DEVICE1, DEVICE1, ("compute", 1)),
    ],
)
def test_copies_go_to_the_lane_of_their_direction(source: int, destination: int, lane: tuple[str, int]) -> None:
    assert copy(source, destination) == ("plain", *lane)


def test_a_kernel_goes_to_its_device_and_ahead_of_others_if_it_is_a_border() -> None:
    assert kernel(1) == ("launched", "compute", 1)
    assert kernel(1, is_border=True) == ("launched", "urgent", 1)


def test_a_kernel_of_a_queue_with_a_priority_goes_to_lanes_of_it_where_lanes_have_priorities() -> None:
    assert kernel(1, queue=2, stream_like=True) == ("deferred", "raised", 1)
    assert kernel(1, queue=2, is_border=True, stream_like=True) == ("deferred", "urgent", 1)
    assert kernel(1, queue=2) == ("launched", "compute", 1)


def test_only_kernels_of_launcher_threads_are_launched_or_deferred() -> None:
    assert kernel() == ("launched", "compute", 0)
    assert kernel(stream_like=True) == ("deferred", "compute", 0)
    assert kernel(launches=[5]) == kernel(stream_like=True, launches=[5]) == ("plain", "compute", 0)
    assert kernel(launches=[4, 6]) == ("launched", "compute", 0)


def test_a_kernel_for_a_device_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RuntimeError, match="a device that does not exist"):
        kernel(2)


def test_what_leaves_a_device_for_a_direct_peer_is_a_signal() -> None:
    assert send(DEVICE0, direct_peers=[False, True]) == ("signal", "signal", 0)
    assert send(HOST, direct_peers=[False, True]) == ON_THE_HOST
    assert send(DEVICE0, direct_peers=[True, False]) == ON_THE_HOST
    assert send(DEVICE0) == ON_THE_HOST


def test_with_direct_peers_each_receive_is_a_pull() -> None:
    assert receive(DEVICE0) == ON_THE_HOST
    assert receive(DEVICE0, direct_peers=[False, True]) == ("pull", "pull", 0)
    assert receive(HOST, direct_peers=[False, True]) == ("pull", "pull", 0)


def test_with_direct_peers_no_receive_comes_in_parts() -> None:
    assert receive(HOST, kind="split_receive") == ON_THE_HOST
    with pytest.raises(RuntimeError, match="never in parts"):
        receive(HOST, kind="split_receive", direct_peers=[False, True])


def test_epochs_and_horizons_are_clocks_but_a_barrier_of_several_ranks_is_not() -> None:
    def epoch(action: str, num_ranks: int) -> tuple[str, str | None, int | None]:
        fields = {"task": 1, "submission": 1, "action": action}
        return request("epoch", fields, num_ranks=num_ranks)

    assert request("horizon", {"task": 1, "last_submission": 0}) == CLOCK
    assert [epoch(action, 2) for action in ("none", "init", "shutdown")] == [CLOCK] * 3
    assert epoch("barrier", 1) == CLOCK
    assert epoch("barrier", 2) == ON_THE_HOST


def test_the_host_does_the_rest() -> None:
    s = Script()
    s.alloc(DEVICE0, 1, 10)
    s.free(DEVICE0, 1, 10)
    s.add("host_task", submission=1, chunk=BOX, accesses=[])
    s.add("initialize", buffer=1, destination=(HOST, 1), boxes=[BOX], element_size_bytes=8)
    s.add("await_receive", transfer=TRANSFER, destination=(HOST, 1), boxes=[BOX])
    s.add("receive_partials", transfer=TRANSFER, destination=(HOST, 1), bytes_per_slot=8, sources=[1], slots=[1])
    s.add("fence", submission=2)
    assert requests(*s.records) == [ON_THE_HOST] * len(s.records)
