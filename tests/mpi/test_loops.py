# SPDX-License-Identifier: MIT
"""Loops that stop on data: the same iterations and contents on all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.mpi.test_programs import random_array, reference_wave, wave_step

pytestmark = pytest.mark.mpi
ONE = access.one_to_one()
LIMIT = 139.0  # the wave first exceeds it after 10 steps


@celerity.kernel
def exceeds(chunk: Any, flags: Any, u: Any, limit: float) -> None:
    flags[chunk.box] = np.abs(u[chunk.box]) > limit


@pytest.fixture(params=["host", pytest.param("direct", marks=pytest.mark.direct)])
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    celerity.configure(transport=request.param)
    yield request.param
    celerity.configure(transport=None)


def first_above(initial: Any, every: int, at_most: int) -> int:
    """The number of steps that a sequential run needs."""
    checks = [*range(every, at_most, every), at_most]
    return next((steps for steps in checks if np.abs(reference_wave(initial, steps)).max() > LIMIT), at_most)


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize(("every", "at_most"), [(1, 40), (3, 40), (16, 23)])
def test_a_loop_ends_after_the_same_iteration_on_all_ranks(
    every: int, at_most: int, devices: int, transport: str
) -> None:
    initial = random_array(36, 20)
    celerity.configure(devices=f"cpu:{devices}")
    try:
        with celerity.Queue() as queue:
            u, u_next = (celerity.Buffer.from_array(initial) for _ in range(2))
            flags = celerity.Buffer(initial.shape, np.bool_)

            def ask() -> Any:
                queue.parallel_for(flags.shape, exceeds, flags.write(ONE), u.read(ONE), LIMIT)
                return queue.any(flags)

            loop = queue.until(ask, every=every, at_most=at_most, keep=lambda: u)
            for _ in loop:
                queue.parallel_for(
                    u.shape,
                    wave_step,
                    u_next.read_write(ONE),
                    u.read(access.neighborhood(1, 1, shape="axes")),
                    0.25,
                )
                u, u_next = u_next, u
            result = queue.fence(u).result(60)
    finally:
        celerity.configure(devices=None)
    needed = first_above(initial, every, at_most)
    assert (loop.iterations, loop.stopped) == (needed, needed < at_most)
    np.testing.assert_array_equal(result, reference_wave(initial, needed))
