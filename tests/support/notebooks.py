# SPDX-License-Identifier: MIT
"""Runs the notebooks of the documents, and stores their outputs: `python -m tests.support.notebooks`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import nbclient
import nbformat

FOLDER: Final = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS: Final = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """The notebook as it is stored."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def execute(path: Path, folder: Path) -> Any:
    """The notebook after a run of all cells in `folder`, with its outputs and nothing that changes from run to run."""
    notebook = read(path)
    client: Any = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CELERITY_", "COV_"))}
    kept |= {"CELERITY_BACKEND": "cpu", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with client.setup_kernel(env=kept):
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
            cell.metadata.pop("execution", None)
    return notebook


def texts_of(notebook: Any) -> list[str]:
    """What the cells print, without their pictures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["text"] for output in outputs if output["output_type"] == "stream"]


def num_pictures_of(notebook: Any) -> int:
    """The number of pictures that the cells draw."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", ()) for output in outputs)


if __name__ == "__main__":
    for each in NOTEBOOKS:
        nbformat.write(execute(each, FOLDER), each)  # type: ignore[no-untyped-call]
