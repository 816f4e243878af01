# SPDX-License-Identifier: MIT
"""`MPI` of mpi4py, finalised by the process that has initialised it, and by none that is forked from it.

mpi4py by itself calls MPI_Finalize at the exit of forked children as well. The launcher then takes the child for the
rank, and ends the job. If the program has imported `mpi4py.MPI` before, it stays so.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import mpi4py

from celerity_py.executor.interpreter_settings import register_exit_hook
from celerity_py.scheduler.errors import LaunchError

_is_ours = "mpi4py.MPI" not in sys.modules and mpi4py.rc.initialize and mpi4py.rc.finalize is None
if _is_ours:
    mpi4py.rc.finalize = False
# MPICH aborts in MPI_Init, in words of its own, if the launcher speaks PMIx and the library does not.
_must_ask = _is_ours and "PMIX_RANK" in os.environ and not {"PMI_RANK", "PMI_FD"} & os.environ.keys()
if _must_ask:
    mpi4py.rc.initialize = False

from mpi4py import MPI  # noqa: E402 - reads the settings above

_PMIX = b"\0PMIx_Init\0"  # a symbol of each library that speaks PMIx


def _check_pmix() -> None:
    vendor, version = MPI.get_vendor()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    libraries = sorted(set(re.findall(r"/\S*/libmpi[^/\s]*", maps)))
    if vendor == "Open MPI" or not libraries or any(_PMIX in Path(name).read_bytes() for name in libraries):
        return
    raise LaunchError(
        f"A launcher with PMIx started this program as rank {os.environ['PMIX_RANK']}, and {vendor} "
        f"{'.'.join(map(str, version))} ({libraries[0]}) does not speak PMIx. Use the mpiexec that belongs to the "
        f"library (look in {Path(sys.prefix, 'bin')}), with Slurm `srun --mpi=pmi2`, or an mpi4py on the MPI of the "
        f"launcher. A single process needs no launcher: remove PMIX_RANK."
    )


if _must_ask:
    _check_pmix()
    mpi4py.rc.initialize = True
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_MULTIPLE)


def _finalize() -> None:
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


if _is_ours:
    register_exit_hook(_finalize, is_last=True)

__all__ = ["MPI"]
