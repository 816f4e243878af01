# SPDX-License-Identifier: MIT
"""The programs printed in the documents, run as they are printed, and the links between documents."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.support import first_steps
from tests.support.printed_programs import ROOT, START, blocks, printed_commands, printed_programs, programs_of_others

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


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in first_steps.RESULTS])
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


@pytest.mark.parametrize("name", first_steps.RESULTS)
def test_a_first_program_has_the_numbers_of_numpy(name: str, tmp_path: Path) -> None:
    source, _ = PROGRAMS[name]
    _run(source + "np.save('result.npy', result)\n", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "result.npy"), first_steps.RESULTS[name](), strict=True)


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


#: Lines that need a network, Slurm or a profiler, or build the package.
_NOT_HERE = ("pip install", "make ", "srun", "Slurm", "nsys", "sbatch", "cluster_jobs.slurm")
COMMANDS = printed_commands()


@pytest.mark.parametrize("document", COMMANDS)
def test_the_printed_commands_run(document: str, tmp_path: Path) -> None:
    """One after the other, in a folder with the program of the page for newcomers, and beside the applications."""
    for name in ("heat.py", "app.py", "wave.py"):
        (tmp_path / name).write_text(blocks(START)[0].replace("range(500)", "range(20)"))
    (tmp_path / "smooth.py").write_text(printed_programs()["slow"][0])
    (tmp_path / "cluster_jobs").symlink_to(ROOT / "cluster_jobs")
    (tmp_path / "graphs.py").write_text(printed_programs()["graphs"][0])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CELERITY_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment |= {"CELERITY_BACKEND": "cpu", "PYTHONPATH": str(ROOT), "PATH": path}
    commands = [command for command in COMMANDS[document] if not any(word in command for word in _NOT_HERE)]
    assert any("celerity-py" in command for command in commands)
    if any(" out.*.json" in command for command in commands) and not any("TRACE=out" in each for each in commands):
        commands.insert(0, "CELERITY_TRACE=out.json mpiexec -n 2 python app.py")
    for command in commands:
        run = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 0, (command, run.stdout, run.stderr)


def test_the_page_for_newcomers_shows_the_message_of_a_mapper_that_is_too_small(tmp_path: Path) -> None:
    source = blocks(START)[0].replace("u.read(access.neighborhood(1, 1))", "u.read(access.one_to_one())")
    (tmp_path / "heat.py").write_text(source)
    environment = os.environ | {"CELERITY_DEVICES": "cpu:2", "CELERITY_BACKEND": "cpu", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "heat.py"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode != 0
    text = (ROOT / START).read_text()
    (shown,) = re.findall(r"^```\n(OutOfBoundsAccess: .*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert " ".join(shown.split()) in run.stderr.replace(f"{tmp_path}/", "")


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
