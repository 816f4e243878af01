# SPDX-License-Identifier: MIT
"""Starts programs of several ranks, with a time limit, and keeps what came of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

TIME_LIMIT_S = 60
REPOSITORY = Path(__file__).parents[2]


class Outcome(NamedTuple):
    status: int
    output: str
    errors: str
    duration_s: float

    def ended_within(self, limit_s: float) -> bool:
        """Whether it took less than `limit_s` on a machine that has its cores to itself, as far as its load tells."""
        return self.duration_s < limit_s * _slowness()


def _slowness() -> float:
    """Processes that want to run, for each core: how much longer everything takes."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def run(num_ranks: int | None, *program: str, variables: Mapping[str, str] | None = None) -> Outcome:
    """Run `program` on `num_ranks` ranks, or without a launcher if that is None."""
    command = list(program)
    if num_ranks is not None:
        mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert mpiexec is not None, "the tests need an mpiexec: pip install mpich"
        command = [mpiexec, "-n", str(num_ranks), *program]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "HYD", "CELERITY_"))}
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    # With PYTHONUNBUFFERED each piece of a line is a write by itself, and lines of several ranks come mixed.
    inherited.pop("PYTHONUNBUFFERED", None)
    environment = {**inherited, "PYTHONPATH": path, **(variables or {})}
    start_s = time.monotonic()
    process = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=TIME_LIMIT_S * _slowness(), env=environment
    )
    return Outcome(process.returncode, process.stdout, process.stderr, time.monotonic() - start_s)
