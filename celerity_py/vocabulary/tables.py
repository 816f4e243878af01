# SPDX-License-Identifier: MIT
"""Tables in text: by rich where it is installed and a person reads, and in aligned columns elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple, TextIO


class Table(NamedTuple):
    """Rows of the same length."""

    rows: Sequence[Sequence[Any]]
    title: str = ""
    #: Whether the first row has the names of the columns.
    has_heads: bool = False
    #: Numbers stand in all columns but the first.
    is_numeric: bool = False
    #: In a terminal, the last column ends at its edge, and each row is one line.
    is_cut: bool = False


def has_rich() -> bool:
    """Whether rich is installed."""
    return find_spec("rich") is not None


def write_tables(parts: Sequence[Table | str], stream: TextIO) -> None:
    """Write tables, and lines between them: as `rich_text` to a terminal if rich is installed, else as `plain_text`.

    The plain text has no frames, so that it can be pasted anywhere and pass through pipes.
    """
    text = rich_text(parts, is_terminal=True) if stream.isatty() and has_rich() else plain_text(parts)
    stream.write(text)
    stream.flush()


def plain_text(parts: Sequence[Table | str]) -> str:
    """Titles, and beneath each of them the columns, two blanks apart."""
    lines = []
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
            continue
        if part.title:
            lines.append(part.title)
        if part.rows:
            lines.append(aligned(part.rows, indent="  " if part.title else "", to_the_right=part.is_numeric))
    return "".join(f"{line}\n" for line in lines)


def rich_text(parts: Sequence[Table | str], *, is_terminal: bool, width: int | None = None) -> str:
    """The same by rich.

    Args:
        parts: Tables, and lines between them.
        is_terminal: Whether colours and bold letters are shown.
        width: Of a line, in characters; by default that of the terminal.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=width, highlight=False)
    for part in parts:
        if isinstance(part, str):
            console.print(Text(part))
            continue
        if part.title:
            console.print(Text(part.title, style="bold"))  # a plain str would be read as markup
        if not part.rows:
            continue
        table = RichTable(
            box=box.SIMPLE if part.has_heads else None,
            show_header=part.has_heads,
            pad_edge=bool(part.title),
        )
        cells = [[str(cell) for cell in row] for row in part.rows]
        heads = cells.pop(0) if part.has_heads else [""] * len(cells[0])
        for place, head in enumerate(heads):
            numbers = all(row[place][:1].isdigit() or not row[place] for row in cells)
            is_number = part.is_numeric and place > 0 and numbers
            is_cut = part.is_cut and place == len(heads) - 1
            table.add_column(
                Text(head),
                justify="right" if is_number else "left",
                style="cyan" if place == 0 and len(heads) > 1 else "",
                overflow="ellipsis" if is_cut else "fold",
                no_wrap=is_cut,
            )
        for row in cells:
            table.add_row(*map(Text, row))
        console.print(table)
    written: str = console.file.getvalue()  # type: ignore[attr-defined]
    return written if is_terminal else "".join(f"{line.rstrip()}\n" for line in written.splitlines())


def aligned(rows: Sequence[Sequence[Any]], *, indent: str = "", to_the_right: bool = False) -> str:
    """Show rows in columns, two blanks apart.

    Args:
        rows: All of the same length.
        indent: In front of each.
        to_the_right: Of all columns but the first.
    """
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for first, *others in texts:
        cells = [first.ljust(widths[0])]
        cells += [
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width in zip(others, widths[1:], strict=True)
        ]
        lines.append(indent + "  ".join(cells).rstrip())
    return "\n".join(lines)
