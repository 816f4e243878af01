# SPDX-License-Identifier: MIT
"""`Queue.redistribute` on any number of ranks: a sort, particles that change cells, a compaction, and any counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access

pytestmark = pytest.mark.mpi

BLOCKS = 8
EVEN = access.even_split()


def in_blocks(chunk: Any, view: Any) -> Any:
    """The rows of the blocks of a chunk, of equal size, as one array per block."""
    return view[...].reshape(chunk.box.shape[0], -1, *view.array.shape[1:])


def mapper_to(starts: Any) -> Any:
    """The rows of the buckets of a chunk."""
    return lambda chunk: Box((starts[chunk.box.min[0]],), (starts[chunk.box.max[0]],))


def test_a_sort_by_samples_sorts(queue: celerity.Queue) -> None:
    values = np.random.default_rng(1).normal(size=4096)

    def sort_blocks(chunk: Any, out: Any, sample: Any, u: Any) -> None:
        rows = np.sort(in_blocks(chunk, u), axis=1)
        out[...] = rows.reshape(-1)
        sample[...] = rows[:, :: rows.shape[1] // BLOCKS]

    def count(chunk: Any, counts: Any, u: Any, splitters: Any) -> None:
        rows = in_blocks(chunk, u)
        ends = [np.searchsorted(row, splitters) for row in rows]
        counts[...] = np.diff(ends, prepend=0, append=rows.shape[1])

    def sort_buckets(chunk: Any, u: Any) -> None:
        u[...] = np.sort(u[...])

    u = celerity.Buffer.from_array(values, name="u")
    blocks, result = (celerity.Buffer(u.shape, u.dtype, name=name) for name in ("blocks", "result"))
    sample = celerity.Buffer((BLOCKS, BLOCKS), u.dtype, name="sample")
    counts = celerity.Buffer((BLOCKS, BLOCKS), np.int64, name="counts")
    queue.parallel_for(BLOCKS, sort_blocks, blocks.write(EVEN), sample.write(EVEN), u.read(EVEN))
    splitters = np.sort(queue.fence(sample).result(), axis=None)[BLOCKS::BLOCKS]
    queue.parallel_for(BLOCKS, count, counts.write(EVEN), blocks.read(EVEN), splitters)
    starts = queue.redistribute(result, blocks, queue.fence(counts).result())
    queue.parallel_for(BLOCKS, sort_buckets, result.read_write(mapper_to(starts)))
    np.testing.assert_array_equal(queue.fence(result).result(), np.sort(values))


def test_particles_change_their_cells(queue: celerity.Queue) -> None:
    cells, steps = 16, 4
    rng = np.random.default_rng(2)
    initial = np.stack([rng.random(2048), rng.normal(size=2048)], axis=1)

    def move(chunk: Any, out: Any, counts: Any, old: Any) -> None:
        rows = in_blocks(chunk, old).copy()
        rows[..., 0] = (rows[..., 0] + 0.1 * rows[..., 1]) % 1
        cell = (rows[..., 0] * cells).astype(int)
        order = np.argsort(cell, axis=1, kind="stable")
        out[...] = np.take_along_axis(rows, order[..., None], axis=1).reshape(-1, 2)
        counts[...] = [np.bincount(row, minlength=cells) for row in cell]

    def energy(chunk: Any, out: Any, particles: Any, starts: Any) -> None:
        for (i,) in chunk.box.indices():
            out[i] = np.sum(particles[starts[i] : starts[i + 1]][:, 1] ** 2)

    particles = celerity.Buffer.from_array(initial, element=2, name="particles")
    moved = celerity.Buffer(2048, np.float64, element=2, name="moved")
    counts = celerity.Buffer((BLOCKS, cells), np.int64, name="counts")
    energies = celerity.Buffer(cells, np.float64, name="energies")
    expected = initial.copy()
    for _ in range(steps):
        queue.parallel_for(BLOCKS, move, moved.write(EVEN), counts.write(EVEN), particles.read(EVEN))
        starts = queue.redistribute(particles, moved, queue.fence(counts).result())
        expected[:, 0] = (expected[:, 0] + 0.1 * expected[:, 1]) % 1
    queue.parallel_for(cells, energy, energies.write(access.one_to_one()), particles.read(mapper_to(starts)), starts)
    sums = np.bincount((expected[:, 0] * cells).astype(int), expected[:, 1] ** 2, cells)
    np.testing.assert_allclose(queue.fence(energies).result(), sums)


def test_a_compaction_keeps_the_order(queue: celerity.Queue) -> None:
    values = np.random.default_rng(3).normal(size=4096)

    def keep(chunk: Any, out: Any, counts: Any, u: Any) -> None:
        rows = in_blocks(chunk, u)
        order = np.argsort(rows <= 1, axis=1, kind="stable")
        out[...] = np.take_along_axis(rows, order, axis=1).reshape(-1)
        counts[...] = np.count_nonzero(rows > 1, axis=1)[:, None]

    u = celerity.Buffer.from_array(values, name="u")
    blocks, result = (celerity.Buffer(u.shape, u.dtype, name=name) for name in ("blocks", "result"))
    counts = celerity.Buffer((BLOCKS, 1), np.int64, name="counts")
    queue.parallel_for(BLOCKS, keep, blocks.write(EVEN), counts.write(EVEN), u.read(EVEN))
    _, size = queue.redistribute(result, blocks, queue.fence(counts).result())
    kept = queue.fence(result, slice(0, int(size))).result()
    np.testing.assert_array_equal(kept, values[values > 1])


@pytest.mark.parametrize("seed", range(8))
def test_any_counts_give_the_rows_by_bucket_and_block(queue: celerity.Queue, seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_rows, num_blocks, num_buckets = (int(rng.integers(low, high)) for low, high in ((1, 60), (1, 9), (1, 9)))
    width = (int(rng.integers(1, 4)),) if seed % 2 else ()
    starts = np.arange(num_blocks + 1) * (num_rows // num_blocks) + np.minimum(
        np.arange(num_blocks + 1), num_rows % num_blocks
    )
    counts = np.zeros((num_blocks, num_buckets), int)
    for block, room in enumerate(np.diff(starts)):
        wanted = rng.integers(0, 4, num_buckets)
        counts[block] = np.minimum(np.cumsum(wanted), room) - np.minimum(np.cumsum(wanted) - wanted, room)
    rows = np.arange(num_rows * (width[0] if width else 1)).reshape(num_rows, *width)
    expected = np.full_like(rows, -1)
    place = 0
    for bucket in range(num_buckets):
        for block in range(num_blocks):
            first = starts[block] + counts[block, :bucket].sum()
            for row in range(first, first + counts[block, bucket]):
                expected[place] = rows[row]
                place += 1
    source = celerity.Buffer.from_array(rows, name="source")
    target = celerity.Buffer.from_array(np.full_like(rows, -1), name="target")
    offsets = queue.redistribute(target, source, counts)
    np.testing.assert_array_equal(offsets, [0, *np.cumsum(counts.sum(axis=0))])
    np.testing.assert_array_equal(queue.fence(target).result(), expected)
