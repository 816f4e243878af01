# SPDX-License-Identifier: MIT
"""Tells a rank from its children, which inherit the variables of the launcher, and are no ranks.

A child that starts MPI under these variables dies inside of MPI_Init, or takes the place of the rank. Therefore each
rank notes its process in its environment, with a digest of the launcher's variables: a launcher that the rank starts
gives its own ranks other ones.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The variable with the process of a rank.
NOTE: Final = "_CELERITY_RANK_PROCESS"
_NAME_AT_END: Final = "celerity-ended"  # also in start_watch.cpp
#: By them a launcher tells a process which rank it is, and of which job.
_VARIABLES: Final = (
    *("PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT", "PMI_ID", "PMIX_RANK", "PMIX_NAMESPACE", "PALS_RANKID"),
    *("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK", "FLUX_TASK_RANK"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID"),
)


def note_rank() -> None:
    """Let children of this process, which a launcher has started, know that they are no ranks."""
    if not is_child(os.environ):
        os.environ[NOTE] = f"{os.getpid()} {_digest(os.environ)} {_socket(os.environ)}"


def name_at_end() -> None:
    """Give this process another name when its program ends: it may stay in MPI_Finalize, for ranks that wait for it.

    `StartWatch` of other ranks sees the name.
    """
    owner = os.getpid()

    def rename() -> None:
        if os.getpid() == owner:
            with contextlib.suppress(OSError):
                Path("/proc/self/comm").write_text(_NAME_AT_END, encoding="ascii")

    atexit.register(rename)


def is_child(environment: Mapping[str, str]) -> bool:
    """Whether this process has the launcher's variables from a rank, its parent."""
    noted = environment.get(NOTE, "").split(" ")
    if len(noted) != len(("process", "digest", "socket")):
        return False
    process, digest, socket_of_rank = noted
    if process == str(os.getpid()) or digest != _digest(environment):
        return False
    return _socket(environment) in {socket_of_rank, "closed"}  # Python closes the files of a rank in its children


def is_cut_off(environment: Mapping[str, str]) -> bool:
    """Whether a program between the launcher and this process has closed the connection to the launcher."""
    return _socket(environment) == "closed" and not is_child(environment)


def _digest(environment: Mapping[str, str]) -> str:
    text = "\n".join(environment.get(name, "") for name in _VARIABLES)
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()


def _socket(environment: Mapping[str, str]) -> str:
    """The connection to the launcher of MPICH and of Slurm: "none", "closed", or its name."""
    file = environment.get("PMI_FD", "")
    if not file.isdecimal():
        return "none"
    try:
        name = str(Path(f"/proc/self/fd/{file}").readlink())
    except OSError:
        return "closed"
    return name if name.startswith("socket:") else "closed"
