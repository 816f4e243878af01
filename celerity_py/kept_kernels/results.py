# SPDX-License-Identifier: MIT
"""Takes the result of a compiler from disk, or lets it compile. Of all processes of a host, one compiles a kernel."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from celerity_py.kept_kernels.kernel_folder import open_folder

_log = logging.getLogger(__name__)

#: No compilation takes so long: its process hangs.
LOCK_TIMEOUT_S: Final = 120.0


def cache_folder() -> Path:
    """Where results are kept; it may not exist yet.

    Raises:
        RuntimeError: If the user has no home directory.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "celerity_py" / "kernels"


def take_or_make(
    key: str, make: Callable[[], bytes], folder: Path | None = None, lock_timeout_s: float = LOCK_TIMEOUT_S
) -> bytes:
    """The result that is kept under a key, or else what `make` returns, which is kept then if possible.

    Args:
        key: Depends on everything that goes into the result.
        make: Compiles.
        folder: For results, instead of the user's cache.
        lock_timeout_s: How long another process may compile before this one does so itself.

    Raises:
        BaseException: Any exception of `make`.
    """
    try:
        path = folder or cache_folder()
    except RuntimeError as error:
        _log.info("Compiled kernels cannot be kept: %s", error)
        return make()
    with open_folder(path) as kept:
        if kept is None:
            return make()
        known = kept.read(key)
        if known is not None:
            return known
        with kept.locked(f"{socket.gethostname()}.lock", lock_timeout_s):
            known = kept.read(key)
            if known is None:
                known = make()
                kept.write(key, known)
                kept.prune()
            return known
