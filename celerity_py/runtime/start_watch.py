# SPDX-License-Identifier: MIT
"""Names the missing ranks while MPI starts and connects the ranks."""

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

    After 5 s it prints which ranks of this host are missing. MPI would wait for them for ever. Therefore it ends this
    process with status 1 if one of them has ended, or if the missing ranks have not computed for `stall_s`. Ranks of
    other hosts cannot be observed, so it ends this process in any case after five times `stall_s`.

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
