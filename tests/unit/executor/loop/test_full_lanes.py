# SPDX-License-Identifier: MIT
"""When a lane has no room for more, sends of the host still leave: another rank may need them first."""

from __future__ import annotations

import pytest

from celerity_py import _native_testing
from tests.property.programs import Access, BufferDecl, Fence, HostTask, Kernel, Program, Reduction, Settings
from tests.property.simulator import World
from tests.support import mappers, uneven_mappers
from tests.support.issue_requests import issue_all, submit

TWO_CLASSES = [("compute", 0, 2, 0)]


def partial_results_behind_fetches(seed: int) -> Program:
    """Rank 1 owes a partial result, and has lanes full of what waits for rank 0, which needs that result."""
    settings = Settings(num_ranks=2, num_devices=2, device_peers=False, direct_pairs=frozenset({(0, 1)}), seed=seed)
    whole = ((0, 32),)
    return Program(
        settings,
        [
            BufferDecl(0, (32,), "none"),
            BufferDecl(1, (32,), "function"),
            BufferDecl(2, (), "function"),
            HostTask("master", (), (Access(0, "write", mappers.all_()),)),
            Kernel(((0, 5), (0, 10)), (Access(0, "read", mappers.all_()),), (Reduction(2, "min", True),)),
            Kernel(((0, 1),), (Access(0, "write", mappers.fixed(((11, 30),))), Access(2, "read", mappers.all_()))),
            Kernel(((0, 3),), (Access(1, "write", uneven_mappers.scattered(4)),), oversubscribe=2),
            Fence(0, whole),
            Fence(1, whole),
        ],
    )


@pytest.mark.parametrize("stream_like", [False, True])
def test_a_full_lane_does_not_keep_the_host_from_sending(stream_like: bool) -> None:
    for seed in range(60):
        World(partial_results_behind_fetches(seed), stream_like=stream_like, most_on_a_lane=2).run()


def test_the_engine_holds_back_lanes_and_nothing_else() -> None:
    engine = _native_testing.Engine(TWO_CLASSES)
    engine.allow_lanes(False)
    submit(engine, 1)
    submit(engine, 2, policy="host")
    submit(engine, 3, policy="host")
    assert set(issue_all(engine)) == {2, 3}
    engine.complete(2)
    submit(engine, 4, policy="host")
    assert set(issue_all(engine)) == {4}
    engine.allow_lanes(True)
    assert set(issue_all(engine)) == {1}


def test_a_remote_wait_that_was_held_back_still_respects_keys() -> None:
    engine = _native_testing.Engine(TWO_CLASSES)
    engine.allow_lanes(False)
    submit(engine, 1, task=5, phase="receive", policy="pull")
    assert not issue_all(engine)
    submit(engine, 2, task=3, policy="host")
    submit(engine, 3, 2, task=3)
    assert set(issue_all(engine)) == {2}
    engine.allow_lanes(True)
    assert not issue_all(engine)
    engine.complete(2)
    assert list(issue_all(engine)) == [3, 1]
