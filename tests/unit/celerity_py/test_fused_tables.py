# SPDX-License-Identifier: MIT
"""Arrays of NumPy among the arguments of fused kernels: as for a Python kernel, with other values at each submit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import CelerityWarning, TaskFailed, UsageError

pytest.importorskip("numba")


def look_up(  # noqa: PLR0917 - a kernel
    chunk: Any, out: Any, u: Any, weights: Any, colours: Any, offsets: Any
) -> None:
    b = chunk.box
    out[b] = weights[1] * u[b] + colours[u[b] % 5] + offsets[None, :] + colours[-1]
    for k in range(3):
        if int(weights[k]) > 2:
            out[b] += weights[k : k + 1]


def test_tables_are_indexed_by_constants_slices_and_elements() -> None:
    array = np.arange(60).reshape(10, 6)
    results: list[list[Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", CelerityWarning)
        for kernel in (celerity.fuse(look_up), celerity.kernel(look_up)):
            results.append([])
            with celerity.Queue() as queue:
                u, out = celerity.Buffer.from_array(array), celerity.Buffer(array.shape, np.float64)
                for step in range(3):
                    tables = np.array([1.0, 2.0, 3.0]), np.linspace(0, 1, 5) + step, np.arange(6.0) * step
                    reads = u.read(access.one_to_one())
                    queue.parallel_for(array.shape, kernel, out.write(access.one_to_one()), reads, *tables)
                    tables[1][:] = np.nan  # the submit has taken a copy
                    results[-1].append(queue.fence(out).result())
    assert np.array_equal(results[0], results[1])


def test_tables_are_refused_where_they_are_written_and_left_to_python_where_they_are_large() -> None:
    @celerity.fuse
    def write(chunk: Any, u: Any, table: Any) -> None:
        table[0] = 1

    @celerity.fuse
    def add(chunk: Any, u: Any, table: Any) -> None:
        u[chunk.box] += table[chunk.box.slices]

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(1000))
        with pytest.raises(UsageError, match="is written"):
            queue.parallel_for(1000, write, u.read_write(access.one_to_one()), np.zeros(3))
        with pytest.warns(CelerityWarning, match="Make argument 2 a buffer"):
            queue.parallel_for(1000, add, u.read_write(access.one_to_one()), np.ones(1000))
        assert queue.fence(u).result().sum() == 1000


def choose(chunk: Any, out: Any, places: Any, table: Any) -> None:
    out[chunk.box] = table[places[chunk.box]]


def submit(queue: celerity.Queue, places: Any, table: Any) -> celerity.Buffer[Any]:
    out, u = celerity.Buffer(len(places), table.dtype.newbyteorder("=")), celerity.Buffer.from_array(np.array(places))
    one = access.one_to_one()
    queue.parallel_for(out.shape, celerity.fuse(choose), out.write(one), u.read(one), table)
    return out


def test_a_table_may_change_in_place_between_submits() -> None:
    table, kernel = np.arange(3.0), celerity.fuse(choose)
    one = access.one_to_one()
    with celerity.Queue() as queue:
        u, out = celerity.Buffer.from_array(np.array([2, -1, 0])), celerity.Buffer(3, np.float64)

        def step() -> None:
            queue.parallel_for(3, kernel, out.write(one), u.read(one), table)

        for turn in range(3):
            table += 1
            step()
            assert queue.fence(out).result().tolist() == [3.0 + turn, 3.0 + turn, 1.0 + turn]
        queue.replay(queue.record(step), 2)
        assert queue.fence(out).result().tolist() == [5.0, 5.0, 3.0]


def test_indices_outside_of_a_table_raise_where_they_are_known_and_never_leave_it_otherwise() -> None:
    @celerity.fuse
    def take(chunk: Any, out: Any, table: Any) -> None:
        out[chunk.box] = table[chunk.index(0), 2]

    with celerity.Queue() as queue:
        assert queue.fence(submit(queue, [-9, -3, 3, 2**40], np.arange(3))).result().tolist() == [0, 0, 2, 2]
        out = celerity.Buffer(2)
        with pytest.raises(UsageError, match=r"Index 2 is outside of an axis of 2 elements .*test_fused_tables\.py"):
            queue.parallel_for(2, take, out.write(access.one_to_one()), np.ones((2, 2)))


def test_with_check_an_index_outside_of_a_table_is_an_error() -> None:
    celerity.configure(check=True)
    try:
        with pytest.raises(TaskFailed, match="index 3 is out of bounds"), celerity.Queue() as queue:
            queue.fence(submit(queue, [0, 3], np.arange(3))).result()
    finally:
        celerity.configure(check=None)


def test_arrays_in_the_byte_order_of_other_machines_are_left_to_python() -> None:
    with celerity.Queue() as queue:
        with pytest.warns(CelerityWarning, match="among the arguments is not"):
            out = submit(queue, [2, 1, 0], np.arange(3, dtype=">f8"))
        assert queue.fence(out).result().tolist() == [2, 1, 0]
