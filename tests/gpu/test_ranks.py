# SPDX-License-Identifier: MIT
"""Programs in processes of their own: random ones, and such as call what stops a device while data is under way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failures.launching import Outcome
from tests.gpu.launching import run

pytestmark = pytest.mark.processes

PROGRAM = str(Path(__file__).with_name("rank_programs.py"))
SOME_SETTINGS: list[dict[str, str]] = [
    {},
    {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    {"CELERITY_SYNC": "1"},
    {"CELERITY_LOOKAHEAD": "none", "CELERITY_HORIZON_STEP": "1"},
]


def assert_success(outcome: Outcome) -> None:
    print(f"{outcome.duration_s:.1f} s\n{outcome.output[-2000:]}")
    assert outcome.status == 0, f"status {outcome.status}\n{outcome.output[-4000:]}\n{outcome.errors[-8000:]}"


def run_programs(count: int, seed: int, num_ranks: int | None, **variables: str) -> None:
    arguments = ["--programs", str(count), "--seed", str(seed), "--shrink-s", "30"]
    outcome = run(
        "-m", "tests.property.live_programs", *arguments, num_ranks=num_ranks, variables=variables, limit_s=400
    )
    assert_success(outcome)
    assert f"{count} programs" in outcome.output
    assert " 0 native kernels" not in outcome.output
    assert " 0 repeated submits" not in outcome.output


def test_random_programs_give_the_results_of_a_sequential_run(num_gpus: int) -> None:
    run_programs(200, 10_000 + 1000 * num_gpus, None, CELERITY_DEVICES=str(num_gpus))


@pytest.mark.parametrize("transport", ["host", "direct"])
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_random_programs_give_the_results_of_a_sequential_run_on_ranks(num_ranks: int, transport: str) -> None:
    run_programs(100, 20_000 + 1000 * num_ranks, num_ranks, CELERITY_TRANSPORT=transport)


@pytest.mark.parametrize("settings", SOME_SETTINGS[1:], ids=" ".join)
@pytest.mark.parametrize("num_ranks", [None, 2])
def test_random_programs_give_the_same_under_other_settings(num_ranks: int | None, settings: dict[str, str]) -> None:
    run_programs(40, 30_000, num_ranks, **settings)


@pytest.mark.parametrize("settings", SOME_SETTINGS, ids=lambda settings: " ".join(settings) or "default")
@pytest.mark.parametrize("transport", ["host", "direct"])
@pytest.mark.parametrize(
    "name", ["asynchronous", "synchronising_stream", "synchronising_device", "compiling", "freeing"]
)
def test_kernels_may_stop_their_device_while_data_is_under_way(
    name: str, transport: str, settings: dict[str, str]
) -> None:
    outcome = run(PROGRAM, name, num_ranks=2, variables={"CELERITY_TRANSPORT": transport, **settings}, limit_s=120)
    assert_success(outcome)
    assert outcome.output.count(" sent {") == 2


@pytest.mark.several_gpus
@pytest.mark.parametrize("name", ["asynchronous", "synchronising_device", "compiling"])
def test_a_rank_with_several_devices_exchanges_halos_with_others(name: str, num_gpus: int) -> None:
    assert_success(run(PROGRAM, name, num_ranks=2, variables={"CELERITY_DEVICES": str(num_gpus)}, limit_s=120))
