# SPDX-License-Identifier: MIT
"""The programs printed in the documents, on GPUs: they are printed without a word about the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.launching import run
from tests.support.printed_programs import printed_programs

pytestmark = pytest.mark.processes

PROGRAMS = printed_programs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_printed_program_runs_on_a_gpu(name: str, tmp_path: Path) -> None:
    source, output = PROGRAMS[name]
    program = tmp_path / "program.py"
    program.write_text(source)
    outcome = run(str(program), variables={"CELERITY_DEVICES": "0,"})
    assert outcome.status == 0, outcome.errors
    assert output in outcome.output
