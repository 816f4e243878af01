# SPDX-License-Identifier: MIT
"""Says for whom this rank waits while MPI starts and connects the ranks."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from celerity_py import _native
from celerity_py.executor.network.launch_detection import detect_launch, find_place

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_FIRST_REPORT_S: Final = 5.0


def watch_start(stall_s: float) -> AbstractContextManager[object]:
    """Watch over the start until the context is left: then all ranks have come.

    After 5 s it says which ranks of this host are missing. It ends this process with status 1, because MPI would not
    return, if one of them has ended, if those that are missing have not computed for `stall_s`, and in any case after
    five times `stall_s`: what ranks of other hosts do cannot be seen.

    Args:
        stall_s: In seconds; 0 to end the process only if a rank has ended.
    """
    place = find_place(os.environ)
    if place is None:
        return contextlib.nullcontext()
    size = detect_launch(os.environ).size or 0
    return _native.StartWatch(
        place.variable, place.rank, size, place.is_one_host, first_report_s=_FIRST_REPORT_S, still_limit_s=stall_s
    )
