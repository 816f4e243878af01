# SPDX-License-Identifier: MIT
"""Runs an application on a runtime that does one thing in another way, for comparison.

    python -m cluster_jobs.benchmarks.scaling.other_ways host-waits cluster_jobs/apps/wave_sim.py --benchmark

* `inline-planning`: the submit of a kernel returns when the kernel has been planned. Then its instructions are with the
  executor, but for those that lookahead holds back. The scheduler thread plans, as always, and the application thread
  waits for it: the time to wake each other counts as well.
* `host-overwrites`: the host waits before it issues an operation that overwrites data which other ranks fetch.
* `host-waits`: the host waits for each operation before it issues one that depends on it.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import celerity_py as celerity
from celerity_py.runtime import native_objects


def plan_inline() -> None:
    """Let all later submits of kernels wait until they are planned."""
    submit = celerity.Queue.parallel_for

    def submit_and_wait(queue: celerity.Queue, *args: Any, **kwargs: Any) -> None:
        submit(queue, *args, **kwargs)
        queue._runtime.scheduler.wait_until_planned()

    celerity.Queue.parallel_for = submit_and_wait  # type: ignore[assignment, method-assign]


def overwrite_from_the_host() -> None:
    """Let the host wait until other ranks have fetched what an operation overwrites."""
    native_objects.OVERWRITES_WAIT = False


def wait_on_the_host() -> None:
    """Let the host, and no lane, wait for the predecessors of an operation."""
    native_objects.LANES_WAIT = False


WAYS: Final[dict[str, Callable[[], None]]] = {
    "inline-planning": plan_inline,
    "host-overwrites": overwrite_from_the_host,
    "host-waits": wait_on_the_host,
}

if __name__ == "__main__":
    _, way, *sys.argv = sys.argv
    WAYS[way]()
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
