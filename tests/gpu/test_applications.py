# SPDX-License-Identifier: MIT
"""The example applications on GPUs, and the same by hand, checked against NumPy by themselves."""

from __future__ import annotations

import pytest

from cluster_jobs.benchmarks.scaling.scaling_apps import APPS
from tests.gpu.launching import REPOSITORY, run

pytestmark = pytest.mark.processes

# Of odd sizes that no number of devices divides.
RUNS = {
    "wave_sim": ["--size", "1031", "--steps", "100"],
    "wave_sim, border first": ["--size", "1031", "--steps", "100", "--border", "8"],
    "wave_sim, aligned rows": ["--size", "1032", "--steps", "100"],
    "wave_sim, replayed": ["--size", "1031", "--steps", "101", "--replay"],
    "wave_sim, tiles": ["--size", "1030", "--steps", "100", "--split-2d"],
    "matmul": ["--size", "397"],
    "matmul --split-2d": ["--size", "397", "--split-2d"],
    "matmul, less than a tile": ["--size", "13", "--steps", "3", "--replay"],
    "convolution": ["--size", "267", "--radius", "5", "--passes", "3"],
    "convolution, much shared memory": ["--size", "99", "--radius", "50", "--passes", "2"],
    "convolution, border first": ["--size", "267", "--radius", "5", "--passes", "3", "--border", "8"],
    "convolution, replayed": ["--size", "267", "--passes", "7", "--replay"],
    "jacobi": ["--size", "141", "--tolerance", "0.1", "--check-every", "20"],
    "jacobi, aligned rows": ["--size", "140", "--tolerance", "0.1", "--check-every", "20"],
    "conjugate_gradient": ["--size", "141"],
    "conjugate_gradient, replayed": ["--size", "141", "--replay"],
    "conjugate_gradient, more rows than blocks": ["--size", "1203", "--steps", "75"],
    "rsim_pattern": ["--size", "253", "--steps", "60"],
    "rsim": ["--patches", "700", "--steps", "60"],
    "rsim, replayed": ["--patches", "700", "--steps", "60", "--replay"],
    "rsim, some of many": ["--patches", "4500", "--steps", "40"],
    "nbody": ["--bodies", "1003", "--steps", "30"],
    "nbody, replayed": ["--bodies", "1003", "--steps", "31", "--replay"],
    "nbody, some of many": ["--bodies", "20011", "--steps", "3"],
}
ROUNDED = {"conjugate_gradient", "rsim_pattern", "rsim", "nbody"}  # sums in another order than NumPy's


@pytest.mark.parametrize("bounds_check", ["0", "1"])
@pytest.mark.parametrize("num_ranks", [None, 2])
@pytest.mark.parametrize("name", RUNS)
def test_an_application_computes_what_numpy_computes(name: str, num_ranks: int | None, bounds_check: str) -> None:
    app = name.replace(",", "").split()[0]
    outcome = run(
        str(REPOSITORY / "cluster_jobs" / "apps" / f"{app}.py"),
        *RUNS[name],
        "--verify",
        num_ranks=num_ranks,
        variables={"CELERITY_BOUNDS_CHECK": bounds_check},
    )
    assert outcome.status == 0, f"{outcome.output}\n{outcome.errors}"
    verdict = "Verified: " if app in ROUNDED else "Verified: bit-identical to plain NumPy."
    assert outcome.output.count(verdict) == 1, outcome.output


def _check_by_hand(app: str, layout: str, num_ranks: int | None) -> None:
    program = ("-m", "cluster_jobs.benchmarks.scaling.peers", app, layout)
    outcome = run(*program, "--check", *APPS[app].check, num_ranks=num_ranks)
    assert outcome.status == 0, f"{outcome.output}\n{outcome.errors}"
    verdict = "Verified: " if app in ROUNDED else "Verified: bit-identical to plain NumPy."
    assert outcome.output.count(verdict) >= 1, outcome.output


@pytest.mark.parametrize("app", APPS)
def test_the_same_kernel_launched_by_hand_in_one_process_computes_what_numpy_computes(app: str) -> None:
    _check_by_hand(app, "process", None)


@pytest.mark.several_gpus
@pytest.mark.parametrize("app", APPS)
def test_the_same_kernel_launched_by_hand_on_two_ranks_computes_what_numpy_computes(app: str) -> None:
    _check_by_hand(app, "rank", 2)
