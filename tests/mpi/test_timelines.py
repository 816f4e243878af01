# SPDX-License-Identifier: MIT
"""The timelines of several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import celerity_py as celerity
from celerity_py import access
from celerity_py.configuration import Transport
from celerity_py.timeline.chrome import merge
from tests.support.timelines import read_timeline

pytestmark = pytest.mark.mpi


@celerity.kernel
def smooth(chunk: Any, after: Any, before: Any) -> None:
    after[chunk.box] = before.array.mean()


@pytest.mark.parametrize("transport", ["host", pytest.param("direct", marks=pytest.mark.direct)])
def test_each_rank_shows_its_messages_and_arrows_join_those_of_all(transport: Transport, tmp_path: Path) -> None:
    world = MPI.COMM_WORLD
    if transport == "direct" and world.size == 1:
        pytest.skip("a single rank has no direct peer")
    folder = Path(world.bcast(str(tmp_path)))
    celerity.configure(trace=folder / "run", devices="cpu:2", transport=transport)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros((64, 8)), name="u")
        v = celerity.Buffer.from_array(np.zeros((64, 8)), name="v")
        for _ in range(12):
            queue.parallel_for(u.shape, smooth, u.write(access.one_to_one()), v.read(access.neighborhood(1, 0)))
            u, v = v, u
        queue.barrier()
        statistics = queue.statistics()
    celerity.configure(trace=None, devices=None, transport=None)

    rank, size = world.rank, world.size
    own = read_timeline(folder / (f"run.{rank}.json" if size > 1 else "run.json"))
    assert own.about[f"rank {rank}"]["events_lost"] == 0
    assert len(own.slices("D0 compute", name="smooth", rank=rank)) == 12
    sends = own.slices("send", rank=rank)
    receives = own.slices("receive", rank=rank)
    assert bool(sends) == (size > 1)
    assert sum(item["args"]["bytes"] for item in sends) == sum(statistics.executor["sent_bytes"].values())
    assert sum(item["args"]["bytes"] for item in receives) == statistics.executor["received_bytes"]
    neighbours = {other for other in (rank - 1, rank + 1) if 0 <= other < size}
    assert {item["args"]["peer"] for item in sends} == neighbours
    assert all(item["args"]["buffer"] in {"u", "v"} for item in sends)

    world.barrier()
    if rank == 0 and size > 1:
        merge(sorted(folder.glob("run.?.json")), folder / "all.json")
        together = read_timeline(folder / "all.json")
        assert list(together.about) == [f"rank {other}" for other in range(size)]
        assert together.arrows
        errors = [together.about[f"rank {other}"]["clock_error_us"] for other in range(size)]
        for ends in together.arrows.values():
            assert set(ends) == {"s", "f"}
            assert ends["s"]["ts"] <= ends["f"]["ts"] + errors[ends["s"]["pid"]] + errors[ends["f"]["pid"]]
            assert ends["s"]["pid"] != ends["f"]["pid"]
    world.barrier()
