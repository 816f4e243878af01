# SPDX-License-Identifier: MIT
"""Host tasks and kernels that block for ever are named, with the line where they stand, and the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scripts import line_of, run

PROGRAM = """
    limit = threading.Timer(7, lambda: done.set())
    limit.daemon = True
    done = threading.Event()

    def sleep(part, *views):
        done.wait()  # here

    def spin(part, *views):
        while not done.is_set(): pass  # there

    def compute(part, *views):
        while not done.is_set():
            until = time.monotonic() + 0.3
            while time.monotonic() < until: pass
            until = time.monotonic() + 0.3
            while time.monotonic() < until: pass

    with celerity.Queue() as queue:
        limit.start()
        u = celerity.Buffer.from_array(np.ones(8), name="u")
        one = access.one_to_one()
        {submit}  # submitted
        queue.wait()
        print("goes on")
"""


@pytest.mark.parametrize(
    ("submit", "told", "line"),
    [
        ("queue.host_task(sleep, u.read(access.all()))", "task 'sleep' {} and has used no processor time", "# here"),
        ("queue.host_task(spin)", "task 'spin' {} all the while, and uses processor time", "# there"),
        ("queue.parallel_for(8, sleep, u.read_write(one))", "task 'sleep' {} and has used no processor time", "# here"),
        ("queue.parallel_for(8, compute, u.read_write(one))", "", ""),
    ],
)
def test_a_call_that_looks_blocked_is_named_with_its_line(submit: str, told: str, line: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, PROGRAM.replace("{submit}", submit), CELERITY_STALL_S="4")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "goes on\n"
    lines = [text for text in outcome.stderr.splitlines() if "nothing has moved for" in text]
    if not told:
        assert not lines
        return
    (text,) = lines
    where = f"(submitted at {line_of(tmp_path, '# submitted')}) is at {line_of(tmp_path, line)}"
    assert text.startswith("celerity_py: rank 0: nothing has moved for ")
    assert told.format(where) in text
    assert text.endswith("this does not end the run.")


def test_a_call_that_sleeps_uses_no_processor_time_however_short_the_limit(tmp_path: Path) -> None:
    program = PROGRAM.replace("{submit}", "queue.host_task(sleep, u.read(access.all()))")
    outcome = run(tmp_path, program, CELERITY_STALL_S="2")
    assert "has used no processor time" in outcome.stderr
    assert "all the while" not in outcome.stderr


def test_a_look_at_calls_keeps_none_of_their_variables(tmp_path: Path) -> None:
    program = """
        import gc

        class Handle:
            def __del__(self):
                print("gone", flush=True)

        def task(part):
            handle = Handle()
            time.sleep(2.5)

        with celerity.Queue() as queue:
            gc.disable()
            queue.host_task(task)
            queue.wait()
            time.sleep(0.1)
            print("end", flush=True)
        """
    outcome = run(tmp_path, program, CELERITY_STALL_S="60")
    assert outcome.stdout == "gone\nend\n", outcome.stderr


def test_a_look_while_initial_contents_are_computed_is_no_failure(tmp_path: Path) -> None:
    program = """
        def slowly(box):
            time.sleep(2.5)
            return np.ones(box.shape)

        def wait(part):
            time.sleep(3)

        with celerity.Queue() as queue:
            u = celerity.Buffer.from_function(8, np.float64, slowly)
            queue.host_task(wait, unordered=True)
            print(queue.fence(u).result().sum())
        """
    outcome = run(tmp_path, program, CELERITY_STALL_S="60")
    assert outcome.stdout == "8.0\n", outcome.stderr
    assert outcome.returncode == 0, outcome.stderr
