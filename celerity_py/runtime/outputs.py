# SPDX-License-Identifier: MIT
"""The files that STATS and TRACE ask for: checked before the program runs, written at its end."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from celerity_py.scheduler.errors import ConfigurationError

_log = logging.getLogger(__name__)


def path_of_rank(name: str, rank: int, size: int) -> Path:
    """The file of a rank, if the user asks for `out.json` or `out`: `out.<rank>.json` for each of several ranks."""
    stem = name.removesuffix(".json")
    return Path(f"{stem}.{rank}.json" if size > 1 else f"{stem}.json")


def check_output(variable: str, name: str, rank: int, size: int) -> None:
    """Find out before the program runs whether its output will have a place; makes the folder.

    Raises:
        ConfigurationError: If the name is that of a folder, the folder cannot be made, or the file not be written.
    """
    path = path_of_rank(name, rank, size)
    if Path(name).name in {"", ".."} or name.endswith(os.sep) or Path(name).is_dir():
        raise ConfigurationError(f"{variable}={name}: this is a folder. Name a file, such as {Path(name, 'out.json')}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{variable}={name}: files cannot be written to the folder {path.parent}: {error.strerror or error}."
        ) from None
    if path.exists() and not (path.is_file() or path.is_dir()):
        return  # a pipe may have no reader yet
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise ConfigurationError(
            f"{variable}={name}: the file {path} cannot be written: {error.strerror or error}. Name another one."
        ) from None


def write_output(variable: str, path: Path, write: Callable[[Path], object]) -> None:
    """Write a file at the end of a run. A problem is only a warning, because the program has finished.

    Args:
        variable: The setting that asks for it.
        path: Where.
        write: Does it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except Exception as error:  # noqa: BLE001 - a disk that is full, a folder that is gone, no memory
        with contextlib.suppress(OSError):
            if path.is_file():
                path.unlink()  # half of a file is of no use
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        _log.warning("%s: the file %s could not be written, and is left out: %s.", variable, path, why)
