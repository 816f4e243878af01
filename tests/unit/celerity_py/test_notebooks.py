# SPDX-License-Identifier: MIT
"""Cells of a notebook, in a kernel of Jupyter: they run again, also after a failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="the kernels of notebooks need nbclient")
nbformat = pytest.importorskip("nbformat", reason="the kernels of notebooks need nbformat")
pytest.importorskip("ipykernel", reason="the kernels of notebooks need ipykernel")

SET_UP = """
import numpy as np
import celerity_py as celerity
from celerity_py import access
celerity.configure(devices="cpu:2", horizon_step=2)
"""
START = """
queue = celerity.Queue()
u = celerity.Buffer.from_array(np.ones(8), name="u")
"""
WRONG = """
def scale(chunk, u):
    u[chunk.box] *= factor
"""
RUN = """
queue.parallel_for(8, scale, u.read_write(access.one_to_one()))
print(queue.fence(u).result().sum())
"""


class Notebook:
    """Runs cells, in any order and as often as a user likes."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, source: str) -> str:
        """Run a cell; its output, and the error that it ends with."""
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        self.client.execute_cell(cell, len(self.client.nb.cells) - 1)
        texts = [
            out["text"] if out["output_type"] == "stream" else f"{out['ename']}: {out['evalue']}"
            for out in cell.outputs
        ]
        return "".join(texts).strip()

    def traceback(self) -> list[str]:
        """The lines of the error of the last cell."""
        (error,) = [out for out in self.client.nb.cells[-1].outputs if out["output_type"] == "error"]
        return [line for text in error["traceback"] for line in text.splitlines()]


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("CELERITY_", "COV_"))}
    variables |= {"CELERITY_BACKEND": "cpu", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    client = nbclient.NotebookClient(
        nbformat.v4.new_notebook(), timeout=60, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    with client.setup_kernel(env=variables):
        yield Notebook(client)


def test_cells_run_again(notebook: Notebook) -> None:
    for _ in range(2):
        assert notebook.run(SET_UP) == ""
        assert notebook.run(START) == ""
        assert notebook.run("factor = 2\n" + WRONG) == ""
        assert [notebook.run(RUN), notebook.run(RUN)] == ["16.0", "32.0"]
    assert "devices=cpu:2" in notebook.run("celerity.configure(devices='cpu:3')")


def test_cells_after_a_failure_get_one_line(notebook: Notebook) -> None:
    notebook.run(SET_UP)
    notebook.run(START)
    notebook.run(WRONG)
    notebook.run("queue.parallel_for(8, scale, u.read_write(access.one_to_one()))\nqueue.wait()")
    first = notebook.traceback()
    assert not [line for line in first if "celerity_py/" in line or "IPython" in line], first
    assert [line for line in first if line.startswith("  Cell In[")] == [
        "  Cell In[3], line 2, in scale",
        "  Cell In[4], line 2, in <module>",
    ]
    assert sum("name 'factor' is not defined" in line for line in first) == 1
    assert "(submitted at Cell In[4]:1)" in first[-1]
    for cell in ["queue.wait()", "queue.fence(u)", "queue.parallel_for(8, scale)"]:
        assert "name 'factor' is not defined" in notebook.run(cell)
        assert len(notebook.traceback()) == 1
    notebook.run("queue = celerity.Queue()\nqueue.parallel_for(8.5, scale)")
    assert notebook.traceback()[1] == "  Cell In[8], line 2, in <module>"


def test_cells_run_again_after_a_failure(notebook: Notebook) -> None:
    notebook.run(SET_UP)
    notebook.run(START)
    notebook.run(WRONG)
    told = notebook.run(RUN)
    assert "NameError: name 'factor' is not defined" in told
    assert "run the cells that make the queue and the buffers again" in told
    assert notebook.run("factor = 3") == ""
    assert "factor" in notebook.run(RUN), "the queue has failed for good"
    assert notebook.run("queue = celerity.Queue()") == ""
    told = notebook.run(RUN)
    assert told.startswith("ClosedQueue: B"), told
    assert '"u" (made at ' in told
    assert "belongs to a runtime that has failed: task 'scale' failed (submitted at" in told
    assert notebook.run(SET_UP) == ""
    assert notebook.run(START) == ""
    assert notebook.run(RUN) == "24.0"


def test_a_with_block_fails_in_its_cell_and_runs_again(notebook: Notebook) -> None:
    block = "with celerity.Queue() as queue:\n    u = celerity.Buffer.from_array(np.ones(8))\n" + "".join(
        f"    {line}\n" for line in RUN.strip().splitlines()
    )
    notebook.run(SET_UP + WRONG)
    assert "factor" in notebook.run(block)
    assert notebook.run("factor = 5\n" + block) == "40.0"
    assert notebook.run(block) == "40.0"


def test_progress_is_a_display_of_the_cell_that_began_it(notebook: Notebook) -> None:
    notebook.run(SET_UP)
    notebook.run(START)
    notebook.run("factor = 2\n" + WRONG)
    loop = "for step in celerity.progress(range(8), label='scales'):\n    "
    loop += "queue.parallel_for(8, scale, u.read_write(access.one_to_one()))\nqueue.close()"
    cell = nbformat.v4.new_code_cell(loop)
    notebook.client.nb.cells.append(cell)
    notebook.client.execute_cell(cell, len(notebook.client.nb.cells) - 1)
    (display,) = cell.outputs
    assert display["output_type"] == "display_data"
    assert display["data"]["text/plain"].startswith(
        "scales  ██████████████████████████████  8 done, 8 submitted of 8  "
    )
