# SPDX-License-Identifier: MIT
"""Programs of this repository as processes of their own, with all that their launchers start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[1]
_GRACE_S = 10.0


def python_path() -> str:
    """Where the ranks find this repository, and what this process finds: modules of clusters use the variable too."""
    folders = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.pathsep.join(dict.fromkeys(folders))


def start(command: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a program at the root of the repository, its output in pipes, so that `end_group` ends all of it.

    Raises:
        OSError: If it cannot be started.
    """
    return subprocess.Popen(  # noqa: S603 - programs of this repository
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a launcher and its processes by SIGTERM, which a launcher passes on. It could not pass SIGKILL on."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + _GRACE_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is not None:
            return
