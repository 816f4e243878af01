# SPDX-License-Identifier: MIT
"""The pictures of the documents show what the planner does today, and each range mapper and division."""

from __future__ import annotations

import re
from pathlib import Path

from celerity_py import access, hints
from tests.support.pictures import FOLDER, pictures

PAGE, README = FOLDER.parent / "pictures.md", FOLDER.parents[1] / "README.md"
DRAWN = pictures()


def test_the_pictures_are_those_of_today() -> None:
    stored = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert stored == DRAWN, "python -m tests.support.pictures draws them again"


def test_the_documents_show_each_picture_once() -> None:
    shown = re.findall(r"\]\((?:docs/)?pictures/(.*?)\)", PAGE.read_text() + README.read_text())
    assert sorted(shown) == sorted(DRAWN)


def test_there_is_a_picture_of_each_range_mapper_and_of_each_hint_that_divides() -> None:
    names = {Path(name).stem for name in DRAWN}
    assert {f"mapper_{name}" for name in access.__all__ if name != "pure"} <= names  # a callable decides by itself
    # As without a hint; a third dimension cannot be drawn; and one that divides nothing.
    others = {"Hint", "split_1d", "split_3d", "recompute"}
    assert {f"split_{name}" for name in hints.__all__ if name not in others} <= names
