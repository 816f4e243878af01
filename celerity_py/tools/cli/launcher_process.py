# SPDX-License-Identifier: MIT
"""The launcher of a program as a process beside this one, for its exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from celerity_py.tools.cli.bind_rank import end_with_parent
from celerity_py.tools.cli.launchers import first_status

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class LauncherProcess:
    """Starts a launcher, hands on the signals of this process, and waits. For the main thread, one at a time.

    Attributes:
        is_asked_to_end: Whether this process has got a signal that ends a program, or asks it to end soon.
    """

    def __init__(self) -> None:
        self.is_asked_to_end = False
        self._process: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGINT, *_FORWARDED):
            signal.signal(number, self._note)

    def run(self, command: Sequence[str], variables: Mapping[str, str]) -> int:
        """Run the launcher to its end.

        Args:
            command: Its words.
            variables: Added to the environment.

        Returns:
            The exit status: of the rank that has failed first, where the launcher tells it.

        Raises:
            OSError: If it cannot be started.
        """
        # The ranks end with the launcher, and the launcher with this process.
        is_srun = Path(command[0]).name == "srun"
        self._process = subprocess.Popen(  # noqa: S603 - the launcher of the user's environment
            command,
            stderr=subprocess.PIPE if is_srun else None,  # it tells the statuses of the ranks
            env={**os.environ, **variables},
            preexec_fn=end_with_parent,  # noqa: PLW1509 - this process has one thread
        )
        told = []
        for line in self._process.stderr or ():
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            if line.startswith(b"srun: error:"):
                told.append(line.decode(errors="replace"))
        status = self._process.wait()
        self._process = None
        return first_status(128 - status if status < 0 else status, "".join(told))

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.is_asked_to_end |= number != signal.SIGUSR2
        if self._process is not None and number != signal.SIGINT:  # the launcher gets that one from the terminal
            self._process.send_signal(number)
