# SPDX-License-Identifier: MIT
"""Random programs through the real runtime of all ranks; all of them draw the same ones."""

from __future__ import annotations

import pytest

import celerity_py as celerity
from celerity_py.configuration import Transport
from tests.property.live_programs import run_programs
from tests.property.live_run import Options

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("transport", ["host", pytest.param("direct", marks=pytest.mark.direct)])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_random_programs_give_the_results_of_a_sequential_run(devices: int, transport: Transport) -> None:
    celerity.configure(devices=f"cpu:{devices}", transport=transport)
    seed = 5001 + 100 * devices + 1000 * (transport == "direct")
    try:
        report = run_programs(seed, 24, Options(programs_per_runtime=6, time_limit_s=30))
    finally:
        celerity.configure(devices=None, transport=None)
    assert not report.failure, report.failure
