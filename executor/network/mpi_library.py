# SPDX-License-Identifier: MIT
"""`MPI` of mpi4py, finalised by the process that has initialised it, and by none that is forked from it.

mpi4py by itself calls MPI_Finalize at the exit of forked children as well. The launcher then takes the child for the
rank, and ends the job. If the program has imported `mpi4py.MPI` before, it stays so.
"""

from __future__ import annotations

import sys

import mpi4py

from celerity_py.executor.interpreter_settings import register_exit_hook

_is_ours = "mpi4py.MPI" not in sys.modules and mpi4py.rc.initialize and mpi4py.rc.finalize is None
if _is_ours:
    mpi4py.rc.finalize = False

from mpi4py import MPI  # noqa: E402 - reads the setting above


def _finalize() -> None:
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


if _is_ours:
    register_exit_hook(_finalize, is_last=True)

__all__ = ["MPI"]
