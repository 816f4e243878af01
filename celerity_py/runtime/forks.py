# SPDX-License-Identifier: MIT
"""Forked children: they have the memory of their parent, but none of its threads, and are no rank of the run."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

from celerity_py.scheduler.errors import ForkedProcess


class Fork(NamedTuple):
    """The fork that made this process, which has no runtime."""

    rank: int  # of the parent
    parent: int  # its process id

    def error(self, call: str) -> ForkedProcess:
        """The error that a call of the runtime raises in the child."""
        return ForkedProcess(
            f"{call}: this process ({os.getpid()}) was forked from rank {self.rank} (process {self.parent}), to "
            f"which the runtime, its threads, GPUs and messages belong. Call it there. A child that is to have a "
            f"runtime of its own must start afresh: multiprocessing.get_context('spawn'), or subprocess."
        )


def keep_for_ever(*objects: Any) -> None:
    """Never destroy these: they would wait for threads, and take locks, that only the parent has."""
    for item in objects:
        if item is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
