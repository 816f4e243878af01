# SPDX-License-Identifier: MIT
"""Files that settings and options ask for: checked before the work, written at its end."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from celerity_py.scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from celerity_py.configuration import Configuration
    from celerity_py.graphs.recorder import GraphRecorder
    from celerity_py.timeline.recorder import Tracer

_log = logging.getLogger(__name__)


def path_of_rank(name: str, rank: int, size: int) -> Path:
    """The file of a rank, if the user asks for `out.json` or `out`: `out.<rank>.json` for each of several ranks."""
    stem = name.removesuffix(".json")
    return Path(f"{stem}.{rank}.json" if size > 1 else f"{stem}.json")


def check_outputs(settings: Configuration, rank: int, size: int) -> None:
    """Refuse settings that name a file or folder which this rank cannot write.

    Raises:
        ConfigurationError: For the first such setting.
    """
    for variable, output in (("STATS", settings.stats), ("TRACE", settings.trace)):
        if output:
            check_file(variable, output, path_of_rank(output, rank, size), "out.json")
    if settings.print_graphs:
        check_folder("PRINT_GRAPHS", settings.print_graphs)


def check_file(setting: str, name: str, path: Path, example: str) -> None:
    """Find out before the work whether its output will have a place; makes the folder.

    Args:
        setting: Variable or option that asks for the output.
        name: Its value.
        path: The file to write.
        example: The name of such a file.

    Raises:
        ConfigurationError: If the name is that of a folder, the folder cannot be made, or the file not be written.
    """
    if Path(name).name in {"", ".."} or name.endswith(os.sep) or Path(name).is_dir():
        raise ConfigurationError(f"{setting}={name}: this is a folder. Name a file, such as {Path(name, example)}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{setting}={name}: files cannot be written to the folder {path.parent}: {error.strerror or error}."
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
            f"{setting}={name}: the file {path} cannot be written: {error.strerror or error}. Name another one."
        ) from None


def check_folder(setting: str, name: str) -> None:
    """Find out before the work whether files can be written to a folder; makes the folder.

    Raises:
        ConfigurationError: If the name is that of a file, or no file can be made in the folder.
    """
    folder = Path(name)
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{setting}={name}: this is a file. Name a folder, such as {folder.stem}_graphs.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"{setting}={name}: files cannot be written to this folder: {error.strerror or error}. Name another one."
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


def write_timeline(name: str, tracer: Tracer, lanes: Sequence[tuple[str, int]]) -> None:
    """Write the timeline of a rank at the end of a run. A problem is only a warning; `name` is that of TRACE."""
    from celerity_py.timeline.chrome import write_trace

    path = path_of_rank(name, tracer.rank, tracer.size)
    write_output("TRACE", path, lambda path: write_trace(path, tracer, lanes))


def write_graphs(recorder: GraphRecorder, folder: str, limit_s: float) -> None:
    """Write the graphs of a run into a folder. A problem is only a warning.

    Args:
        recorder: Has the graphs.
        folder: Where.
        limit_s: Seconds for pictures.
    """
    try:
        recorder.write(Path(folder), partial(write_output, "PRINT_GRAPHS"), limit_s)
    except Exception as error:  # noqa: BLE001 - a bug in a drawing must not end a program that has finished
        _log.warning("PRINT_GRAPHS: the graphs are left out: %s: %s.", type(error).__name__, error)
