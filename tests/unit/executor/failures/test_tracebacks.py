# SPDX-License-Identifier: MIT
"""The output of a program that fails: its own lines, once, and the remedy."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import TracebackType

import pytest

from celerity_py.executor.failures.failure import HOW_TO_GO_ON, Failure
from celerity_py.executor.failures.user_frames import trim_frames
from tests.support.scripts import line_of, run

PACKAGE = str(Path(sys.modules["celerity_py"].__file__ or "").parent)


def files_of(stderr: str) -> list[str]:
    return re.findall(r'^  File "(.*)", line', stderr, re.MULTILINE)


PROGRAMS = {
    "kernel": """
        def kernel(chunk, u):
            u[chunk.box] = 1 / 0
        """,
    "library": """
        def kernel(chunk, u):
            np.dot(np.ones(3), np.ones(4))
        """,
    "view": """
        def kernel(chunk, u):
            u[100]
        """,
}
WAITS = ["queue.wait()", "queue.fence(u).result()", "queue.close()"]
SUBMIT = """
        queue = celerity.Queue()
        u = celerity.Buffer.from_array(np.ones(8), name="u")
        queue.parallel_for(8, kernel, u.read_write(access.one_to_one()))
        """


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("wait", WAITS)
def test_a_failure_shows_lines_of_the_program_only(program: str, wait: str, tmp_path: Path) -> None:
    result = run(tmp_path, program + SUBMIT + f"{wait}\n")
    assert result.returncode == 1
    assert files_of(result.stderr) == [str(tmp_path / "app.py")] * 2, result.stderr
    traceback = result.stderr.split("this call of the program raises it")[1]
    assert wait in traceback
    mistakes = ["division by zero", "not aligned", "outside of its declared region"]
    assert sum(map(result.stderr.count, mistakes)) == 1, result.stderr
    assert line_of(tmp_path, "queue.parallel_for") in traceback
    assert result.stderr.rstrip().endswith(f". {HOW_TO_GO_ON}")


def test_a_failure_that_nobody_saw_shows_lines_of_the_program_only(tmp_path: Path) -> None:
    await_failure = "while queue._runtime.state.failure is None: time.sleep(0.01)\n"
    result = run(tmp_path, PROGRAMS["kernel"] + SUBMIT + await_failure)
    assert files_of(result.stderr) == [str(tmp_path / "app.py")], result.stderr
    assert "ZeroDivisionError" in result.stderr


def test_an_error_at_submit_ends_at_the_line_that_submits(tmp_path: Path) -> None:
    result = run(tmp_path, "queue = celerity.Queue()\nqueue.parallel_for(8, lambda chunk: None, 5)\n")
    assert files_of(result.stderr) == [str(tmp_path / "app.py")], result.stderr
    assert "queue.parallel_for(8" in result.stderr


UNSEEN = {
    "returned": "queue.parallel_for(8, lambda chunk, u: u[chunk.box] * 2, u.read(access.one_to_one()))",
    "kept": "kept = []\nqueue.host_task(lambda part, u: kept.append(u[...]), u.read(access.all()))",
    "contents": 'u = celerity.Buffer.from_function(8, "f8", lambda box: np.ones(3), name="u")\nqueue.fence(u)',
}


@pytest.mark.parametrize("program", UNSEEN.values(), ids=UNSEEN)
def test_a_mistake_that_is_found_behind_a_call_shows_no_line_of_ours(program: str, tmp_path: Path) -> None:
    queue = 'queue = celerity.Queue()\nu = celerity.Buffer.from_array(np.ones(8), name="u")\n'
    result = run(tmp_path, queue + program + "\nqueue.wait()\n")
    assert files_of(result.stderr) == [str(tmp_path / "app.py")], result.stderr
    assert result.stderr.count("Traceback") == 1


def test_other_exceptions_are_printed_as_ever(tmp_path: Path) -> None:
    result = run(tmp_path, "from celerity_py.vocabulary.index_spaces import box_of\nbox_of.missing\n")
    assert "AttributeError" in result.stderr
    mine = """
        def hook(kind, error, trace):
            print("mine", kind.__name__)

        sys.excepthook = hook
        celerity.Buffer(-1)
        """
    assert run(tmp_path, mine).stdout == "mine UsageError\n"


def test_every_call_after_a_failure_says_what_to_do(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        PROGRAMS["kernel"]
        + SUBMIT
        + """
        calls = [
            queue.wait,
            queue.barrier,
            queue.flush,
            lambda: queue.parallel_for(8, kernel, 1),
            lambda: queue.host_task(lambda part: None),
            lambda: queue.fence(u),
        ]
        for call in calls:
            try:
                call()
            except celerity.TaskFailed as error:
                print(error)
        """,
    )
    lines = result.stdout.splitlines()
    assert len(lines) == 6, result.stderr
    for line in lines:
        assert line.startswith("rank 0: task 'kernel' failed (submitted at ")
        assert "ZeroDivisionError: division by zero. Its chunk was [" in line
        assert line.endswith(HOW_TO_GO_ON)


def test_a_rank_that_tells_of_itself_is_named_once() -> None:
    failure = Failure(1, "ValueError: mine", "task 'step'", "app.py:3")
    assert failure.message() == "rank 1: task 'step' failed (submitted at app.py:3): ValueError: mine"
    assert failure.message(teller=0) == failure.message()
    assert failure.message(teller=1) == "task 'step' failed (submitted at app.py:3): ValueError: mine"
    assert Failure(1, "ValueError: mine").message(teller=1) == "the program failed: ValueError: mine"
    told = Failure(1, "ValueError: mine", site="app.py:3").message(teller=1, is_told=True)
    assert told == "the program failed at app.py:3: as told above"


def trace_of(*files: str) -> list[str]:
    """The files of the frames that `trim_frames` leaves of a traceback through these files."""
    trace: TracebackType | None = None
    for file in reversed(files):
        namespace: dict[str, object] = {}
        exec(compile("import sys\ndef f(): return sys._getframe()", file, "exec"), namespace)
        frame = namespace["f"]()  # type: ignore[operator]
        trace = TracebackType(trace, frame, 0, 1)
    left = trim_frames(trace)
    result = []
    while left is not None:
        result.append(left.tb_frame.f_code.co_filename)
        left = left.tb_next
    return result


@pytest.mark.parametrize(
    "folder",
    ["/home/me/.local/lib/python3.12/site-packages", "/usr/lib/python3/dist-packages", "/other/env/site-packages"],
)
def test_a_package_is_a_library_wherever_it_is_installed(folder: str) -> None:
    library, ours = f"{folder}/tool/__init__.py", f"{PACKAGE}/queue.py"
    assert trace_of("app.py", library, ours) == ["app.py"]
    assert trace_of("app.py", ours, library) == ["app.py"]


def test_frames_of_libraries_stay_where_the_program_called_them() -> None:
    ours, numpy, stdlib = f"{PACKAGE}/queue.py", sys.modules["numpy"].__file__ or "", sys.modules["json"].__file__ or ""
    assert trace_of(ours, "app.py", numpy) == ["app.py", numpy]
    assert trace_of("app.py", ours, stdlib) == ["app.py"]
    assert trace_of("app.py", ours, "mapper.py", ours) == ["app.py", ours, "mapper.py"]
    assert trace_of("app.py", numpy, ours) == ["app.py"]
    assert trace_of(ours, stdlib) == [ours, stdlib]
    assert trace_of(stdlib, "app.py") == [stdlib, "app.py"]
