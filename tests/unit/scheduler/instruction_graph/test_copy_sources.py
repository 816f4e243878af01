# SPDX-License-Identifier: MIT
"""From which memory a copy comes if several hold the data: links, then planned load, then the producer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.mappers import Mapper, custom, fixed, one_to_one
from tests.verification.contexts import BufferHandle, Cluster

SIZE = 64
FIRST_DEVICE = 2


def only(devices: Iterable[int], num_devices: int, part: tuple[int, int]) -> Mapper:
    """A part of the buffer for the chunks of some devices, and for the whole index space; nothing for others."""
    share = SIZE // num_devices
    chunks = [((device * share, (device + 1) * share),) for device in devices]
    return custom(
        f"only({chunks}, {part})", lambda chunk, whole, shape: [(part,)] if chunk in (*chunks, ((0, SIZE),)) else []
    )


class Machine:
    """A rank with some devices. Each has written its own part of the buffer."""

    def __init__(self, num_devices: int = 4, **options: Any) -> None:
        self.cluster = Cluster(num_devices=num_devices, **options)
        self.num_devices = num_devices
        self.buffer: BufferHandle = self.cluster.buffer(SIZE)
        self.cluster.kernel(SIZE, "write").write(self.buffer, one_to_one()).submit()

    def copies_for(self, *readers: int, of: int = 0) -> dict[int, int]:
        """Destination -> source of the copies with which these devices read the part that a device has written."""
        share = SIZE // self.num_devices
        before = len(self.cluster.instructions().all("copy"))
        mapper = only(readers, self.num_devices, (of * share, (of + 1) * share))
        self.cluster.kernel(SIZE, "read").read(self.buffer, mapper).submit()
        made = list(self.cluster.instructions().all("copy"))[before:]
        found = {
            record["destination"][0] - FIRST_DEVICE: record["source"][0] - FIRST_DEVICE
            for record in made
            if record["reason"] == "coherence"
        }
        assert len(found) == len(readers)
        return found

    def finish(self) -> None:
        self.cluster.finish().verify()


def links(num_devices: int, **ranks: int) -> tuple[int, ...]:
    """All links are bad, except those that are named like `d1_d2`."""
    pairs = [(a, b) for a in range(num_devices) for b in range(num_devices)]
    return tuple(0 if a == b else ranks.get(f"d{a}_d{b}", 2) for a, b in pairs)


def test_the_producer_is_the_source_if_nothing_else_counts() -> None:
    machine = Machine()
    assert machine.copies_for(3) == {3: 0}
    assert machine.copies_for(2) == {2: 0}  # the third device is nearer by number only
    machine.finish()


@pytest.mark.parametrize(("ranks", "source"), [({}, 0), ({"d3_d2": 1}, 3), ({"d3_d2": 1, "d0_d2": 1}, 0)])
def test_a_copy_comes_over_the_best_link(ranks: dict[str, int], source: int) -> None:
    machine = Machine(link_grades=links(4, **ranks))
    machine.copies_for(3)
    assert machine.copies_for(2) == {2: source}
    machine.finish()


def test_the_copies_of_one_task_are_shared_among_the_memories_that_hold_the_data() -> None:
    machine = Machine()
    machine.copies_for(1)
    assert machine.copies_for(2, 3) == {2: 0, 3: 1}
    machine.finish()


def test_a_better_link_counts_more_than_load() -> None:
    machine = Machine(link_grades=links(4, d0_d2=0, d0_d3=0))
    machine.copies_for(1)
    assert machine.copies_for(2, 3) == {2: 0, 3: 0}
    machine.finish()


def test_the_load_of_earlier_tasks_does_not_count() -> None:
    machine = Machine()
    for reader in (1, 2, 3):
        assert machine.copies_for(reader) == {reader: 0}
    machine.finish()


def test_what_no_other_memory_holds_is_load_too() -> None:
    machine = Machine()
    held_twice, held_once = (0, 8), (8, 16)  # both written by the first device
    cluster, buffer = machine.cluster, machine.buffer
    cluster.kernel(SIZE, "read").read(buffer, only([1], 4, held_twice)).submit()
    before = len(cluster.instructions().all("copy"))
    cluster.kernel(SIZE, "read").read(buffer, only([2], 4, held_once)).read(buffer, only([3], 4, held_twice)).submit()
    made = list(cluster.instructions().all("copy"))[before:]
    assert {(record["source"][0], record["destination"][0]) for record in made} == {(2, 4), (3, 5)}
    machine.finish()


def test_what_a_single_piece_holds_is_no_load() -> None:
    machine = Machine(joined_bytes=2**16)
    machine.copies_for(1)
    assert machine.copies_for(2, 3) == {2: 0, 3: 0}
    machine.finish()


def test_a_device_is_nearer_than_the_host_where_links_are_known() -> None:
    for link_grades, source in ((), 1), (links(2), FIRST_DEVICE):
        cluster = Cluster(num_devices=2, user_device_peers=False, link_grades=link_grades)
        buffer = cluster.buffer(SIZE)
        cluster.host_task(name="produce").write(buffer, fixed(((0, SIZE),))).submit()
        half = custom("first", lambda chunk, whole, shape: [((0, SIZE),)] if chunk[0][0] == 0 else [])
        other = custom("second", lambda chunk, whole, shape: [((0, SIZE),)] if chunk[0][1] == SIZE else [])
        cluster.kernel(SIZE, "first").read(buffer, half).submit()
        cluster.kernel(SIZE, "second").read(buffer, other).submit()
        made = list(cluster.instructions().all("copy", reason="coherence"))
        assert [record["source"][0] for record in made] == [1, source]
        cluster.finish().verify()
