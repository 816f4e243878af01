# SPDX-License-Identifier: MIT
"""The graphs of several ranks: each rank knows the commands of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import celerity_py as celerity
from celerity_py import access
from celerity_py.configuration import Transport
from celerity_py.graphs.nodes import CommandNode

pytestmark = pytest.mark.mpi


@celerity.kernel
def smooth(chunk: Any, after: Any, before: Any) -> None:
    after[chunk.box] = before.array.mean()


@pytest.mark.parametrize("transport", ["host", pytest.param("direct", marks=pytest.mark.direct)])
def test_each_rank_draws_the_commands_that_the_other_ranks_really_have(transport: Transport, tmp_path: Path) -> None:
    world = MPI.COMM_WORLD
    if transport == "direct" and world.size == 1:
        pytest.skip("a single rank has no direct peer")
    folder = Path(world.bcast(str(tmp_path))) / "graphs"
    celerity.configure(print_graphs=folder, print_graphs_window=":", devices="cpu:2", transport=transport)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros((64, 8)), name="u")
        v = celerity.Buffer.from_local((64, 8), np.float64, [], name="v")
        total = celerity.Buffer((), np.float64, name="total")
        for _ in range(6):
            queue.parallel_for(v.shape, smooth, v.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
            u, v = v, u
        queue.parallel_for(
            u.shape,
            lambda chunk, r, view: r.combine(view.array.sum()),
            celerity.reduction(total, "sum"),
            u.read(access.one_to_one()),
        )
        queue.host_task(lambda part, view: None, total.read(access.all()), name="look")
        queue.fence(total).result()
        queue.barrier()
        graphs = queue.graphs()
        scheduler = queue.statistics().scheduler
    celerity.configure(print_graphs=None, print_graphs_window=None, devices=None, transport=None)

    rank, size = world.rank, world.size
    commands = [node for node in graphs.command.nodes if isinstance(node, CommandNode)]
    own = [repr(node) for node in commands if node.rank == rank]
    assert len(own) == scheduler["commands"]
    assert len(graphs.instruction.nodes) == scheduler["instructions"]
    everywhere = world.allgather(own)
    for other in range(size):
        assert [repr(node) for node in commands if node.rank == other] == everywhere[other]
    assert world.allgather(graphs.task.dot()) == [graphs.task.dot()] * size
    assert world.allgather(graphs.command.dot()) == [graphs.command.dot()] * size
    # Each push has an edge to the command of its target that receives.
    num_targets = sum(len(node.targets) for node in commands)
    assert graphs.command.dot().count('class="transfer"') == num_targets
    assert (num_targets > 0) == (size > 1)

    world.barrier()
    suffixes = [f".{other}" for other in range(size)] if size > 1 else [""]
    expected = {"tasks.dot", "commands.dot", *(f"instructions{suffix}.dot" for suffix in suffixes)}
    assert {path.name for path in folder.glob("*.dot")} == expected
