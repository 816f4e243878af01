# SPDX-License-Identifier: MIT
"""The notebooks of the documents run, and their outputs are those that they store."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="notebooks need nbclient")
pytest.importorskip("ipykernel", reason="notebooks need ipykernel")

from tests.support.notebooks import NOTEBOOKS, execute, num_pictures_of, read, texts_of

_LARGEST_KB = 100


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_prints_what_it_stores(path: Path, tmp_path: Path) -> None:
    stored = read(path)
    assert path.stat().st_size < _LARGEST_KB * 1000
    assert num_pictures_of(stored) >= 1
    executed = execute(path, tmp_path)
    assert texts_of(executed) == texts_of(stored), "python -m tests.support.notebooks stores the outputs"
    assert num_pictures_of(executed) == num_pictures_of(stored)
