# SPDX-License-Identifier: MIT
"""Timelines with values of other types or out of their range: reported, or refused by an error that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from celerity_py.timeline.chrome import merge
from celerity_py.tools.report.make import make_report
from tests.support.made_traces import MadeTrace, add_chain

VALUES: list[Any] = [None, True, -1, 1.5, "x", [], {}, 2**70, 1e308, float("nan"), "\x1b[1m"]


def paths_of(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_of(item, (*path, key))


def changed(content: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    result = deepcopy(content)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return result


def damaged(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each field of the head, and of the first event of each kind, with each value: what was changed, and the text."""
    start = '"otherData": '
    head = json.loads(lines[1].removeprefix(start).rstrip(","))
    for path in paths_of(head):
        for value in VALUES:
            text = f"{start}{json.dumps(changed(head, path, value))},"
            yield f"{path}={value!r}", "\n".join([lines[0], text, *lines[2:], ""])
    seen = set()
    for place, line in enumerate(lines[3:-1], 3):
        event = json.loads(line.rstrip(","))
        for path in paths_of(event):
            kind = event["ph"], event.get("cat", event["name"]), path
            if kind in seen:
                continue
            seen.add(kind)
            for value in VALUES:
                text = json.dumps(changed(event, path, value)) + line[len(line.rstrip(",")) :]
                yield f"{kind}={value!r}", "\n".join([*lines[:place], text, *lines[place + 1 :], ""])


def outcome_of(call: Callable[[], Any], what: str) -> tuple[Any, str]:
    """The result, or the text of an error of ours."""
    try:
        return call(), ""
    except ValueError as error:
        if type(error) is ValueError:
            return None, str(error)
        pytest.fail(f"{what}: {error!r}")
    except Exception as error:  # noqa: BLE001 - says which change raised it
        pytest.fail(f"{what}: {error!r}")


def test_a_value_of_another_type_is_reported_or_refused_and_never_raises_anything_else(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace)
    lines = trace.write(tmp_path / "a.json").read_text().splitlines()
    path, merged = tmp_path / "damaged.json", tmp_path / "merged.json"
    num_refused = 0
    cases = list(damaged(lines))
    assert len(cases) > 500
    for what, text in cases:
        path.write_text(text)
        report, told = outcome_of(lambda: make_report([path]), what)
        assert report is not None or str(path) in told, what
        assert report is None or "\x1b" not in f"{report.page}{report.title}{report.findings}", what
        num_refused += report is None
        _, told = outcome_of(lambda: merge([path], merged), what)
        assert not told or str(path) in told, what
    assert num_refused > len(cases) / 4


def test_control_characters_of_a_timeline_are_escaped(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace)
    path = trace.write(tmp_path / "a.json")
    path.write_text(path.read_text().replace("step", "\\u001b[31mstep").replace("made.py", "\\u0007made.py"))
    report = make_report([path])
    assert "\\x1b[31mstep" in report.page
    assert report.title.startswith("\\x07made.py")
    assert not {"\x1b", "\x07"} & set(f"{report.page}{report.title}{report.findings}")
