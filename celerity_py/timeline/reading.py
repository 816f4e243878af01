# SPDX-License-Identifier: MIT
"""Reads the files that `chrome.py` writes: what they tell about their ranks, then the events, a line each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

from celerity_py.vocabulary.notation import printable

if TYPE_CHECKING:
    from pathlib import Path

#: What a file tells about each rank, with the type of each fact. Facts that are only shown may have any type.
_FACTS: Final[dict[str, type | tuple[type, ...]]] = {
    "rank": int,
    "size": int,
    "origin_ns": int,
    "clock_error_us": (int, float),
    "events_lost": int,
    "num_cores": int,
    "num_devices": int,
    "bytes_per_second": list,
    "versions": dict,
    "settings": dict,
    "changed_settings": dict,
}
_LINES_AT_ONCE: Final = 4096
_MOST_RANKS: Final = 1 << 24
#: Of the parser, for texts that are no JSON or nest too deeply.
_PARSE_ERRORS: Final = (ValueError, RecursionError)


@contextlib.contextmanager
def open_timeline(path: Path) -> Iterator[TextIO]:
    """Open a file for the functions below.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is no text.
    """
    try:
        with path.open(encoding="utf-8") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error}. Was the file changed?") from None


def read_head(path: Path, file: TextIO) -> list[dict[str, Any]]:
    """What a file tells about its ranks. Leaves the file at the first event.

    Raises:
        ValueError: If it is no timeline.
    """
    head = "".join(file.readline() for _ in range(3))
    try:
        content = json.loads(head + "]}")
        ranks: list[dict[str, Any]] = [_with_printable_texts(rank) for rank in content["otherData"].values()]
        is_ours = bool(ranks) and not content["traceEvents"] and all(map(_is_ours, ranks))
    except (*_PARSE_ERRORS, KeyError, AttributeError, TypeError):
        is_ours = False
    if not is_ours:
        raise ValueError(
            f"{path} is no timeline of this version of celerity_py. Make one with CELERITY_TRACE=out.json, and give "
            f"the files that the run has written, or those that celerity-py trace merge has made of them."
        )
    return ranks


def _is_ours(rank: dict[str, Any]) -> bool:
    counts = [rank[name] for name, kind in _FACTS.items() if kind is int]
    is_right = all(isinstance(rank[name], kind) for name, kind in _FACTS.items())
    is_right = is_right and all(type(count) is int and 0 <= count < 2**63 for count in counts)
    numbers = [rank["clock_error_us"], *rank["bytes_per_second"]]
    return is_right and rank["rank"] < rank["size"] < _MOST_RANKS and all(map(_is_number, numbers))


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value < 1e18


def _with_printable_texts(value: Any) -> Any:
    """The same, with escapes for control characters: parts of it go to a terminal."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _with_printable_texts(item) for key, item in value.items()}
    return [_with_printable_texts(item) for item in value] if isinstance(value, list) else value


def read_heads(paths: Sequence[Path]) -> dict[int, dict[str, Any]]:
    """What the files of one run tell about its ranks, by their numbers: a file per rank, or merged ones.

    Raises:
        OSError: If a file cannot be read.
        ValueError: If a file is no timeline, is of another run than the first, or repeats a rank.
    """
    heads: dict[int, dict[str, Any]] = {}
    for path in paths:
        with open_timeline(path) as file:
            ranks = read_head(path, file)
        for rank in ranks:
            if rank["rank"] in heads:
                raise ValueError(f"{path}: another file holds rank {rank['rank']}, too. Name each file once.")
            if any(other["origin_ns"] != rank["origin_ns"] for other in heads.values()):
                raise ValueError(f"{path} is of another run than {paths[0]}. Name the files of one run.")
            heads[rank["rank"]] = rank
    return heads


def read_events(path: Path, file: TextIO) -> Iterator[list[dict[str, Any]]]:
    """The events of a file that was just opened, many at a time.

    Raises:
        ValueError: If the file is no timeline, a line is no JSON, or the file ends early.
    """
    read_head(path, file)
    lines: list[str] = []
    is_complete = False
    for line in file:
        text = line.rstrip().rstrip(",")
        if text == "]}":
            is_complete = True
            break
        if text:
            lines.append(text)
        if len(lines) == _LINES_AT_ONCE:
            yield _parse(path, lines)
            lines.clear()
    if not is_complete:
        raise ValueError(f"{path} ends in the middle. Was the disk full? Trace the run again.")
    yield _parse(path, lines)


def _parse(path: Path, lines: list[str]) -> list[dict[str, Any]]:
    try:
        events: list[dict[str, Any]] = json.loads(f"[{','.join(lines)}]")
    except _PARSE_ERRORS as error:
        raise ValueError(f"{path}: a line is not understood: {error}. Was the file changed?") from None
    return events
