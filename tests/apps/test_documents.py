# SPDX-License-Identifier: MIT
"""The programs printed in the documents, run as they are printed, and the links between documents."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.printed_programs import ROOT, printed_programs, programs_of_others

PROGRAMS = printed_programs()
OTHERS = programs_of_others()
#: Libraries that need a GPU or more than PyPI has: NumPy computes in their place.
STAND_INS = {
    "cupy": """
from types import SimpleNamespace
from numpy import *
cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None))
""",
    "cupynumeric": "from numpy import *\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_printed_program_prints_what_it_says(name: str, tmp_path: Path) -> None:
    source, output = PROGRAMS[name]
    assert output in _run(source, tmp_path)


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_of_another_library_prints_the_same_as_ours(name: str, tmp_path: Path) -> None:
    source, output = OTHERS[name]
    for library in ("dask", "jax"):
        if f"import {library}" in source and find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    for module, text in STAND_INS.items():
        (tmp_path / f"{module}.py").write_text(text)
    assert output in _run(source, tmp_path)


def _run(source: str, folder: Path) -> str:
    (folder / "program.py").write_text(source)
    environment = os.environ | {"CELERITY_DEVICES": "cpu:2", "CELERITY_BACKEND": "cpu", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "program.py"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
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
    documents = [
        *sorted(ROOT.glob("*.md")),
        ROOT / "cluster_jobs" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    broken = []
    for document in documents:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", document.read_text()):
            path = document.parent / target if target else document
            if not path.exists() or (anchor and anchor not in _anchors(path)):
                broken.append(f"{document.relative_to(ROOT)} -> {target}#{anchor}")
    assert not broken
