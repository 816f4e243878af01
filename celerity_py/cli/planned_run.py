# SPDX-License-Identifier: MIT
"""Runs a program as one rank of a dry run, which plans it and executes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from celerity_py.cli.words import CommandError


def plan_program(program: Sequence[str], rank: int, num_ranks: int, num_devices: int, wanted: Mapping[str, str]) -> str:
    """Plan a program in a process of its own. What it prints is dropped.

    Args:
        program: The arguments of the interpreter.
        rank: As this rank.
        num_ranks: Of so many.
        num_devices: Of each rank.
        wanted: The settings that ask for the results, as environment variables.

    Returns:
        The standard error of the program: warnings.

    Raises:
        CommandError: If the program fails.
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
    if result.returncode != 0:
        raise CommandError(
            f"the program ends with status {result.returncode} on rank {rank}:\n{result.stderr.rstrip()}"
        )
    return result.stderr
