# SPDX-License-Identifier: MIT
"""Programs that tests run in a process of their own, because they fail."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

PRELUDE = """
import sys, threading, time
import numpy as np
import celerity_py as celerity
from celerity_py import Box, access, errors

celerity.configure(devices="cpu:2")
"""


def run(tmp_path: Path, program: str, timeout_s: float = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run PRELUDE and the program as `app.py`; lines are numbered as in the file."""
    path = tmp_path / "app.py"
    path.write_text(PRELUDE + textwrap.dedent(program))
    root = str(Path(__file__).parents[1])
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CELERITY_", "PMI"))}
    env |= {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]), **environment}
    return subprocess.run(
        [sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def line_of(tmp_path: Path, text: str) -> str:
    lines = (tmp_path / "app.py").read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line]
    return f"{tmp_path / 'app.py'}:{number}"
