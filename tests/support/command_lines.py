# SPDX-License-Identifier: MIT
"""Calls of the command `celerity-py`."""

from __future__ import annotations

import sys

from tests.failures.launching import Outcome, run

COMMAND = (sys.executable, "-m", "celerity_py")


def command_line(*arguments: str, num_ranks: int | None = None, **variables: str) -> Outcome:
    return run(num_ranks, *COMMAND, *arguments, variables=variables)
