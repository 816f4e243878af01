# SPDX-License-Identifier: MIT
"""Recordings and replays on all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access, hints
from tests.mpi.test_programs import random_array, reference_wave, wave_step
from tests.property.recorded_programs import run_recorded_programs

pytestmark = pytest.mark.mpi


@pytest.fixture(params=["host", pytest.param("direct", marks=pytest.mark.direct)])
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    celerity.configure(transport=request.param)
    yield request.param
    celerity.configure(transport=None)


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_random_programs_with_replays_give_the_results_of_a_sequential_run(devices: int, transport: str) -> None:
    celerity.configure(devices=f"cpu:{devices}", horizon_step=devices)
    try:
        found = run_recorded_programs(8000 + 100 * devices + 1000 * (transport == "direct"), 16)
    finally:
        celerity.configure(devices=None, horizon_step=None)
    assert found["replay many times"] > 0


def test_a_stencil_is_replayed(transport: str) -> None:
    initial = random_array(36, 20)
    with celerity.Queue() as queue:
        u, u_next = (celerity.Buffer.from_array(initial) for _ in range(2))

        def two_steps() -> None:
            for new, old in ((u_next, u), (u, u_next)):
                queue.parallel_for(
                    new.shape,
                    wave_step,
                    new.read_write(access.one_to_one()),
                    old.read(access.neighborhood(1, 1, shape="axes")),
                    0.25,
                )

        step = queue.record(two_steps)
        queue.replay(step, 4)
        result: Any = queue.fence(u).result(60)
    np.testing.assert_array_equal(result, reference_wave(initial, 10))


@pytest.mark.parametrize("check", [False, True])
def test_halos_of_several_repetitions_are_fetched_at_once(transport: str, check: bool) -> None:
    initial = random_array(320, 6)
    received = []
    for given in ([], [hints.recompute(4)]):
        celerity.configure(devices="cpu:2", check=check)
        try:
            with celerity.Queue() as queue:
                u, u_next = (celerity.Buffer.from_array(initial) for _ in range(2))

                def two_steps(given: Any = given, u: Any = u, u_next: Any = u_next, queue: Any = queue) -> None:
                    for new, old in ((u_next, u), (u, u_next)):
                        halo = access.neighborhood(1, 1, shape="axes")
                        args = new.read_write(access.one_to_one()), old.read(halo), 0.25
                        queue.parallel_for(new.shape, wave_step, *args, hints=given)

                step = queue.record(two_steps)
                queue.replay(step, 16)
                queue.wait()
                counts = queue.statistics().executor["instructions"]
                received.append(counts["receive"] + counts["split_receive"])
                result: Any = queue.fence(u).result(60)
        finally:
            celerity.configure(devices=None, check=None)
        np.testing.assert_array_equal(result, reference_wave(initial, 34))
    assert check or celerity.size() == 1 or received[1] < received[0] / 2
