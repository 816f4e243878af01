# SPDX-License-Identifier: MIT
"""Names of tasks and buffers, as messages, logs, tables, graphs, timelines and reports show them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError
from celerity_py.tools.cli.main import main
from celerity_py.vocabulary.notation import printable
from tests.support.scripts import run

EVIL = "\x1b[31m\x07red\n\u202eline\x9b"
SHOWN = r"\x1b[31m\x07red\n\u202eline\x9b"
#: What formats, quotes and encodings of native code could cut or change.
ODD = "\u00f6\u4e2d \"50 %\" %s%n {0} \\ 'x'\n"
ODD_SHOWN = "\u00f6\u4e2d \"50 %\" %s%n {0} \\ 'x'\\n"
TASK, BUFFER = f'"{ODD_SHOWN}"', f'B1 "{ODD_SHOWN}"'


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("u", "u"),
        ("\u00e9 \U0001f30d", "\u00e9 \U0001f30d"),
        (EVIL, SHOWN),
        ("a\\x1b", "a\\x1b"),
        ("\x7f\u2028", r"\x7f\u2028"),
    ],
)
def test_control_characters_of_a_name_are_escaped_and_others_stay(name: str, shown: str) -> None:
    assert printable(name) == shown


def test_submits_buffers_and_kernels_have_names_that_can_be_shown(queue: celerity.Queue) -> None:
    u = celerity.Buffer(8, name=EVIL)
    assert u.name == SHOWN
    assert repr(u) == f'<Buffer B{u.record.id} "{SHOWN}", shape (8,), float32>'

    def work(chunk: Any, u: Any) -> None: ...

    step, named = celerity.kernel(work), celerity.kernel(work, name=EVIL)
    function: Any = lambda chunk, u: None  # noqa: E731
    function.__name__ = EVIL
    write = u.write(access.one_to_one())
    labels = []
    for _ in range(2):  # the second ones may be repeated by native code
        queue.parallel_for(8, step, write, name=EVIL)
        queue.parallel_for(8, named, write)
        queue.parallel_for(8, function, write)
        queue.host_task(function, u.read(access.all()))
        newest = queue._runtime.next_id
        known = queue._runtime.submissions
        labels += [known[number].name for number in range(newest - 4, newest) if number in known]
    assert set(labels) == {SHOWN}


@pytest.mark.parametrize(
    "make",
    [lambda: celerity.kernel(print, name=3), lambda: celerity.progress(range(3), label=3)],  # type: ignore[call-overload, arg-type]
)
def test_a_name_that_is_no_string_is_refused(make: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="3"):
        make()


def test_no_control_character_of_a_name_reaches_a_terminal_or_a_file(tmp_path: Path, capsys: Any) -> None:
    outcome = run(
        tmp_path,
        f"""
        def work(chunk, out, u): out[chunk.box] = u[chunk.box]
        def fail(chunk, u): raise ValueError("no")
        with celerity.Queue() as queue:
            u, out = celerity.Buffer(64, name={EVIL!r}), celerity.Buffer(64, name={EVIL!r})
            for _ in celerity.progress(range(3), label={EVIL!r}):
                queue.parallel_for(64, work, out.write(access.one_to_one()), u.read(access.all()), name={EVIL!r})
            print(u, out, queue.fence(out), queue.statistics(), queue.graphs().task.dot())
            queue.wait()
            queue.parallel_for(64, fail, u.read(access.all()), name={EVIL!r})
        """,
        CELERITY_LOG_LEVEL="debug",
        CELERITY_LIVE="1",
        CELERITY_TRACE=str(tmp_path / "trace"),
        CELERITY_PRINT_GRAPHS=str(tmp_path / "graphs"),
    )
    assert outcome.returncode == 1
    assert "TaskFailed: rank 0: task '" + SHOWN in outcome.stderr
    report = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "trace.json"), "-o", str(report)]) == 0
    texts = {"output": outcome.stdout, "errors": outcome.stderr, "report": "".join(capsys.readouterr())}
    texts |= {str(path): path.read_text() for path in [report, *tmp_path.glob("graphs/*.dot")]}
    assert len(texts) > 5
    for where, text in texts.items():
        found = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert found is None, (where, found)
    assert "red\\n" in texts["errors"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            "queue.parallel_for(64, read, u.read(access.all()), name=NAME)",
            f"task T2 {TASK} reads buffer {BUFFER} [0:64]",
        ),
        (
            "queue.parallel_for(64, read, u.write(access.all()), name=NAME)",
            f"kernel {TASK}: buffer {BUFFER} through all()",
        ),
        (
            "queue.parallel_for(65, read, u.read(access.one_to_one()), name=NAME)",
            f"kernel {TASK}, read access to {BUFFER}",
        ),
        ("queue.parallel_for(64, leave, u.write(access.one_to_one()), name=NAME)", f"task '{ODD_SHOWN}' failed"),
        (
            "queue.parallel_for(64, die, u.write(access.one_to_one()), name=NAME)",
            f"(SIGABRT) in kernel {TASK} (submitted at",
        ),
        (
            "queue.parallel_for(big.shape, read, big.write(access.one_to_one()), name=NAME)",
            f"no room for 64 TiB for B2 {TASK}",
        ),
    ],
    ids=["reads", "overlap", "outside", "fails", "signal", "memory"],
)
def test_names_are_whole_in_the_messages_of_native_code(call: str, told: str, tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        f"""
        import signal
        from celerity_py._native import install_last_words
        NAME = {ODD!r}
        def read(chunk, u): ...
        def leave(chunk, u): raise ValueError
        def die(chunk, u): signal.raise_signal(signal.SIGABRT)
        with celerity.Queue() as queue:
            install_last_words(0, [])  # as a rank of several does
            u, big = celerity.Buffer(64, name=NAME), celerity.Buffer((1 << 44,), np.float64, name=NAME)
            {call}
            queue.wait()
        """,
    )
    assert told in outcome.stderr, outcome.stderr
    assert ODD not in outcome.stderr


def test_names_are_whole_in_a_timeline(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        f"""
        with celerity.Queue() as queue:
            u = celerity.Buffer(64, name={ODD!r})
            queue.parallel_for(64, lambda chunk, u: None, u.write(access.one_to_one()), name={ODD!r})
        """,
        CELERITY_TRACE=str(tmp_path / "trace"),
    )
    assert outcome.returncode == 0, outcome.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(ODD_SHOWN in str(event.get("name")) for event in events)


def test_a_buffer_without_a_name_is_called_by_its_number_only(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        def work(chunk, out, u): out[chunk.box] = u[chunk.box]
        with celerity.Queue() as queue:
            u, out = celerity.Buffer(64), celerity.Buffer(64)
            queue.parallel_for(64, work, out.write(access.one_to_one()), u.read(access.one_to_one()))
            done = celerity.Buffer.from_array(np.array(0))
            for _ in queue.until(lambda: queue.fence(done), at_most=3, keep=lambda: out):
                pass
            print(u, queue.graphs().task.dot())
        """,
        CELERITY_PRINT_GRAPHS=str(tmp_path / "graphs"),
    )
    assert outcome.returncode == 0, outcome.stderr
    assert 'task T2 "work" reads buffer B1 [0:64], but nothing' in outcome.stderr
    assert '""' not in outcome.stderr
    assert 'B4 "B2 kept"' in outcome.stdout.replace("&quot;", '"')
