# SPDX-License-Identifier: MIT
"""Commands of `celerity-py` on GPUs."""

from __future__ import annotations

import json

from tests.gpu.launching import REPOSITORY, run


def test_info_names_the_driver_and_the_gpus_of_each_rank() -> None:
    outcome = run("-m", "celerity_py", "info", "--json")
    assert outcome.status == 0, outcome.errors
    told = json.loads(outcome.output)
    (rank,) = told["ranks"]
    assert rank["devices"].startswith("GPU 0 (")
    assert rank["why_no_gpus"] == ""
    assert "multiprocessors: queues may have a share of " in rank["multiprocessors"][0]
    assert any(gpu["name"] in rank["devices"] and gpu["driver_version"] for gpu in told["gpus"]["host"])
    assert told["software"]["CuPy"] != "not installed"


def test_the_demo_agrees_with_numpy() -> None:
    outcome = run("-m", "celerity_py", "demo")
    assert outcome.status == 0, outcome.output + outcome.errors
    assert "GPU(s) each." in outcome.output
    assert "Verified: " in outcome.output


def test_a_rank_computes_in_the_live_view() -> None:
    # Nobody computes it with NumPy as well, which would take minutes.
    program = str(REPOSITORY / "cluster_jobs" / "apps" / "wave_sim.py")
    outcome = run(program, "--size", "8192", "--steps", "40000", variables={"CELERITY_LIVE": "1"})
    assert outcome.status == 0, outcome.output + outcome.errors
    assert "   computing   " in outcome.errors
