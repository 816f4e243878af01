# SPDX-License-Identifier: MIT
"""Context variables of the submit, such as NumPy's error state, hold in tasks and in functions of initial contents."""

from __future__ import annotations

import contextvars
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.support.scripts import run

ONE = access.one_to_one()
level = contextvars.ContextVar("level", default=0)


@celerity.kernel
def put_level(chunk: Any, out: Any) -> None:
    out[chunk.box] = level.get()
    level.set(99)  # no other call sees it


def test_a_task_has_the_context_of_its_submit(queue: celerity.Queue) -> None:
    out = celerity.Buffer((8,), np.int64)
    seen: list[int] = []
    contents: list[int] = []

    def look(part: Any, out: Any) -> None:
        contents.append(int(out.array[0]))
        seen.append(level.get())

    def submit() -> None:
        queue.parallel_for(8, put_level, out.write(ONE))
        queue.host_task(look, out.read(access.all()))

    submit()
    token = level.set(3)
    submit()
    recorded = queue.record(submit)
    level.reset(token)
    submit()
    queue.replay(recorded, 2)
    queue.wait()
    assert seen == contents == [0, 3, 3, 0, 3, 3]


def test_initial_contents_have_the_context_of_their_buffer(queue: celerity.Queue) -> None:
    token = level.set(5)
    buffer = celerity.Buffer.from_function(4, np.int64, lambda box: np.full(box.shape, level.get()))
    level.reset(token)
    assert queue.fence(buffer).result(20).tolist() == [5] * 4


def test_chunks_of_one_task_run_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def meet(chunk: Any, out: Any) -> None:
        both.wait(20)
        out[chunk.box] = level.get()

    token = level.set(7)
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        out = celerity.Buffer((8,), np.int64)
        queue.parallel_for(8, meet, out.write(ONE))
        assert queue.fence(out).result(20).tolist() == [7] * 8
    celerity.configure(devices=None)
    level.reset(token)


@pytest.mark.skipif(int(np.__version__.partition(".")[0]) < 2, reason="NumPy 1 keeps its error state per thread")
@pytest.mark.parametrize(
    "use",
    [
        "queue.parallel_for(2, lambda chunk, u: u[chunk.box].__itruediv__(0), u.read_write(access.one_to_one()))",
        "queue.host_task(lambda part: np.ones(2) / 0)",
        "queue.fence(celerity.Buffer.from_function(2, float, lambda box: np.ones(box.shape) / 0)).result()",
    ],
)
def test_the_error_state_of_numpy_holds(use: str, tmp_path: Path) -> None:
    program = f"""
        np.seterr(divide="raise")
        with celerity.Queue() as queue:
            u = celerity.Buffer.from_array(np.ones(2))
            {use}
    """
    assert "FloatingPointError: divide by zero encountered" in run(tmp_path, program).stderr
    quiet = run(tmp_path, program.replace('divide="raise"', 'divide="ignore"'))
    assert (quiet.returncode, quiet.stderr) == (0, "")
