# SPDX-License-Identifier: MIT
"""Legal programs are accepted with every division, on one device and with CHECK as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access, hints

SIZE, ROWS = 12, 17
LISTED = np.array([7, 7, 6, 14, 3, 8, 5, 14, 6, 8, 15, 12])
OFFSETS = np.array([0, 0, 2, 3, 3, 5, 6, 8, 9, 9, 11, 11, 12])

#: Contain for each chunk the elements of its parts, as every mapper has to.
MAPPERS: dict[str, Callable[[], Any]] = {
    "gather": lambda: access.gather(LISTED),
    "gather, gap 0": lambda: access.gather(LISTED, gap=0),
    "gather, gap 2": lambda: access.gather(LISTED, gap=2),
    "gather, offsets": lambda: access.gather(LISTED, OFFSETS, gap=3),
    "hull": lambda: lambda chunk: Box((min(LISTED[chunk.box.min[0] : chunk.box.max[0]]),), (ROWS,)),
    "pure hull": lambda: access.pure(lambda chunk: Box((0,), (int(max(LISTED[: chunk.box.max[0]])) + 1,)), key="hull"),
    "two boxes": lambda: lambda chunk: Region([Box((0,), (2,)), Box((chunk.box.min[0] + 3,), (ROWS,))]),
    "all": access.all,
    "neighborhood": lambda: access.neighborhood(2),
    "even split": access.even_split,
    "fixed": lambda: access.fixed(Box((3,), (9,))),
}
DIVISIONS: dict[str, tuple[hints.Hint, ...]] = {
    "none": (),
    "cyclic 1": (hints.cyclic(1),),
    "cyclic 2": (hints.cyclic(2),),
    "cyclic 5": (hints.cyclic(5),),
    "cyclic 100": (hints.cyclic(100),),
    "oversubscribe": (hints.oversubscribe(3),),
    "border first": (hints.border_first(1),),
    "split 1d": (hints.split_1d(),),
    "split 2d": (hints.split_2d(),),
    "split auto": (hints.split_auto(),),
}
SETTINGS = ({"devices": "cpu:1"}, {"devices": "cpu:1", "check": True}, {"devices": "cpu:3", "check": True})


@pytest.fixture(params=SETTINGS, ids=["1 device", "1 device, check", "3 devices, check"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(**request.param)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, check=None)


def count(chunk: celerity.Chunk, out: celerity.View, _: celerity.View) -> None:
    out[chunk.box] = 1 + np.arange(chunk.box.min[0], chunk.box.max[0])


@pytest.mark.parametrize("division", [*DIVISIONS, "weights"])
def test_legal_reads_are_accepted_with_every_division(queue: celerity.Queue, division: str) -> None:
    weights = hints.weights(range(1, queue.statistics().num_devices + 1))
    chosen = DIVISIONS.get(division, (weights,))
    for make in MAPPERS.values():
        source = celerity.Buffer.from_array(np.arange(float(ROWS)))
        target = celerity.Buffer(SIZE, np.float64)
        write, read = target.write(access.one_to_one()), source.read(make())
        queue.parallel_for(SIZE, count, write, read, hints=chosen)
        np.testing.assert_array_equal(queue.fence(target).result(10), 1 + np.arange(SIZE))


@pytest.mark.parametrize("block", [1, 2, 5, 100])
def test_the_items_of_a_cyclic_division_read_the_rows_that_they_list(queue: celerity.Queue, block: int) -> None:
    def gather(chunk: celerity.Chunk, out: celerity.View, rows: celerity.View) -> None:
        for item in range(chunk.box.min[0], chunk.box.max[0]):
            out[item] = rows[int(LISTED[item])]

    source = celerity.Buffer.from_array(np.arange(float(ROWS)) ** 2)
    target = celerity.Buffer(SIZE, np.float64)
    rows = access.gather(LISTED)
    queue.parallel_for(SIZE, gather, target.write(access.one_to_one()), source.read(rows), hints=hints.cyclic(block))
    np.testing.assert_array_equal(queue.fence(target).result(10), LISTED.astype(float) ** 2)
