# SPDX-License-Identifier: MIT
"""Jobs that end before their program does, and go on from its checkpoint."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import celerity_py as celerity
from celerity_py.io.checkpoints import steps_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.slurm.conftest import Cluster

SMALL = {"wave_sim": ("--size", "64"), "nbody": ("--bodies", "64")}
# Slurm's pmi2 now and then garbles the addresses of MPICH's other network, and the ranks do not start.
ON_CPUS = {"CELERITY_BACKEND": "cpu", "CELERITY_DEVICES": "cpu:1", "MPIR_CVAR_CH4_NETMOD": "ofi"}
ENDLESS = 10_000_000


def program(app: str, folder: Path, steps: int, every: int = 2) -> list[str]:
    place = ("--steps", str(steps), "--checkpoint", str(folder), "--checkpoint-every", str(every))
    return [sys.executable, f"cluster_jobs/apps/{app}.py", *SMALL[app], *place]


def submit(cluster: Cluster, script: str, log: Path, shape: tuple[int, int], *command: str, minutes: int = 1) -> str:
    nodes, per_node = shape
    options = (f"--nodes={nodes}", f"--ntasks-per-node={per_node}", "--gpus-per-node=0", "--cpus-per-task=1")
    place = (f"--output={log}", f"--time={minutes}", "--parsable", f"cluster_jobs/slurm/{script}.sbatch")
    status, output = cluster.run("sbatch", *options, *place, *command, **ON_CPUS)
    assert status == 0, output
    return output.strip()


def wait_for(condition: Callable[[], bool], limit_s: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def wait_for_state(cluster: Cluster, job: str, state: str, log: Path, limit_s: float = 100) -> None:
    wait_for(
        lambda: cluster.job_states(job) == [state], limit_s, lambda: f"{cluster.job_states(job)} {log.read_text()}"
    )


def state_of(folder: Path, step: int) -> dict[str, bytes]:
    with celerity.Queue() as queue:
        restored = celerity.restore(folder, step=step)
        return {name: queue.fence(buffer).result().tobytes() for name, buffer in restored.items()}


def test_jobs_that_their_time_limit_ends_go_on_on_other_ranks_to_the_same_bits(
    cluster: Cluster, tmp_path: Path
) -> None:
    logs = {app: tmp_path / f"{app}.log" for app in SMALL}
    killed = {
        app: submit(cluster, "rank_per_node", logs[app], (2, 1), *program(app, tmp_path / app, ENDLESS))
        for app in SMALL
    }
    for app, job in killed.items():
        wait_for_state(cluster, job, "TIMEOUT", logs[app], 200)
    for app in SMALL:
        done = max(steps_in(tmp_path / app))
        last = done + 6
        job = submit(cluster, "rank_per_node", logs[app], (1, 3), *program(app, tmp_path / app, last))
        wait_for_state(cluster, job, "COMPLETED", logs[app])
        status, output = cluster.run(*program(app, tmp_path / f"{app} undisturbed", last, last), **ON_CPUS)
        assert status == 0, output
        assert done > 2
        assert state_of(tmp_path / app, last) == state_of(tmp_path / f"{app} undisturbed", last)


def test_a_job_that_gets_a_signal_is_queued_again_until_its_program_is_done(cluster: Cluster, tmp_path: Path) -> None:
    folder, log = tmp_path / "waves", tmp_path / "log"
    command = (*program("wave_sim", folder, 1000), "--verify")
    job = submit(cluster, "checkpointed", log, (2, 1), *command, minutes=10)  # Slurm would send the signal of 1 at once
    wait_for(lambda: bool(steps_in(folder)), 60, log.read_text)
    cluster.run("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: "Restarts=1" in cluster.run("scontrol", "show", "job", job).output, 60, log.read_text)
    stopped = re.search(r"Stopped after (\d+) of 1000 steps", log.read_text())
    assert stopped, log.read_text()
    wait_for_state(cluster, job, "COMPLETED", log)
    assert "Verified: bit-identical" in log.read_text()
    assert max(steps_in(folder)) == 1000 > int(stopped[1])
