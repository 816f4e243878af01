# SPDX-License-Identifier: MIT
"""`celerity-py run`: the launch of programs, and the cores of their ranks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from celerity_py.tools.cli import bind_rank
from celerity_py.tools.cli.run import choose_launch
from celerity_py.tools.cli.words import CommandError
from tests.failures.launching import run
from tests.support.command_lines import command_line

PROGRAM = (
    "import sys, celerity_py as c\nwith c.Queue(): print(c.rank(), c.size(), *sys.argv[1:])\nsys.exit(int(sys.argv[1]))"
)


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_run_starts_the_ranks_and_passes_arguments_and_the_exit_status(tmp_path: Path, num_ranks: int) -> None:
    program = tmp_path / "app.py"
    program.write_text(PROGRAM)
    outcome = command_line("run", "-n", str(num_ranks), str(program), "3", "--size", "-n", CELERITY_BACKEND="cpu")
    assert outcome.status == 3, outcome.errors
    expected = [f"{rank} {num_ranks} 3 --size -n" for rank in range(num_ranks)]
    assert sorted(outcome.output.splitlines()) == expected


def test_run_takes_a_module() -> None:
    outcome = command_line("run", "-n", "2", "-m", "celerity_py", "demo", "--size", "32", "--steps", "4")
    assert outcome.status == 0, outcome.errors
    assert "2 rank(s)" in outcome.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-n", "2"), "no program is given. Name a file, such as app.py, or a module with -m."),
        (("-n", "2", "nowhere.py"), "there is no file nowhere.py."),
        (("-n", "2", "--launcher", "'", "-m", "this"), "--launcher=' is not understood: no closing quotation."),
        (("-n", "2", "--launcher", " ", "-m", "this"), "--launcher names no command, such as 'mpiexec -f hosts'."),
        (
            ("-n", "2", "--launcher", "no-such-launcher", "-m", "this"),
            "no-such-launcher cannot be started: No such file",
        ),
    ],
)
def test_run_says_what_it_lacks(words: tuple[str, ...], text: str) -> None:
    outcome = command_line("run", *words)
    assert outcome.status == 1
    assert outcome.errors.startswith(f"celerity-py run: {text}")


def test_run_counts_ranks_from_one() -> None:
    outcome = command_line("run", "-n", "0", "app.py")
    assert outcome.status == 2
    assert "argument -n: expected an integer from 1 on, not '0'" in outcome.errors


def test_run_is_refused_below_a_launcher() -> None:
    with pytest.raises(CommandError, match="has started this process as one of 4"):
        choose_launch(2, {"PMI_SIZE": "4", "PMI_RANK": "0"})


def test_one_rank_needs_no_launcher() -> None:
    assert choose_launch(1, {}).words == []


def _fake_srun(folder: Path, offered: str) -> None:
    srun = folder / "srun"
    srun.write_text(f"#!/bin/sh\necho 'MPI plugin types are...'\nfor name in {offered}; do echo \"\t$name\"; done\n")
    srun.chmod(0o755)


def test_in_a_slurm_job_srun_starts_equal_numbers_of_ranks_on_all_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_srun(tmp_path, "none pmi2 pmix")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "64"}
    launch = choose_launch(8, job)
    assert launch.words[0] == "srun"
    assert launch.words[2:] == [
        *("--ntasks=8", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=16"),
        "--cpu-bind=cores",
    ]
    assert launch.reason.startswith("Slurm job 7, whose srun speaks with ")
    in_a_step = {**job, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    assert "--overlap" in choose_launch(8, in_a_step).words
    assert "--nodes=1" in choose_launch(1, job).words


def test_an_srun_that_does_not_speak_with_the_library_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_srun(tmp_path, "none")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    launch = choose_launch(2, {"SLURM_JOB_ID": "7"})
    assert Path(launch.words[0]).name == "mpiexec"
    assert "does not speak with" in launch.reason


# ---- the binding of ranks


def _write_topology(folder: Path, places: list[tuple[int, int]]) -> None:
    for processor, (socket, core) in enumerate(places):
        topology = folder / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
        (topology / "core_id").write_text(f"{core}\n")


def test_hardware_threads_of_a_core_and_cores_of_a_socket_stay_together(tmp_path: Path) -> None:
    # Two sockets with four cores each; the second threads of all cores come behind the first ones.
    places = [(processor % 2, processor // 2) for processor in range(8)]
    _write_topology(tmp_path, 2 * places)
    cores = bind_rank.cores_of_host(set(range(16)), tmp_path)
    assert cores == [[0, 8], [2, 10], [4, 12], [6, 14], [1, 9], [3, 11], [5, 13], [7, 15]]
    assert bind_rank.share_of(cores, 0, 2) == {0, 2, 4, 6, 8, 10, 12, 14}
    assert bind_rank.share_of(cores, 1, 2) == {1, 3, 5, 7, 9, 11, 13, 15}
    assert bind_rank.share_of(cores, 1, 3) == set(range(16)), "with two or three cores each, ranks share all"
    assert bind_rank.cores_of_host({2, 6, 10}, tmp_path) == [[2, 10], [6]]
    assert bind_rank.cores_of_host({4, 5}, tmp_path / "nowhere") == [[4], [5]]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7])
def test_each_core_belongs_to_one_rank(num_ranks: int) -> None:
    cores = [[number] for number in range(24)]
    shares = [bind_rank.share_of(cores, place, num_ranks) for place in range(num_ranks)]
    assert sorted(processor for share in shares for processor in share) == list(range(24))
    assert min(map(len, shares)) >= 24 // num_ranks


def test_a_rank_becomes_its_program_on_its_cores() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    code = (
        "from celerity_py.tools.cli import bind_rank; import sys; bind_rank.LEAST_CORES = 1; "
        "bind_rank.main([sys.executable, '-c', 'import os; print(sorted(os.sched_getaffinity(0)))'])"
    )
    shares = []
    for rank in range(2):
        place = {"MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "2"}
        outcome = run(None, sys.executable, "-c", code, variables=place)
        shares += json.loads(outcome.output)
    if len(bind_rank.cores_of_host(set(allowed))) > 1:
        assert sorted(shares) == allowed
    else:
        assert shares == 2 * allowed
