# SPDX-License-Identifier: MIT
"""Writes job scripts from the `.sbatch` files beside this one: options into headers, settings into bodies."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster_jobs.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SETTINGS = "#: settings\n"


def job_script(
    template: str,
    options: Mapping[str, str],
    *,
    more_options: Sequence[str] = (),
    settings: Mapping[str, str],
    setup: Sequence[str] = (),
) -> str:
    """Fill in a template.

    Args:
        template: Name of the file, without suffix.
        options: Of sbatch, without dashes; they replace those of the template. An empty value means a flag.
        more_options: Of sbatch, as on its command line; they come last and win.
        settings: Variables of the shell; PYTHON and ROOT are added.
        setup: Lines of shell before the program, such as `module load cuda`.

    Raises:
        ValueError: If an option would leave its line.
    """
    text = (Path(__file__).parent / f"{template}.sbatch").read_text()
    head, body = text.split("set -euo pipefail\n")
    before, after = body.split(_SETTINGS)
    given = [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
    if any("\n" in option for option in (*given, *more_options, *setup)):
        raise ValueError("Options and lines of --setup are one line each.")
    kept = [line for line in head.splitlines() if not _is_replaced(line, options)]
    lines = [*kept, *(f"#SBATCH {_quoted(option)}" for option in (*given, *more_options))]
    variables = {"PYTHON": sys.executable, "ROOT": str(ROOT), **settings}
    filled = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    # Scripts of `module` and `conda` use variables that are not set.
    prepared = ["set +u", *setup, "set -u"] if setup else []
    return "\n".join([*lines, "set -euo pipefail"]) + "\n" + before + "\n".join([*filled, *prepared]) + "\n" + after


def _is_replaced(line: str, options: Mapping[str, str]) -> bool:
    return line.startswith("#SBATCH --") and line.removeprefix("#SBATCH --").partition("=")[0] in options


def _quoted(option: str) -> str:
    """As sbatch reads it: a blank or # would end the option, quotes would vanish, and a backslash protects the next."""
    if not any(character in option for character in " \t#\"'\\"):
        return option
    protected = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{protected}"'
