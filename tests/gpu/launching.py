# SPDX-License-Identifier: MIT
"""Starts programs in processes of their own: those that must fail, and those that need several ranks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from cluster_jobs import processes
from tests.failures.launching import Outcome

TIME_LIMIT_S = 180.0
REPOSITORY = Path(__file__).parents[2]
# The variables of one launcher make the next one think that it is its child.
_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "HYD", "MPIR_", "CELERITY_")
_ENVIRONMENT = {
    "CELERITY_BACKEND": "cuda",
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",
    "NCCL_NVLS_ENABLE": "0",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PYTHONUNBUFFERED": "1",
}


def mpirun(num_ranks: int) -> list[str]:
    """The launcher that belongs to the MPI in use, if there are several."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = shutil.which("mpirun", path=path) or shutil.which("mpiexec", path=path)
    assert found is not None, "there is no mpirun"
    version = subprocess.run([found, "--version"], check=False, capture_output=True, text=True).stdout
    is_open_mpi = "Open MPI" in version or "OpenRTE" in version
    # It would bind two ranks to a core each, of which they warn.
    options = ["--oversubscribe", "--bind-to", "none"] if is_open_mpi else []
    return [found, *options, "-n", str(num_ranks)]


def run(
    *program: str,
    num_ranks: int | None = None,
    variables: Mapping[str, str] | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> Outcome:
    """Run `python *program` without a launcher, or on `num_ranks` ranks. A program that never ends has status 124."""
    command = [*([] if num_ranks is None else mpirun(num_ranks)), sys.executable, *program]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    if "OMPI_COMM_WORLD_SIZE" not in os.environ:  # what the machine's owner has set for Open MPI, no launcher
        environment |= {name: value for name, value in os.environ.items() if name.startswith("OMPI_MCA_")}
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment |= {**_ENVIRONMENT, "PYTHONPATH": path, **(variables or {})}
    start_s = time.monotonic()
    process = processes.start(command, environment)
    status: int | None = None
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        status = 124
        os.killpg(process.pid, signal.SIGTERM)  # a launcher passes it on
        try:
            output, errors = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
    return Outcome(process.returncode if status is None else status, output, errors, time.monotonic() - start_s)


def line_of(program: Path, name: str) -> str:
    """Return "file:line" of the line of a program that is marked with `# LINE name`."""
    lines = program.read_text(encoding="utf-8").splitlines()
    (number,) = (i for i, line in enumerate(lines, start=1) if line.endswith(f"# LINE {name}"))
    return f"{program.name}:{number}"
