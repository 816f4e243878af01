# SPDX-License-Identifier: MIT
"""The end of a child that a user function has forked: the thread that called the function belongs to the parent."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn


def end_child(error: BaseException | None) -> NoReturn:
    """End this process as Python ends a program: with the status of SystemExit, or with a traceback and status 1.

    The loop of the thread would wait for calls that never come. The hooks of the exit are those of the parent, as
    for a child of `multiprocessing`.

    Args:
        error: What the user function raised, or None if it returned.
    """
    status = 0
    if isinstance(error, SystemExit):
        if isinstance(error.code, int):
            status = error.code
        elif error.code is not None:
            sys.stderr.write(f"{error.code}\n")
            status = 1
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status & 0xFF)
