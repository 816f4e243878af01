# SPDX-License-Identifier: MIT
"""The programs printed in the documents, on GPUs: they are printed without a word about the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.conftest import NUM_GPUS
from tests.gpu.launching import run
from tests.support.printed_programs import printed_programs

pytestmark = pytest.mark.processes

_WANT_TWO_DEVICES = {"host tasks", "failures"}  # what they print depends on how the kernel is divided
_ASK_FOR_PROCESSORS = {"notebooks", "graphs"}  # by `configure`
_LEFT_OUT = _ASK_FOR_PROCESSORS if NUM_GPUS >= 2 else _ASK_FOR_PROCESSORS | _WANT_TWO_DEVICES
PROGRAMS = {name: program for name, program in printed_programs().items() if name not in _LEFT_OUT}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_printed_program_runs_on_a_gpu(name: str, tmp_path: Path) -> None:
    source, output = PROGRAMS[name]
    program = tmp_path / "program.py"
    program.write_text(source)
    outcome = run(str(program), variables={"CELERITY_DEVICES": str(min(2, NUM_GPUS))})
    assert outcome.status == 0, outcome.errors
    assert output in outcome.output
