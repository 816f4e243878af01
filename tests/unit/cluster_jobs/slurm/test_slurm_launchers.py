# SPDX-License-Identifier: MIT
"""Choosing a launcher, and judging what its ranks report, without Slurm."""

from __future__ import annotations

from typing import Any

import pytest

from celerity_py.tools.cli.launchers import Mpi, candidates, first_status, last_words, parse_interfaces
from cluster_jobs.slurm.launchers import Processes, Trial, check_launcher_name, command, explain, judge

NEW = """MPI plugin types are...
\tpmix
\tnone
\tcray_shasta
\tpmi2
specific pmix plugin versions available: pmix_v4
"""
OLD = "srun: MPI types are...\nsrun: none\nsrun: openmpi\nsrun: pmi2\n"
MPICH = "MPICH 5.0.2"


@pytest.mark.parametrize(
    ("text", "names"),
    [(NEW, {"pmix", "none", "cray_shasta", "pmi2", "pmix_v4"}), (OLD, {"none", "openmpi", "pmi2"}), ("", set())],
    ids=["new", "old", "none"],
)
def test_the_interfaces_of_srun_are_read_from_its_list(text: str, names: set[str]) -> None:
    assert parse_interfaces(text) == names


@pytest.mark.parametrize(
    ("vendor", "interfaces", "expected"),
    [
        ("MPICH", {"pmix", "none", "pmi2"}, ["srun --mpi=pmi2", "srun --mpi=pmix", "/opt/mpiexec"]),
        ("Open MPI", {"pmix", "none", "pmi2"}, ["srun --mpi=pmix", "srun --mpi=pmi2", "/opt/mpiexec"]),
        ("Open MPI", {"pmix_v3", "pmix_v4", "none"}, ["srun --mpi=pmix_v4", "/opt/mpiexec"]),
        ("MPICH", {"none"}, ["/opt/mpiexec"]),
        ("Something else", {"pmi2", "pmix"}, ["srun --mpi=pmix", "srun --mpi=pmi2", "/opt/mpiexec"]),
    ],
)
def test_what_speaks_with_the_library_is_tried_first_and_none_never(
    vendor: str, interfaces: set[str], expected: list[str]
) -> None:
    assert candidates(vendor, interfaces, "/opt/mpiexec") == expected


def test_srun_is_told_how_many_ranks_each_node_gets_and_how_many_cores_each_rank() -> None:
    words = command("srun --mpi=pmi2", Processes(2, 4, 8), "MPICH")
    assert words[:2] == ["srun", "--mpi=pmi2"]
    assert {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=8", "--kill-on-bad-exit=1"} <= set(words)
    assert not [word for word in words if "gpu" in word], "each rank sees all GPUs of its node"


def test_mpiexec_is_told_the_same_in_the_words_of_its_library() -> None:
    assert command("mpiexec", Processes(2, 4), "MPICH") == ["mpiexec", "-n", "8", "-ppn", "4"]
    words = command("/opt/mpirun -v", Processes(2, 4), "Open MPI")
    assert words == ["/opt/mpirun", "-v", "-n", "8", "--map-by", "ppr:4:node", "--bind-to", "none"]


@pytest.mark.parametrize("launcher", ["jsrun", "", "python"])
def test_a_launcher_whose_options_are_unknown_is_refused(launcher: str) -> None:
    with pytest.raises(ValueError, match="srun, mpiexec or mpirun"):
        check_launcher_name(launcher)


def ranks(*nodes: str, gpus: list[list[str]] | None = None, cpus: int = 8) -> list[dict[str, Any]]:
    return [
        {
            "rank": rank,
            "node": node,
            "gpus": gpus[rank] if gpus else [],
            "cuda_visible_devices": None,
            "cpus": cpus,
        }
        for rank, node in enumerate(nodes)
    ]


def test_ranks_that_have_found_each_other_on_all_nodes_are_good() -> None:
    assert judge([ranks("a", "a", "b", "b")], Processes(2, 2), MPICH) == ""


def test_processes_that_are_alone_are_told_as_such() -> None:
    problem = judge([ranks("a")] * 4, Processes(2, 2), MPICH)
    assert "started 4 processes, but for MPI (MPICH 5.0.2) each of them is alone" in problem


@pytest.mark.parametrize(
    ("worlds", "problem"),
    [
        ([], "its ranks have not reported"),
        ([ranks("a", "b")], "gave 2 rank(s) instead of 4"),
        ([ranks("a", "b"), ranks("a", "b")], "gave 2 rank(s) instead of 4"),
        ([ranks("a", "a", "a", "b")], "spread the ranks as 3 on a, 1 on b instead of 2 on each of 2 node(s)"),
        ([ranks("a", "a", "a", "a")], "spread the ranks as 4 on a"),
    ],
    ids=["silence", "too few", "two worlds", "uneven", "one node"],
)
def test_what_is_wrong_with_the_ranks_is_said_in_numbers(worlds: list[list[dict[str, Any]]], problem: str) -> None:
    assert problem in judge(worlds, Processes(2, 2), MPICH)


@pytest.mark.parametrize(
    ("gpus", "problem"),
    [
        ([["g0", "g1"], ["g0", "g1"]], ""),
        ([["g0"], ["g1"]], ""),
        ([["g0"], ["g0"]], "shows 1 GPU(s) on a to its ranks instead of the same 2 to all"),
        ([["g0", "g1"], ["g1"]], "instead of the same 2 to all"),
        ([["g0", "g1"], []], "left a rank on a without a GPU"),
        ([["g0", "g1", "g2"], ["g0", "g1", "g2"]], "shows 3 GPU(s)"),
    ],
    ids=["all see all", "divided", "the same one", "overlapping", "none", "too many"],
)
def test_gpus_must_be_shown_all_to_all_or_divided_evenly(gpus: list[list[str]], problem: str) -> None:
    found = judge([ranks("a", "a", gpus=gpus)], Processes(1, 2, gpus_per_node=2), MPICH)
    assert problem in found
    assert bool(problem) == bool(found)


def test_gpus_of_different_nodes_may_have_the_same_names() -> None:
    assert judge([ranks("a", "b", gpus=[["g0"], ["g0"]])], Processes(2, 1, gpus_per_node=1), MPICH) == ""


def test_somebody_who_named_an_unfit_launcher_is_told_which_one_would_do() -> None:
    mpi = Mpi("MPICH", "5.0.2")
    text = explain(mpi, [Trial("srun --mpi=none", "is bad"), Trial("srun --mpi=pmi2", "")], "srun --mpi=none")
    assert text.splitlines() == [
        "srun --mpi=none: is bad",
        "srun --mpi=pmi2: connects all ranks",
        "srun --mpi=none does not fit MPICH 5.0.2; srun --mpi=pmi2 does: leave --launcher out, or name that one.",
    ]
    assert "No launcher connects the ranks" in explain(mpi, [Trial("mpiexec", "is bad")], None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Traceback (innermost last):\n  File x\nLaunchError: alone\nAbort(1) on node 0\nsrun: error: Exited\n",
            "LaunchError: alone",
        ),
        (
            "rank 2: CommunicationError: silence\nrank 2: the job ends in 3 s\nslurmstepd-n1: error: *\n",
            "rank 2: CommunicationError: silence",
        ),
        (
            "usage: wave_sim.py\nwave_sim.py: error: unrecognized arguments: -x\n",
            "wave_sim.py: error: unrecognized arguments: -x",
        ),
        (
            "srun: error: JobId=15 failed to distribute tasks\nsrun: Job step aborted\n",
            "srun: error: JobId=15 failed to distribute tasks",
        ),
        ("Killed\n", "Killed"),
        ("\n\n", "it has said nothing"),
    ],
)
def test_the_line_that_says_why_is_found_among_those_of_launchers(text: str, said: str) -> None:
    assert last_words(text) == said


@pytest.mark.parametrize(
    ("status", "errors", "first"),
    [
        (
            143,
            "srun: error: c1: task 1: Exited with exit code 143\nsrun: error: c0: task 0: Exited with exit code 2\n",
            2,
        ),
        (143, "Traceback\nsrun: error: c0: task 0: Exited with exit code 2\nsrun: error: c1: task 1: Terminated\n", 2),
        (137, "srun: error: c0: tasks 0-3: Exited with exit code 1\nsrun: error: c1: task 4: Killed\n", 1),
        (143, "srun: error: c1: task 1: Exited with exit code 143\n", 143),
        (2, "usage: wave_sim", 2),
        (0, "", 0),
    ],
)
def test_the_status_is_that_of_the_task_that_has_failed_and_not_of_those_that_srun_has_ended(
    status: int, errors: str, first: int
) -> None:
    assert first_status(status, errors) == first
