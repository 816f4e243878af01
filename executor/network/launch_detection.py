# SPDX-License-Identifier: MIT
"""Whether this run has several ranks, told by the environment before MPI is touched.

The environment only says *that* a launcher started us and how many it meant to start; ranks always come from MPI:
SLURM_PROCID and its like describe hydra's proxy when mpiexec runs inside a batch job, not the rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from celerity_py.executor.network import rank_process

if TYPE_CHECKING:
    from collections.abc import Mapping

# Variables with the number of processes; the first that is set counts. Slurm's comes last: inside an srun or a batch
# job another launcher may have started us.
_SIZE_VARIABLES: Final = (
    ("mpirun (PRRTE)", "OMPI_COMM_WORLD_SIZE"),
    ("mpirun (MVAPICH)", "MV2_COMM_WORLD_SIZE"),
    ("jsrun", "JSM_NAMESPACE_SIZE"),
    ("mpiexec or srun with PMI", "PMI_SIZE"),
    ("flux", "FLUX_JOB_SIZE"),
)
# Set by launchers that tell the size only through their library.
_PRESENCE_VARIABLES: Final = (
    ("a launcher with PMIx", "PMIX_RANK"),
    ("a launcher with PMI", "PMI_RANK"),
    ("Cray PALS", "PALS_RANKID"),
)
# Variables with the rank, and with the number of processes on the same host where there is one. The first that is set
# counts.
_RANK_VARIABLES: Final = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "MPI_LOCALNRANKS"),
    ("PMIX_RANK", ""),
    ("PALS_RANKID", ""),
    ("SLURM_PROCID", ""),
)


class Place(NamedTuple):
    """The place of this process among those of its launcher, from the environment, before MPI starts."""

    variable: str
    rank: int
    is_one_host: bool  # all processes are on this host


class Launch(NamedTuple):
    """The launcher, from the environment."""

    launcher: str | None  # None: started without one
    size: int | None  # how many processes it started; None: it does not say


def detect_launch(environment: Mapping[str, str]) -> Launch:
    """Find out whether a launcher started this process, and as one of how many. A child of a rank is on its own."""
    if rank_process.is_child(environment):
        return Launch(None, None)
    for launcher, variable in _SIZE_VARIABLES:
        if environment.get(variable, "").isdecimal():
            return Launch(launcher, int(environment[variable]))
    # A batch script has SLURM_NTASKS too, but it is one process and no task of a step.
    if environment.get("SLURM_STEP_ID", "").isdecimal() and environment.get("SLURM_STEP_NUM_TASKS", "").isdecimal():
        return Launch("srun", int(environment["SLURM_STEP_NUM_TASKS"]))
    for launcher, variable in _PRESENCE_VARIABLES:
        if variable in environment:
            return Launch(launcher, None)
    return Launch(None, None)


def find_place(environment: Mapping[str, str]) -> Place | None:
    """Find out which of the started processes this is; None without a launcher, or if it does not say."""
    launch = detect_launch(environment)
    for variable, local_size in _RANK_VARIABLES:
        if launch.launcher is not None and environment.get(variable, "").isdecimal():
            is_one_host = launch.size is not None and environment.get(local_size) == str(launch.size)
            return Place(variable, int(environment[variable]), is_one_host)
    return None
