# SPDX-License-Identifier: MIT
"""Buffers whose initial contents the ranks hold together, each some boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mpi

ROWS = 48


@pytest.fixture(params=[("cpu:1", "auto"), ("cpu:2", "host"), ("cpu:3", "auto")])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    devices, transport = request.param
    celerity.configure(devices=devices, transport=transport)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, transport=None)


def values() -> Any:
    return np.arange(ROWS * 5.0).reshape(ROWS, 5)


def share(rank: int, size: int) -> Box:
    return Box((ROWS * rank // size, 0), (ROWS * (rank + 1) // size, 5))


@celerity.kernel
def smooth(chunk: Any, out: Any, u: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1, 0)
    out[chunk.box] = u[chunk.box]
    out[inner] += u[inner.shift(-1, 0)] + u[inner.shift(1, 0)]


@pytest.mark.parametrize("turned", [0, 1])
def test_ranks_get_the_elements_that_others_hold(queue: celerity.Queue, turned: int) -> None:
    size = celerity.size()
    box = share((celerity.rank() + turned) % size, size)
    u = celerity.Buffer.from_local((ROWS, 5), np.float64, [(box, values()[box.slices])], name="u")
    out = celerity.Buffer(u.shape, u.dtype)
    mapper = access.neighborhood(1, 0)
    queue.parallel_for(u.shape, smooth, out.write(access.one_to_one()), u.read(mapper), hints=celerity.hints.split_1d())
    expected = values()
    expected[1:-1] += values()[:-2] + values()[2:]
    np.testing.assert_array_equal(queue.fence(out).result(), expected)
    np.testing.assert_array_equal(queue.fence(u, to="device").result(), values())


def test_only_the_halo_travels(queue: celerity.Queue) -> None:
    rank, size = celerity.rank(), celerity.size()
    box = share(rank, size)
    u = celerity.Buffer.from_local((ROWS, 5), np.float64, {box: values()[box.slices]})
    out = celerity.Buffer(u.shape, u.dtype)
    split = celerity.hints.split_1d()
    queue.parallel_for(u.shape, smooth, out.write(access.one_to_one()), u.read(access.neighborhood(1, 0)), hints=split)
    queue.wait()
    sent = queue.statistics().executor["sent_bytes"]
    num_neighbours = (rank > 0) + (rank < size - 1)
    assert sum(sent.values()) == num_neighbours * 5 * 8


def test_a_rank_may_have_nothing_and_a_part_may_belong_to_nobody(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    box = Box((0, 0), (ROWS - 8, 5))
    parts = [(box, values()[box.slices])] if celerity.is_master() else []
    u = celerity.Buffer.from_local((ROWS, 5), np.float64, parts, name="u")
    np.testing.assert_array_equal(queue.fence(u, box).result(), values()[box.slices])
    queue.fill(u, -1.0, (slice(ROWS - 8, None), ...))
    result = queue.fence(u).result()
    np.testing.assert_array_equal(result[ROWS - 8 :], -1.0)
    np.testing.assert_array_equal(result[: ROWS - 8], values()[box.slices])
    assert not caplog.records
    lacking = celerity.Buffer.from_local((ROWS, 5), np.float64, parts, name="lacking")
    queue.fence(lacking).result()
    assert ' "lacking" [40:48, 0:5], but nothing has written it' in caplog.text


def test_boxes_of_two_ranks_that_overlap_are_refused_on_all_ranks(queue: celerity.Queue) -> None:
    rank, size = celerity.rank(), celerity.size()
    if size == 1:
        pytest.skip("one rank has nobody to overlap with")
    box = share(rank, size)
    grown = Box((max(box.min[0] - (rank == size - 1), 0), 0), box.max)
    with pytest.raises(
        UsageError, match=rf'"u": rank {size - 2}, .*, and rank {size - 1}, .*, overlap in .* on one rank'
    ):
        celerity.Buffer.from_local((ROWS, 5), np.float64, [(grown, values()[grown.slices])], name="u")
    u = celerity.Buffer.from_local((ROWS, 5), np.float64, [(box, values()[box.slices])], name="u")
    np.testing.assert_array_equal(queue.fence(u).result(), values())
