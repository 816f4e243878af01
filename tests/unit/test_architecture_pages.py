# SPDX-License-Identifier: MIT
"""The pages of the architecture are short, and tell of files and names that exist."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OVERVIEW = ROOT / "docs/architecture.md"
PAGES = sorted((ROOT / "docs/architecture").glob("*.md"))
MOST_WORDS_OF_OVERVIEW = 1500
MOST_WORDS_OF_PAGE = 1200
FOLDERS = ("celerity_py", "executor", "scheduler", "tests", "cluster_jobs")
SOURCES = (".py", ".pyi", ".hpp", ".cpp", ".cuh", ".js", ".md")
# Folders that hold a room; each room is on a page.
HOUSES = ("celerity_py", "executor", "scheduler/core", "executor/core", "tests")
# Names of other libraries.
FOREIGN = {"MPI_ANY_SOURCE", "concurrent", "proc"}


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT / "docs"))


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _code(page: Path) -> set[str]:
    return set(re.findall(r"`([^`]+)`", _prose(page)))


@functools.cache
def _files() -> frozenset[str]:
    """The paths of sources; a link to a folder counts with the folder."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES]
    return frozenset(str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts)


@functools.cache
def _words_of_sources() -> frozenset[str]:
    read = [path for path in _files() if not path.startswith("tests/unit/") and not path.endswith(".md")]
    texts = [(ROOT / path).read_text() for path in [*read, "Makefile", "pyproject.toml"]]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def _exists(path: str) -> bool:
    """Whether a file or folder has a path that ends so."""
    if path.endswith("/"):
        return (ROOT / path).is_dir() or any(f"/{path}" in f"/{file}" for file in _files())
    return (ROOT / path).is_file() or any(f"/{file}".endswith(f"/{path}") for file in _files())


def _is_path(text: str) -> bool:
    return re.fullmatch(r"[\w./-]+", text) is not None and (text.endswith(("/", *SOURCES, ".toml")))


@pytest.mark.parametrize("page", [OVERVIEW, *PAGES], ids=_name)
def test_a_page_is_short(page: Path) -> None:
    most = MOST_WORDS_OF_OVERVIEW if page == OVERVIEW else MOST_WORDS_OF_PAGE
    assert len(_prose(page).split()) <= most


@pytest.mark.parametrize("page", [OVERVIEW, *PAGES], ids=_name)
def test_a_page_names_files_that_exist(page: Path) -> None:
    named = [text for text in _code(page) if _is_path(text)]
    assert [path for path in named if not _exists(path)] == []


@pytest.mark.parametrize("page", [OVERVIEW, *PAGES], ids=_name)
def test_a_page_names_what_the_sources_have(page: Path) -> None:
    """Each name in code, such as `scheduler::submit`, is a word of some source. Settings are in lower case there."""
    named = {text: re.findall(r"\w+", text) for text in _code(page) if not _is_path(text)}
    unknown = {
        text
        for text, words in named.items()
        for word in words
        if not {word, word.removeprefix("CELERITY_").lower()} & (_words_of_sources() | FOREIGN)
    }
    assert unknown == set()


def test_the_overview_leads_to_each_page_and_each_page_leads_back() -> None:
    linked = set(re.findall(r"\]\(architecture/(\w+\.md)", OVERVIEW.read_text()))
    assert linked == {page.name for page in PAGES}
    assert [page.name for page in PAGES if "](../architecture.md" not in page.read_text()] == []
    listed = re.findall(r"- architecture/(\w+\.md)", (ROOT / "mkdocs.yml").read_text())
    assert sorted(listed) == sorted(linked)


def test_each_page_of_a_room_says_where_new_things_go() -> None:
    without = {page.name for page in PAGES if "\n## Where things go\n" not in page.read_text()}
    assert without == {"access_walk.md"}


@pytest.mark.parametrize("house", HOUSES)
def test_each_room_is_on_a_page(house: str) -> None:
    rooms = {file.removeprefix(f"{house}/").split("/")[0] for file in _files() if file.startswith(f"{house}/")}
    rooms = {room for room in rooms if (ROOT / house / room).is_dir() and not (ROOT / house / room).is_symlink()}
    named = {
        part for page in [OVERVIEW, *PAGES] for text in _code(page) if text.endswith("/") for part in text.split("/")
    }
    assert rooms - named - {"core"} == set()


def test_lengths_and_names_are_told_apart() -> None:
    assert _is_path("tests/unit/")
    assert _is_path("pacing.cpp")
    assert not _is_path("scheduler::submit")
    assert not _is_path("celerity.progress")
    assert _exists("pipeline/pacing.cpp")
    assert not _exists("acing.cpp")
    assert not _exists("pipeline/none.cpp")
