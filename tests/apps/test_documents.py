# SPDX-License-Identifier: MIT
"""The programs printed in the documents, run as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README, TUTORIAL = "README.md", "docs/tutorial.md"


def _blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)


# The tutorial's second block is a kernel, its third shows how to submit it, its fourth is the loop around that.
@pytest.mark.parametrize(
    ("document", "blocks"), [(README, [0]), (TUTORIAL, [0]), (TUTORIAL, [0, 1, 3])], ids=["readme", "first", "loop"]
)
def test_a_printed_program_runs(document: str, blocks: list[int], tmp_path: Path) -> None:
    program = tmp_path / "wave.py"
    program.write_text(
        "\n".join(_blocks(document)[index] for index in blocks) + "\nprint('sum', float(result.sum()))\n"
    )
    environment = os.environ | {"CELERITY_DEVICES": "cpu:2", "CELERITY_BACKEND": "cpu", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "sum " in run.stdout
    assert not run.stderr


def test_every_local_link_of_the_documents_leads_somewhere() -> None:
    documents = [ROOT / README, ROOT / "cluster_jobs" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    broken = [
        f"{document.relative_to(ROOT)} -> {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert not broken
