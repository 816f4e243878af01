# SPDX-License-Identifier: MIT
"""Tables of the command line and the live view: by rich on a terminal, and as plain text elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from celerity_py.vocabulary import tables
from celerity_py.vocabulary.tables import Table, aligned, plain_text, rich_text, write_tables

FIGURES = Table(
    [("", "rank 0", "rank 1"), ("sent", "[1] KiB", "2 KiB"), ("tasks", 3, 40)], has_heads=True, is_numeric=True
)
FACTS = Table([("Python", "3.11 (/usr/bin/python)"), ("MPI", "[bold]MPICH[/bold]")], "software")


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def written(*, is_terminal: bool) -> str:
    stream = Stream(is_terminal=is_terminal)
    write_tables(["figures", FIGURES, "", FACTS], stream)
    return stream.getvalue()


def test_columns_are_aligned_and_end_without_blanks() -> None:
    assert aligned([("a", 1, ""), ("long", 100, "x")]) == "a     1\nlong  100  x"
    assert aligned([("a", 1), ("b", 100)], indent=" ", to_the_right=True) == " a    1\n b  100"


PLAIN = (
    "figures\n"
    "        rank 0  rank 1\n"
    "sent   [1] KiB   2 KiB\n"
    "tasks        3      40\n"
    "\n"
    "software\n"
    "  Python  3.11 (/usr/bin/python)\n"
    "  MPI     [bold]MPICH[/bold]\n"
)


def test_a_pipe_gets_plain_text() -> None:
    assert written(is_terminal=False) == PLAIN == plain_text(["figures", FIGURES, "", FACTS])


def test_a_terminal_gets_a_table_of_rich_with_the_same_texts() -> None:
    pytest.importorskip("rich")
    text = written(is_terminal=True)
    assert "\x1b[" in text
    bare = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert re.search(r"rank 0 +rank 1", bare)
    assert re.search(r"─{20}", bare)
    assert re.search(r"sent +\[1\] KiB +2 KiB", bare), "brackets are no markup"
    assert re.search(r"MPI +\[bold\]MPICH\[/bold\]", bare)


def test_a_line_of_a_table_that_is_cut_ends_at_the_edge_of_the_terminal() -> None:
    pytest.importorskip("rich")
    finding = f"u was resized{' again' * 20}"
    table = Table([(finding,), ("short",)], "Advice", is_cut=True)
    lines = rich_text([table], is_terminal=False, width=60).splitlines()
    assert [line.strip() for line in lines] == ["Advice", f"{finding[:57]}…", "short"]
    assert finding in plain_text([table])


def test_a_terminal_without_rich_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "has_rich", lambda: False)
    assert written(is_terminal=True) == PLAIN


def test_numbers_stand_at_the_right_and_words_at_the_left() -> None:
    pytest.importorskip("rich")
    rows = [("rank", "tasks", "waits for"), (0, 5, ""), (1, 1000, "rank 0: u"), (2, 7, "nobody")]
    table = Table(rows, has_heads=True, is_numeric=True)
    lines = rich_text([table], is_terminal=False, width=80).splitlines()
    at = [re.search(r" 5 |1000 | 7 ", line) for line in lines]
    assert {found.end() for found in at if found} == {next(found.end() for found in at if found)}
    assert [line.index("rank 0") for line in lines if "rank 0" in line] == [
        line.index("nobody") for line in lines if "nobody" in line
    ]
