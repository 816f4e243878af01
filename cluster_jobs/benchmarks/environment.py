# SPDX-License-Identifier: MIT
"""The environment of a figure: versions and hardware, for the JSON of a benchmark."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

_PACKAGES = ("numpy", "mpi4py", "cupy-cuda13x", "cupy-cuda12x", "cupy", "nvidia-nccl-cu13", "nvidia-nccl-cu12")
_VARIABLES = ("CELERITY_", "CUDA_", "NCCL_", "OMPI_MCA_", "UCX_")


@functools.cache
def describe() -> dict[str, Any]:
    """Versions, GPUs and the variables that matter; starts neither CUDA nor MPI."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "commit": _output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")[:1],
        "python": platform.python_version(),
        "packages": versions,
        "cpu_count": len(os.sched_getaffinity(0)),
        "gpus": _output("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"),
        "mpi": _output("mpirun", "--version")[:1],
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)},
    }


def _output(program: str, *arguments: str) -> list[str]:
    path = shutil.which(program)
    if path is None:
        return []
    command = [path, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - no input
    return result.stdout.splitlines()
