# SPDX-License-Identifier: MIT
"""`celerity-py fuse`: what is made of the fused functions of a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_lines import command_line

PROGRAM = """
import os
import sys
import numpy as np
import celerity_py as celerity
from celerity_py import access

@celerity.fuse
def move(chunk, u):
    low, high = chunk.box.min[0], chunk.box.max[0]
    u[chunk.box] = u[chunk.box] + 1
    u[low + 1 : high] = u[low : high - 1]

@celerity.fuse
def border(chunk, u):
    u[chunk.box] *= 2
    if chunk.box.min[0] == 0:
        u[0] = 1

@celerity.fuse
def total(chunk, u):
    u[chunk.box] = np.cumsum(u[chunk.box])

@celerity.fuse
def unused(chunk, u):
    raise AssertionError("no submit")

@celerity.fuse
def wrong(chunk, u):
    u[chunk.box] = 1 if u[chunk.box] > 0 else 2

with celerity.Queue() as queue:
    size = int(sys.argv[sys.argv.index("--size") + 1])
    if size == 0:
        os._exit(5)
    u = celerity.Buffer.from_array(np.zeros(size))
    for kernel in (move, border, total, *((wrong,) if size == 4 else ())):
        queue.parallel_for(u.shape, kernel, u.read_write(access.one_to_one()))
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "app.py"
    path.write_text(PROGRAM)
    return str(path)


def test_fuse_tells_structures_passes_and_scratch_memory_of_gpus_that_are_not_here(program: str) -> None:
    outcome = command_line("fuse", program, "--gpu", "--devices", "2", "--size", "16")
    assert outcome.status == 0, outcome.errors
    expected = """\
move ({0}:8)
  structure 1: 3 passes, scratch memory (7,) of float64
    pass 1: {0}:11
    pass 2: {0}:12
    pass 3: {0}:12
border ({0}:14)
  structure 1: 1 pass, no scratch memory
    pass 1: {0}:16, {0}:18
  structure 2: 1 pass, no scratch memory
    pass 1: {0}:16
total ({0}:20)
  Python runs it: The fused form of numpy.cumsum (at {0}:22) is not made yet.
unused ({0}:24)
  no kernel is made of it in this run
wrong ({0}:28)
  no kernel is made of it in this run
"""
    assert outcome.output == expected.format(program)


def test_fuse_prints_sources_also_if_the_program_fails_later(program: str) -> None:
    outcome = command_line("fuse", "--source", program, "--size", "4")
    assert outcome.status == 1
    assert "asks for the truth of an array" in outcome.errors
    assert all(f"\ndef fused_{name}_0(" in outcome.output for name in ("move", "border"))


def test_fuse_refuses_a_program_that_leaves_without_an_end(program: str) -> None:
    outcome = command_line("fuse", program, "--size", "0")
    assert outcome.status == 1
    assert "there are no kernels" in outcome.errors
    assert "status 5" in outcome.errors
