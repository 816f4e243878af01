# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from celerity_py.executor.network import rank_process
from celerity_py.executor.network.launch_detection import Launch, Place, detect_launch, find_place
from celerity_py.executor.network.local_communicator import LocalCommunicator


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        ({}, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, 4),
        ({"OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "0"}, 2),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "3"}, 8),
    ],
    ids=["none", "hydra", "openmpi", "srun"],
)
def test_the_number_of_started_processes_is_read_from_the_launchers_variables(
    environment: dict[str, str], size: int | None
) -> None:
    assert detect_launch(environment).size == size


def test_a_batch_script_is_one_process_although_slurm_counts_the_tasks_of_the_job() -> None:
    batch = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    assert detect_launch(batch) == Launch(None, None)


def test_hydra_inside_a_batch_job_is_believed_over_slurms_step_which_describes_its_proxies() -> None:
    proxy = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
    assert detect_launch({**proxy, "PMI_RANK": "3", "PMI_SIZE": "4"}).size == 4


def test_a_launcher_that_tells_no_size_is_still_a_launcher() -> None:
    launch = detect_launch({"PMIX_RANK": "0"})
    assert launch.launcher is not None
    assert launch.size is None


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}, Place("PMI_RANK", 1, is_one_host=True)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"}, Place("PMI_RANK", 1, is_one_host=False)),
        ({"PMIX_RANK": "0"}, Place("PMIX_RANK", 0, is_one_host=False)),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, None),
    ],
    ids=["none", "hydra", "hydra on two hosts", "pmix", "batch script"],
)
def test_the_rank_is_read_from_the_launchers_variables_before_mpi_tells_it(
    environment: dict[str, str], place: Place | None
) -> None:
    assert find_place(environment) == place


RANK = {"PMIX_RANK": "1", "PMIX_NAMESPACE": "job.0", "SLURM_PROCID": "1"}


@pytest.mark.parametrize(
    ("changed", "is_child"),
    [
        ({}, True),
        ({"PMIX_NAMESPACE": "job.1"}, False),
        ({"PMIX_RANK": "0"}, False),
        ({"PMI_FD": "999", "PMI_RANK": "1"}, False),
    ],
    ids=["the same", "another job", "another rank", "another launcher"],
)
def test_a_child_of_a_rank_is_known_by_the_variables_that_it_shares_with_it(
    changed: dict[str, str], is_child: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in RANK.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv(rank_process.NOTE, raising=False)
    monkeypatch.delenv("PMI_FD", raising=False)
    rank_process.note_rank()
    assert not rank_process.is_child(os.environ)
    parent = str(os.getppid())
    noted = os.environ[rank_process.NOTE].replace(str(os.getpid()), parent, 1)
    environment = {**os.environ, rank_process.NOTE: noted, **changed}
    assert rank_process.is_child(environment) == is_child
    assert (detect_launch(environment) == Launch(None, None)) == is_child


def test_a_process_without_the_connection_of_its_launcher_is_refused() -> None:
    environment = bare_environment() | {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "999"}
    code = "import celerity_py as c; c.Queue()"
    result = subprocess.run(
        [sys.executable, "-c", code], check=False, env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1
    assert "LaunchError" in result.stderr
    assert "close_fds=False" in result.stderr


def bare_environment() -> dict[str, str]:
    """Without the variables of a launcher, but with those that a sanitized extension needs to be loaded."""
    kept = {name: os.environ[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS", "TSAN_OPTIONS") if name in os.environ}
    return {"PYTHONPATH": os.pathsep.join(sys.path), **kept}


def test_without_a_launcher_there_is_one_rank_and_mpi_is_not_imported() -> None:
    program = (
        "import sys\n"
        "from celerity_py.executor.network.communicator_choice import make_communicator\n"
        "assert make_communicator().size == 1\n"
        "assert 'mpi4py.MPI' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=bare_environment())


def test_a_launcher_without_mpi4py_is_an_error_that_names_what_to_install() -> None:
    program = (
        "import sys\n"
        "sys.modules['mpi4py'] = None\n"
        "sys.modules['mpi4py.MPI'] = None\n"
        "from celerity_py.executor.network.communicator_choice import make_communicator\n"
        "make_communicator()\n"
    )
    environment = bare_environment() | {"PMI_SIZE": "3", "PMI_RANK": "0"}
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=60, env=environment, capture_output=True, text=True
    )
    assert result.returncode != 0
    assert "LaunchError" in result.stderr
    assert "one of 3 processes" in result.stderr
    assert "pip install 'mpi4py" in result.stderr


def mpi_vendor() -> str:
    """The MPI that mpi4py finds, asked in another process: it stays away from this one."""
    program = "import mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\nprint(MPI.get_vendor()[0])"
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, env=bare_environment(), capture_output=True, text=True
    )
    return result.stdout.strip()


def test_processes_that_are_alone_in_mpi_although_several_were_started_are_an_error() -> None:
    if mpi_vendor() == "Open MPI":
        pytest.skip("Open MPI ends processes that srun has started without PMIx, before anybody can ask it")
    program = "from celerity_py.executor.network.communicator_choice import make_communicator\nmake_communicator()\n"
    environment = bare_environment() | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=60, env=environment, capture_output=True, text=True
    )
    assert result.returncode != 0
    assert "LaunchError: srun started 2 processes" in result.stderr
    assert "--mpi=pmi2" in result.stderr


def test_the_local_communicator_settles_once() -> None:
    communicator = LocalCommunicator()
    communicator.settle(7)
    assert communicator.poll().settled == [7]
    assert communicator.poll().settled == []
