# SPDX-License-Identifier: MIT
"""Merges the timelines of ranks: `python -m celerity_py.trace out.*.json -o all.json`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from celerity_py.timeline.chrome import merge


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge the files named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m celerity_py.trace", description="Merge the timelines of all ranks."
    )
    parser.add_argument(
        "files", nargs="+", type=Path, help="out.0.json out.1.json ..., as CELERITY_TRACE=out wrote them"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        merge(options.files, options.output)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
