# SPDX-License-Identifier: MIT
"""The launchers that fit the MPI library and the place where a program starts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from celerity_py.scheduler.errors import LaunchError

# The protocols between Slurm and a library, best first. The names of `srun --mpi=list` may have a version behind them.
_INTERFACES = {
    "MPICH": ("pmi2", "cray_shasta", "pmix"),
    "MVAPICH": ("pmi2", "pmix"),
    "Intel MPI": ("pmi2", "pmix"),
    "Open MPI": ("pmix", "pmi2"),
}
_ANY_INTERFACE = ("pmix", "pmi2")
_ASK_MPI = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "vendor, version = MPI.get_vendor(); print(vendor, '.'.join(map(str, version)), sep='|')"
)
_ASK_LIMIT_S = 90.0  # a shared file system may be slow


@dataclass(frozen=True)
class Mpi:
    """The library that mpi4py finds."""

    vendor: str
    version: str

    @property
    def label(self) -> str:
        """For messages."""
        return f"{self.vendor} {self.version}"


def find_mpi() -> Mpi:
    """Ask for the library in another process: it stays away from this one.

    Raises:
        LaunchError: If mpi4py finds none; with its message.
    """
    result = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _ASK_MPI], capture_output=True, text=True, timeout=_ASK_LIMIT_S, check=False
    )
    if result.returncode != 0:
        raise LaunchError(
            f"mpi4py of {sys.executable} finds no MPI: {last_words(result.stderr)}. Install one (pip install mpich), "
            "or load the module of the cluster's."
        )
    vendor, _, version = result.stdout.strip().partition("|")
    return Mpi(vendor, version)


def offered_interfaces() -> set[str]:
    """The names that `srun --mpi=list` prints."""
    path = shutil.which("srun")
    if path is None:
        return set()
    result = subprocess.run([path, "--mpi=list"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    return parse_interfaces(result.stdout + result.stderr)  # older ones write to the latter


def parse_interfaces(text: str) -> set[str]:
    """The names in the output of `srun --mpi=list`, of any version."""
    names = set()
    for line in text.splitlines():
        stripped = line.removeprefix("srun:").strip()
        if re.fullmatch(r"[a-z][a-z0-9_]*", stripped):
            names.add(stripped)
        elif "available:" in stripped:
            names |= set(re.findall(r"[a-z][a-z0-9_]*", stripped.partition("available:")[2]))
    return names


def candidates(vendor: str, interfaces: Iterable[str], mpiexec: str | None) -> list[str]:
    """Launchers inside of a Slurm allocation, best first.

    Args:
        vendor: Of the MPI library.
        interfaces: What `srun` offers.
        mpiexec: The library's own launcher, if there is one.
    """
    offered = set(interfaces)
    chosen = []
    for name in _INTERFACES.get(vendor, _ANY_INTERFACE):
        if name in offered:
            chosen.append(f"srun --mpi={name}")
        elif versions := sorted(other for other in offered if other.startswith(f"{name}_v")):
            chosen.append(f"srun --mpi={versions[-1]}")
    return [*chosen, shlex.quote(mpiexec)] if mpiexec else chosen


def find_mpiexec() -> str | None:
    """The mpiexec of this interpreter's environment, else that of the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return shutil.which("mpiexec", path=path) or shutil.which("mpirun", path=path)


_EXITED = re.compile(r"^srun: error: .*: tasks? \S+: Exited with exit code (\d+)$", re.MULTILINE)
_ENDED_BY_LAUNCHER = frozenset({128 + signal.SIGTERM, 128 + signal.SIGKILL})


def first_status(status: int, errors: str) -> int:
    """The status of the task that has failed first. That of srun is the highest one: of a task that srun has killed.

    Args:
        status: That of the launcher.
        errors: What the launcher has written.
    """
    exited = [int(number) for number in _EXITED.findall(errors)]
    causes = [number for number in exited if number not in _ENDED_BY_LAUNCHER]
    return causes[0] if causes and status != 0 else status


_LAUNCHERS = re.compile(r"^(srun|slurmstepd\S*|slurmd|mpiexec|mpirun|prterun)\b")
_NOISE = re.compile(r"^[=\-|\s]*$|^[|=]|^\[?\S*proxy|^\s|^Abort\(")
_ERROR = re.compile(r"\b\w*(Error|Exception|error|fatal)\b.*:")


def last_words(text: str) -> str:
    """The line of a program's output that says most probably why it has failed."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not _NOISE.search(line) and not _LAUNCHERS.match(line)]
    if errors := [line for line in own if _ERROR.search(line)]:
        return errors[-1].strip()
    # A launcher that fails by itself prints the reason first, and then its reaction.
    complaints = [line for line in lines if _LAUNCHERS.match(line) and _ERROR.search(line)]
    return [*complaints, *reversed(own or lines), "it has said nothing"][0].strip()
