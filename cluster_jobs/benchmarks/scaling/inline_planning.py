# SPDX-License-Identifier: MIT
"""Runs an application with its tasks planned inline: the submit of a kernel returns when the kernel has been planned.

    python -m cluster_jobs.benchmarks.scaling.inline_planning cluster_jobs/apps/wave_sim.py --size 1024 --benchmark

Then its instructions are with the executor, but for those that lookahead holds back. The scheduler thread plans, as
always, and the application thread waits for it: the time to wake each other counts as well.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import celerity_py as celerity


def plan_inline() -> None:
    """Let all later submits of kernels wait until they are planned."""
    submit = celerity.Queue.parallel_for

    def submit_and_wait(queue: celerity.Queue, *args: Any, **kwargs: Any) -> None:
        submit(queue, *args, **kwargs)
        queue._runtime.scheduler.wait_until_planned()

    celerity.Queue.parallel_for = submit_and_wait  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    plan_inline()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
