# SPDX-License-Identifier: MIT
"""Sweeps on a real Slurm: submitted, collected, repeated; and messages about jobs that go wrong."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster_jobs.slurm import launchers
from cluster_jobs.slurm.launchers import Processes

if TYPE_CHECKING:
    from tests.slurm.conftest import Cluster

APPLICATION = "cluster_jobs/apps/wave_sim.py"


def submission(folder: Path, number: str, file: str) -> Any:
    return json.loads((folder / "submissions" / number / file).read_text())


def results(folder: Path) -> dict[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in folder.glob("points/*/result.json")}


def wait_for_output(folder: Path) -> None:
    """Until the application was started."""
    deadline = time.monotonic() + 60
    while not list(folder.glob("points/*/attempts/*/stdout.txt")):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_a_sweep_leaves_a_table_and_a_plot_and_its_repetition_measures_only_what_is_missing(
    cluster: Cluster, tmp_path: Path
) -> None:
    shapes = ["--nodes", "1,2", "--devices-per-node", "1,2", "--layout", "device"]
    assert (
        "0 of 4 point(s) have a result, 0 are in the queue, 4 were submitted"
        in cluster.submit(tmp_path, *shapes).output
    )
    again = cluster.submit(tmp_path, *shapes).output
    assert "0 were submitted" in again, "jobs that wait or run are not submitted twice"

    status, output = cluster.wait(tmp_path)
    assert status == 0, output
    assert "4 point(s): 4 finished" in output
    assert "launcher: srun --mpi=pmi2 (checked)" in output
    jobs = submission(tmp_path, "001", "jobs.json")
    assert cluster.job_states(jobs["check"]) == ["COMPLETED"]
    assert [cluster.job_states(job) for job in jobs["arrays"].values()] == [["COMPLETED"]] * 4
    assert cluster.job_states(jobs["plot"]) == ["COMPLETED"]
    (log,) = tmp_path.glob(f"logs/*plot-{jobs['plot']}.txt")
    assert (tmp_path / "table.txt").read_text() in log.read_text(), "the dependent job has made the table"
    assert (tmp_path / "speedup.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "speedup.svg").read_text()
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert sorted((row["nodes"], row["devices"], row["ranks"], len(row["runs_us_per_step"])) for row in rows) == [
        (1, 1, 1, 1),
        (1, 2, 2, 1),
        (2, 2, 2, 1),
        (2, 4, 4, 1),
    ]

    before = results(tmp_path)
    damaged = tmp_path / "points" / "256-2x2-device-run0" / "result.json"
    damaged.write_bytes(damaged.read_bytes()[:200])  # as after a full disk
    damaged.with_name(".result.json.host.1.unfinished").write_text("{}")  # as after a kill
    status, output = cluster.tool("collect", "--folder", tmp_path)
    assert status == 1
    assert "256-2x2-device-run0 is missing" in output
    assert "is damaged or of another sweep" in output
    assert (
        "3 of 4 point(s) have a result, 0 are in the queue, 1 were submitted"
        in cluster.submit(tmp_path, *shapes).output
    )
    status, output = cluster.wait(tmp_path)
    assert status == 0, output
    after = results(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {"256-2x2-device-run0"}
    assert cluster.tool("collect", "--folder", tmp_path).status == 0

    status, output = cluster.submit(tmp_path, *shapes, "--steps", "21")
    assert status == 2
    assert "holds another sweep: steps was 20 and is now 21" in output
    assert results(tmp_path) == after


def test_a_sweep_is_extended_by_runs_in_arrays_and_by_the_other_layout(cluster: Cluster, tmp_path: Path) -> None:
    shapes = ["--nodes", "2", "--devices-per-node", "2"]
    cluster.submit(tmp_path, *shapes, "--layout", "node", "--repetitions", "2", "--at-once", "1")
    assert cluster.wait(tmp_path).status == 0
    (job,) = submission(tmp_path, "001", "jobs.json")["arrays"].values()
    assert cluster.job_states(job) == ["COMPLETED"] * 2
    output = cluster.submit(tmp_path, *shapes, "--layout", "node,device", "--launcher", "mpiexec").output
    assert "1 of 2 point(s) have a result, 0 are in the queue, 1 were submitted" in output
    status, output = cluster.wait(tmp_path)
    assert status == 0, output
    assert "3 point(s): 3 finished" in output
    assert "launcher: mpiexec (checked)" in output
    assert "different launchers" in cluster.tool("collect", "--folder", tmp_path).output


def test_a_job_that_fails_is_told_with_the_error_of_the_program(cluster: Cluster, tmp_path: Path) -> None:
    cluster.submit(tmp_path, "--nodes", "1", "--devices-per-node", "2", "--", "--no-such-argument")
    status, output = cluster.wait(tmp_path)
    assert status == 1
    assert "1 point(s): 1 failed" in output
    assert "unrecognized arguments: --no-such-argument" in output
    jobs = submission(tmp_path, "001", "jobs.json")
    assert [cluster.job_states(job) for job in jobs["arrays"].values()] == [["FAILED"]]
    assert cluster.job_states(jobs["check"]) == ["COMPLETED"]
    assert not results(tmp_path)
    (log,) = tmp_path.glob("logs/*plot-*.txt")
    assert "Nothing has a result yet" in log.read_text()
    status, output = cluster.tool("collect", "--folder", tmp_path)
    assert status == 1
    assert "256-1x2-device-run0 is missing (failed: wave_sim ended with status 2" in output


def test_a_job_that_runs_into_its_time_limit_is_told_and_leaves_no_result(cluster: Cluster, tmp_path: Path) -> None:
    cluster.submit(tmp_path, "--nodes", "1", "--devices-per-node", "2", "--steps", "100000000", "--time", "00:01:00")
    status, output = cluster.wait(tmp_path)
    assert status == 1
    assert "1 point(s): 1 time limit" in output
    assert "ran into its time limit" in output
    (job,) = submission(tmp_path, "001", "jobs.json")["arrays"].values()
    assert cluster.job_states(job) == ["TIMEOUT"]
    assert not results(tmp_path)
    (file,) = tmp_path.glob("points/*/attempts/*/status.json")
    assert json.loads(file.read_text())["state"] == "time limit", "told by the job itself, while Slurm still knew"
    assert "1 were submitted" in cluster.submit(
        tmp_path, "--nodes", "1", "--devices-per-node", "2", "--steps", "100000000", "--dry-run"
    ).output.replace("would be", "were"), "it would be tried again"


def test_a_launcher_that_does_not_fit_mpi_stops_the_sweep_before_it_begins(cluster: Cluster, tmp_path: Path) -> None:
    cluster.submit(tmp_path, "--nodes", "1,2", "--devices-per-node", "2", "--launcher", "srun --mpi=none")
    status, output = cluster.wait(tmp_path)
    assert status == 1
    assert "2 point(s): 2 cancelled" in output
    assert "srun --mpi=none: started 4 processes, but for MPI (MPICH" in output
    assert "each of them is alone: rank 0 of 1" in output
    assert "srun --mpi=pmi2 does: leave --launcher out, or name that one" in output
    jobs = submission(tmp_path, "001", "jobs.json")
    assert cluster.job_states(jobs["check"]) == ["FAILED"]
    assert [cluster.job_states(job) for job in jobs["arrays"].values()] == [["CANCELLED"]] * 2
    assert not list(tmp_path.glob("points/*/attempts/*")), "no point has begun"


def test_without_a_check_the_runtime_itself_finds_the_mismatch(cluster: Cluster, tmp_path: Path) -> None:
    cluster.submit(tmp_path, "--nodes", "2", "--launcher", "srun --mpi=none", "--no-check")
    status, output = cluster.wait(tmp_path)
    assert status == 1
    assert "1 point(s): 1 failed" in output
    assert "LaunchError: srun started 2 processes, but for MPI" in output
    assert not results(tmp_path)


def test_a_job_that_is_killed_without_warning_is_lost_and_can_be_repeated(cluster: Cluster, tmp_path: Path) -> None:
    endless = ["--nodes", "1", "--steps", "100000000"]
    cluster.submit(tmp_path, *endless)
    (job,) = submission(tmp_path, "001", "jobs.json")["arrays"].values()
    wait_for_output(tmp_path)
    assert "1 point(s): 1 running" in cluster.tool("status", "--folder", tmp_path).output
    assert cluster.run("scancel", "--batch", "--signal=KILL", f"{job}_0").status == 0
    status, output = cluster.wait(tmp_path)
    assert status == 1
    assert "1 point(s): 1 lost" in output
    (file,) = tmp_path.glob("points/*/attempts/*/status.json")
    assert json.loads(file.read_text())["state"] == "running", "it could not say a word"
    assert "1 would be submitted" in cluster.submit(tmp_path, *endless, "--dry-run").output


def test_a_job_that_is_cancelled_says_so(cluster: Cluster, tmp_path: Path) -> None:
    cluster.submit(tmp_path, "--nodes", "2", "--steps", "100000000")
    (job,) = submission(tmp_path, "001", "jobs.json")["arrays"].values()
    wait_for_output(tmp_path)
    assert cluster.run("scancel", job).status == 0
    status, output = cluster.wait(tmp_path)
    assert status == 1
    assert "1 point(s): 1 cancelled" in output
    assert not results(tmp_path)


@pytest.mark.parametrize(("script", "per_node", "devices"), [("rank_per_gpu", 2, 1), ("rank_per_node", 1, 2)])
def test_the_scripts_run_any_program_on_all_ranks(
    cluster: Cluster, tmp_path: Path, script: str, per_node: int, devices: int
) -> None:
    log = tmp_path / "log.txt"
    resources = ["--nodes=2", f"--ntasks-per-node={per_node}", "--cpus-per-task=2", "--gpus-per-node=0", "--time=5"]
    program = ["python", APPLICATION, "--size", "130", "--steps", "20", "--verify"]
    outcome = cluster.run(
        "sbatch",
        "--wait",
        f"--output={log}",
        *resources,
        f"cluster_jobs/slurm/{script}.sbatch",
        *program,
        CELERITY_DEVICES=f"cpu:{devices}",
    )
    output = log.read_text()
    assert outcome.status == 0, output
    assert "srun --mpi=pmi2: connects all ranks" in output
    assert f"{2 * per_node} rank(s)" in output
    assert "Verified: bit-identical" in output


def test_each_rank_sees_all_gpus_of_its_node_unless_slurm_divides_them(cluster: Cluster) -> None:
    def seen(launcher: str) -> dict[int, tuple[str, str]]:
        words = launchers.command(launcher, Processes(2, 2, 2), "MPICH")
        outcome = cluster.run(*words, sys.executable, "-m", "cluster_jobs.slurm.rank_report")
        assert outcome.status == 0, outcome.output
        reports = json.loads(outcome.output[outcome.output.index('{"ranks"') :])["ranks"]
        return {report["rank"]: (report["node"], report["cuda_visible_devices"]) for report in reports}

    together = seen("srun --mpi=pmi2 --gpus-per-node=2")
    assert together == {0: ("n1", "0,1"), 1: ("n1", "0,1"), 2: ("n2", "0,1"), 3: ("n2", "0,1")}
    divided = seen("srun --mpi=pmi2 --gpus-per-node=2 --gpus-per-task=1")
    assert sorted(divided.values()) == [("n1", "0"), ("n1", "1"), ("n2", "0"), ("n2", "1")]
