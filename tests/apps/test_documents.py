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
README, TUTORIAL, HOW_TO = "README.md", "docs/tutorial.md", "docs/how_to.md"


def _blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)


# The tutorial's second block is a kernel, its third shows how to submit it, its fourth and fifth are loops around that.
@pytest.mark.parametrize(
    ("document", "blocks"),
    [(README, [0]), (TUTORIAL, [0]), (TUTORIAL, [0, 1, 3]), (TUTORIAL, [0, 1, 4]), (TUTORIAL, [5])],
    ids=["readme", "first", "loop", "decision", "mapper"],
)
def test_a_printed_program_runs(document: str, blocks: list[int], tmp_path: Path) -> None:
    source = "\n".join(_blocks(document)[index] for index in blocks) + "\nprint('sum', float(result.sum()))\n"
    assert "sum " in _run("wave.py", source, tmp_path)


@pytest.mark.parametrize(
    ("block", "printed"),
    [
        (0, "[0. 1. 2. 3. 4. 5. 6. 7.] [100. 121. 144.]"),
        (1, "[[  5.   5.   5.   5.   5.   5.]\n [ 17.  18.  19."),
        (2, "[ 0.  2.  6. 12.]"),
        (3, "3000.0"),
        (4, "698 1487 2482 2975 3035 2416"),
        (5, "the largest element is 4.0"),
        (6, "[0.25 1.   2.  ] 98.0"),
        (7, "910.0"),
        (8, "[[4. 5. 6. 7.]]\n66.0"),
        (9, "rank 0: task 'smooth' failed: OutOfBoundsAccess: "),
    ],
    ids=[
        "contents",
        "mappers",
        "values",
        "reductions",
        "arrays",
        "host tasks",
        "cuda kernels",
        "halos",
        "fences",
        "failures",
    ],
)
def test_a_how_to_does_what_it_says(block: int, printed: str, tmp_path: Path) -> None:
    assert printed in _run("how_to.py", _blocks(HOW_TO)[block], tmp_path)


def test_every_how_to_is_run() -> None:
    assert len(_blocks(HOW_TO)) == 10


def _run(name: str, source: str, folder: Path) -> str:
    program = folder / name
    program.write_text(source)
    environment = os.environ | {"CELERITY_DEVICES": "cpu:2", "CELERITY_BACKEND": "cpu", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, name], env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    return run.stdout


def _anchors(document: Path) -> set[str]:
    """The targets that GitHub makes of the headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_local_link_of_the_documents_leads_somewhere() -> None:
    documents = [*sorted(ROOT.glob("*.md")), ROOT / "cluster_jobs" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    broken = []
    for document in documents:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", document.read_text()):
            path = document.parent / target if target else document
            if not path.exists() or (anchor and anchor not in _anchors(path)):
                broken.append(f"{document.relative_to(ROOT)} -> {target}#{anchor}")
    assert not broken
