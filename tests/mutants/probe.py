# SPDX-License-Identifier: MIT
"""Counts how many random programs a core survives. Prints the number of each before it runs, for it may crash."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from celerity_py import _native
from tests.property.check_programs import check_program
from tests.property.distribution import Distribution
from tests.property.program_strategy import programs
from tests.property.programs import Program
from tests.property.template_programs import Counts, check_templates


def main() -> int:
    if Path(_native.__file__).parents[1] != Path.cwd():
        raise SystemExit(f"{_native.__file__} is not the core to be probed, which lies in {Path.cwd()}")
    started = 0
    found = ""

    @seed(int(sys.argv[1]))
    @settings(
        max_examples=int(sys.argv[2]),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(programs())
    def check(program: Program) -> None:
        nonlocal started, found
        if found:
            return  # hypothesis runs a failing example again
        started += 1
        print(started, flush=True)
        try:
            check_program(program, Distribution())
            check_templates(program, Counts())
        except Exception as error:
            lines = [line.strip() for line in str(error).split("\n")]
            found = f"found: {type(error).__name__}: {lines[1] if len(lines) > 1 else lines[0]}"[:140]
            raise

    try:
        check()
    except BaseException:  # noqa: BLE001  (reported below)
        found = found or "found: hypothesis failed"
    if found:
        print(found, flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
