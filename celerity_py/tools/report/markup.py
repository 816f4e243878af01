# SPDX-License-Identifier: MIT
"""Pieces of HTML. All texts are escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, Final

from celerity_py.tools.report.critical_path import CAUSES, CriticalPath
from celerity_py.tools.report.words import CAUSE_WORDS, format_percent, format_time

#: Rows of a table, and characters of a cell: the page has a greatest size.
MAX_TABLE_ROWS: Final = 120
_MAX_CELL: Final = 300


def cell(value: object) -> str:
    """A text of bounded length, escaped."""
    text = str(value)
    return escape(text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table that scrolls by itself if it is too wide. Of very many rows, the first ones are shown."""
    lines = list(rows)
    left_out = len(lines) - MAX_TABLE_ROWS
    if left_out > 0:
        caption = f"{caption} {left_out} more rows are left out."
    left = [' class="words"' if any(str(line[at])[:1].isalpha() for line in lines) else "" for at in range(len(heads))]
    body = "\n".join(
        f"<tr>{''.join(f'<td{kind}>{cell(value)}</td>' for value, kind in zip(line, left, strict=True))}</tr>"
        for line in lines[:MAX_TABLE_ROWS]
    )
    return _framed(caption, list(zip(heads, left, strict=True)), body)


def _framed(caption: str, heads: Sequence[tuple[str, str]], body: str) -> str:
    """A table in a frame that the keyboard can scroll. The heads come with their attributes."""
    head = "".join(f'<th scope="col"{kind}>{cell(text)}</th>' for text, kind in heads)
    return (
        f'<p class="dim">{escape(caption)}</p>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{cell(heads[0][0] or "figures")}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
    )


def facts(known: Mapping[str, object]) -> str:
    """Names and values."""
    return "<dl>" + "".join(f"<dt>{cell(name)}</dt><dd>{cell(value)}</dd>" for name, value in known.items()) + "</dl>\n"


def section(name: str, title: str, content: str) -> str:
    """A part of the page with a heading."""
    return f'<section id="{name}"><h2>{cell(title)}</h2>\n{content}</section>\n'


def swatch(cause: str) -> str:
    """A small square in the colour of a cause."""
    return f'<span class="swatch" style="background:var(--{cause.replace(" ", "-")})"></span>'


def cause_bar(path: CriticalPath) -> str:
    """The shares of the causes as a coloured bar."""
    parts, words = [], []
    for cause, spent in path.by_cause().items():
        if spent > 0:
            share, colour = spent / path.length, f"var(--{cause.replace(' ', '-')})"
            parts.append(f'<span style="width:{100 * share:.2f}%;background:{colour}"></span>')
            words.append(f"{CAUSE_WORDS[cause]} {format_percent(share)}")
    return f'<div class="bar" role="img" aria-label="{cell("; ".join(words))}">{"".join(parts)}</div>\n'


def cause_table(caption: str, heads: Sequence[str], paths: Sequence[CriticalPath]) -> str:
    """Time and share by cause of one path or several, with the colours of the causes."""
    spent = [path.by_cause() for path in paths]
    rows = []
    for cause in CAUSES:
        if not any(each[cause] > 0 for each in spent):
            continue
        values = "".join(
            f"<td>{format_time(each[cause])}</td><td>{format_percent(path.share(cause))}</td>"
            for each, path in zip(spent, paths, strict=True)
        )
        rows.append(f"<tr><td>{swatch(cause)}{CAUSE_WORDS[cause]}</td>{values}</tr>")
    return _framed(caption, [(text, "") for text in heads], "".join(rows))


def page(title: str, body: str, content: Mapping[str, Any] | None = None) -> str:
    """A whole page, which needs no other file.

    Args:
        title: Of the window.
        body: HTML.
        content: For the script of the timeline, if the page has one.
    """
    files = resources.files("celerity_py.tools.report")
    text = {name: files.joinpath(f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    if content is not None:
        data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        body += f'<script type="application/json" id="content">{data}</script>\n<script>\n{text["js"]}</script>\n'
    # The body comes last: it may contain the marks of the others.
    return text["html"].replace("@title@", cell(title)).replace("@style@", text["css"]).replace("@body@", body)
