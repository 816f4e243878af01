# SPDX-License-Identifier: MIT
"""`celerity-py run --restarts 3`: starts the ranks again after a failure, and keeps their snapshots meanwhile.

The run has a folder in the shared memory of its host, which outlives the ranks. The checkpoints lie in it, and a file
to which `bind_rank` writes how a rank has ended. A lock on the folder says that its run is alive.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from celerity_py.tools.cli import bind_rank
from celerity_py.tools.cli.launcher_process import LauncherProcess
from celerity_py.tools.cli.words import CommandError

_PREFIX: Final = "celerity_py_run_"


def run_again(words: Sequence[str], program: Sequence[str], restarts: int) -> int:
    """Run a program until it ends with status 0, or no restart is left.

    Args:
        words: The launcher and its options; none for a single rank.
        program: The interpreter and its arguments.
        restarts: How many.

    Returns:
        The exit status of the last start.

    Raises:
        CommandError: If the host has no shared memory.
        OSError: If the launcher cannot be started.
    """
    command = [*words, *program]
    if words and bind_rank.__file__ not in words:  # such as that of srun
        command = [*words, sys.executable, bind_rank.__file__, *program]
    process = LauncherProcess()
    with _folder_of_run() as folder:
        for left in range(restarts, -1, -1):
            (folder / bind_rank.ENDS).unlink(missing_ok=True)
            status = process.run(command, {bind_rank.SNAPSHOTS: str(folder)})
            if status == 0 or process.is_asked_to_end:
                break
            _tell(folder, status, left, restarts)
    return status


def _tell(folder: Path, status: int, left: int, restarts: int) -> None:
    from celerity_py.io.checkpoints import steps_in

    ends = folder / bind_rank.ENDS
    first = ends.read_text().partition("\n")[0] if ends.exists() else f"the program {bind_rank.how_ended(status)}"
    step = max(steps_in(folder), default=None)
    if left == 0:
        lost = "" if step is None else f" The snapshot of step {step} in memory is removed."
        text = f"No restart is left of --restarts {restarts}.{lost}"
    else:
        where = "no snapshot is in memory" if step is None else f"the newest snapshot in memory is of step {step}"
        text = f"The program starts again: {where}. {left - 1} restart(s) are left."
    print(f"celerity-py run: {first}. {text}", file=sys.stderr, flush=True)


@contextmanager
def _folder_of_run() -> Iterator[Path]:
    """A folder in shared memory that exists as long as this context."""
    from celerity_py.io.memory_snapshots import SHARED_MEMORY

    if not os.access(SHARED_MEMORY, os.W_OK):
        raise CommandError(f"--restarts needs the folder {SHARED_MEMORY}, where this user can write.")
    _remove_abandoned(SHARED_MEMORY)
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=SHARED_MEMORY))
    lock = os.open(made, os.O_RDONLY)  # no other process inherits it
    folder = made.with_name(made.name.removeprefix("."))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made.rename(folder)  # found by this name, and locked then
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_abandoned(shared_memory: Path) -> None:
    """Remove the folders of this user's killed runs, which nobody locks."""
    for folder in shared_memory.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user, locked, or gone
            lock = os.open(folder, os.O_RDONLY)
            try:
                if folder.stat().st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
                    print(f"celerity-py run: the snapshots of a killed run are removed: {folder}.", file=sys.stderr)
            finally:
                os.close(lock)
