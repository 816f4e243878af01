# SPDX-License-Identifier: MIT
"""Runs a program as one rank of a dry run, which plans it and executes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from celerity_py.tools.cli.words import CommandError


class PlannedRun(NamedTuple):
    """The end of a program that was planned as one rank."""

    program: str
    rank: int
    #: The exit status; 128 and the number of the signal if one has ended the program.
    status: int
    #: Its standard error.
    errors: str

    def refuse(self, missing: str) -> NoReturn:
        """Refuse a program without a plan: it has made no queue, or has left by `os._exit` or a signal.

        Raises:
            CommandError: Always.
        """
        if self.errors.strip():
            raise CommandError(f"{self._describe()}:\n{self.errors.rstrip()}")
        first = self._describe() if self.status else f"{self.program} has made no queue on rank {self.rank}"
        raise CommandError(
            f"{first}, so there {missing}. A program that leaves by os._exit() or a signal, before its last queue has "
            f"ended, leaves none either."
        )

    def pass_on(self) -> int:
        """Print the standard error, and how the program has ended if that is a failure. Returns its status."""
        sys.stderr.write(self.errors)
        if self.status:
            sys.stderr.write(
                f"{self._describe()}. The plan has all that it has submitted before. A dry run computes nothing: with "
                f"celerity.is_dry_run() a program leaves out the checks of its results.\n"
            )
        return self.status

    def _describe(self) -> str:
        return f"the program ends with status {self.status} on rank {self.rank}"


def plan_program(
    program: Sequence[str], rank: int, num_ranks: int, num_devices: int, wanted: Mapping[str, str]
) -> PlannedRun:
    """Plan a program in a process of its own. What it prints is dropped.

    Args:
        program: The arguments of the interpreter.
        rank: As this rank.
        num_ranks: Of so many.
        num_devices: Of each rank.
        wanted: The settings that ask for the results, as environment variables.
    """
    variables = {
        "CELERITY_DRY_RUN_RANKS": str(num_ranks),
        "CELERITY_DRY_RUN_RANK": str(rank),
        "CELERITY_BACKEND": "cpu",
        "CELERITY_DEVICES": f"cpu:{num_devices}",
        **wanted,
    }
    result = subprocess.run(  # noqa: S603 - the program that the user has named
        [sys.executable, *program],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    status = result.returncode
    return PlannedRun(program[0], rank, status if status >= 0 else 128 - status, result.stderr)
