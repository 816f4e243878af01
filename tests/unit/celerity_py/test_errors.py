# SPDX-License-Identifier: MIT
"""Errors that surface after the submit, and how the process ends: each program runs in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.scripts import line_of, run


def test_an_exception_in_a_kernel_is_raised_by_wait_fences_and_every_later_call(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def bad(chunk, u):
            raise KeyError("oops")

        queue = celerity.Queue()
        u = celerity.Buffer.from_array(np.zeros(4), name="u")
        queue.parallel_for(4, bad, u.read_write(access.one_to_one()), name="step")  # the line
        future = queue.fence(u)
        calls = [future.result, queue.wait, lambda: queue.fence(u),
                 lambda: queue.parallel_for(4, bad), lambda: queue.host_task(print), queue.barrier, queue.flush]
        for call in calls:
            try:
                call()
            except errors.TaskFailed as error:
                assert isinstance(error.__cause__, KeyError), error.__cause__
                print(error)
        try:
            queue.close()
        except celerity.CelerityError as error:
            print(error)
        assert isinstance(future.exception(), celerity.CelerityError)
        """,
    )
    lines = result.stdout.splitlines()
    assert len(lines) == 8, result.stdout + result.stderr
    for line in lines:
        assert "task 'step'" in line
        assert "KeyError: 'oops'" in line
        assert line_of(tmp_path, "# the line") in line
    assert result.returncode == 0, result.stderr


def test_an_exception_in_a_part_of_the_index_space_names_the_part(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        celerity.configure(devices="cpu:2")
        with celerity.Queue() as queue:
            u = celerity.Buffer.from_array(np.ones((8, 8)), name="u")
            queue.parallel_for(u.shape, lambda chunk, u: np.linalg.inv(u[...]), u.read(access.one_to_one()))
            queue.wait()
        """,
    )
    told = r"failed \(submitted at .*\): LinAlgError: .* square. Its chunk was \[\d:\d, 0:8\] of \[0:8, 0:8\]\. "
    assert re.search(told, result.stderr), result.stderr


def test_an_index_outside_of_the_region_names_everything_and_keeps_its_class(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def reach(chunk, u):
            u[chunk.box.shift(1)]

        u = celerity.Buffer.from_array(np.zeros(8), name="u")
        try:
            with celerity.Queue() as queue:
                queue.parallel_for(8, reach, u.read(access.one_to_one()), name="reach")  # the line
        except celerity.OutOfBoundsAccess as error:
            assert isinstance(error.__cause__, celerity.OutOfBoundsAccess)
            print(error)
        """,
    )
    for part in ("reach", 'B1 "u"', "outside of its declared region", line_of(tmp_path, "# the line")):
        assert part in result.stdout, result.stdout + result.stderr
    assert "[1:5], outside of its declared region [0:4]" in result.stdout or "[5:9]" in result.stdout
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ("u[...] = 1", 'writes through its read access to B1 "u"'),
        ("u[...][0] = 1", "(assignment destination is read-only)"),
        ("u[chunk.box] += 1", "(output array is read-only)"),
        ("u.array[0] = 1", "(assignment destination is read-only)"),
        ("u[chunk.box].sort()", "read-only"),
    ],
)
def test_writing_through_a_read_access_is_an_error_that_names_the_access(
    tmp_path: Path, write: str, message: str
) -> None:
    result = run(
        tmp_path,
        f"""
        def reach(chunk, u, v):
            {write}  # in the kernel

        u = celerity.Buffer.from_array(np.zeros(8), name="u")
        v = celerity.Buffer.from_array(np.zeros(8), name="v")
        with celerity.Queue() as queue:
            queue.parallel_for(8, reach, u.read(access.one_to_one()), v.read_write(access.one_to_one()))  # the line
        """,
    )
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("celerity_py.scheduler.errors.ReadOnlyAccess: rank 0: task 'reach' failed"), result.stderr
    assert f'kernel "reach" (submitted at {line_of(tmp_path, "# the line")}) writes' in last
    assert message in last
    assert 'B1 "u"' in last
    assert 'B2 "v"' not in last
    assert "as read_write, or as write if" in last
    assert f", line {line_of(tmp_path, '# in the kernel').rpartition(':')[2]}, in reach" in result.stderr


def test_a_read_only_array_of_the_users_own_is_none_of_our_business(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def reach(chunk, u):
            mine[0] = 1

        mine = np.zeros(8)
        mine.flags.writeable = False
        u = celerity.Buffer.from_array(np.zeros(8), name="u")
        with celerity.Queue() as queue:
            queue.parallel_for((), reach, u.read_write(access.all()))
        """,
    )
    assert "ValueError: assignment destination is read-only" in result.stderr
    assert "ReadOnlyAccess" not in result.stderr


def test_an_exception_in_a_host_task_is_raised_by_wait(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def write_file(part):
            raise OSError("disk full")

        with celerity.Queue() as queue:
            queue.host_task(write_file)  # the line
            queue.wait()
        """,
    )
    assert result.returncode == 1
    assert "write_file" in result.stderr
    assert "OSError: disk full" in result.stderr
    assert line_of(tmp_path, "# the line") in result.stderr


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("np.zeros(3)", r"returned an array of shape (3,) for the box [0:8]. It must return"),
        ("np.zeros(box.shape, np.complex64)", "returned an array of complex64 and shape (8,) for the box [0:8]"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_wrong_function_for_initial_contents_names_the_buffer_and_its_line(
    tmp_path: Path, body: str, message: str
) -> None:
    result = run(
        tmp_path,
        f"""
        def contents(box):
            return {body}

        with celerity.Queue() as queue:
            u = celerity.Buffer.from_function(8, np.float32, contents, name="u")  # the line
            queue.fence(u).result()
        """,
    )
    assert result.returncode == 1
    assert message in result.stderr
    assert 'B1 "u"' in result.stderr
    assert line_of(tmp_path, "# the line") in result.stderr


def test_combining_an_array_into_a_scalar_names_kernel_and_buffer(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        total = celerity.Buffer((), name="total")
        with celerity.Queue() as queue:
            queue.parallel_for(8, lambda chunk, t: t.combine(np.ones(3)), celerity.reduction(total, "sum"), name="add")
        """,
    )
    assert result.returncode == 1
    assert 'kernel "add"' in result.stderr
    assert "array of shape (3,) into the single element of" in result.stderr
    assert "numpy.add.reduce" in result.stderr


def test_using_the_queue_inside_of_a_kernel_fails_the_task_with_nested_use(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        try:
            with celerity.Queue() as queue:
                queue.parallel_for(8, lambda chunk: queue.wait(), name="nested")
        except celerity.NestedUse as error:
            print(error)
        """,
    )
    assert "nested" in result.stdout, result.stdout + result.stderr
    assert "inside a kernel" in result.stdout


def test_a_failure_that_nobody_saw_is_printed_and_sets_the_exit_status(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def bad(chunk):
            raise ValueError("unseen")

        queue = celerity.Queue()
        queue.parallel_for((), bad)
        queue.flush()
        while queue._runtime.state.failure is None:
            time.sleep(0.01)
        """,
    )
    assert result.returncode == 1
    assert "ValueError: unseen" in result.stderr


def test_a_failure_that_was_caught_leaves_the_exit_status_to_the_program(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def bad(chunk):
            raise ValueError("seen")

        try:
            with celerity.Queue() as queue:
                queue.parallel_for((), bad)
        except celerity.TaskFailed as error:
            print("caught", error.__cause__)
        """,
    )
    assert (result.returncode, result.stdout) == (0, "caught seen\n"), result.stderr


def test_a_program_without_a_with_block_ends_its_runtime_at_exit(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        queue = celerity.Queue()
        u = celerity.Buffer.from_array(np.zeros(4))
        queue.parallel_for(4, lambda chunk, x: (time.sleep(0.2), print("done", flush=True)), u.read(access.all()))
        """,
    )
    assert result.returncode == 0, result.stderr
    assert "done" in result.stdout
    assert result.stderr == ""


def test_an_uncaught_exception_ends_the_program_without_waiting_for_what_is_left(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        queue = celerity.Queue()
        u = celerity.Buffer.from_array(np.zeros(4))
        for _ in range(40):
            queue.parallel_for((), lambda chunk, x: time.sleep(1), u.read_write(access.all()))
        raise ZeroDivisionError("mine")
        """,
    )
    assert result.returncode == 1
    assert "ZeroDivisionError: mine" in result.stderr


def test_a_blocked_program_is_woken_by_a_failure(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        celerity.configure(run_ahead=2, horizon_step=1, lookahead="none")
        count = 0

        def fail_late(chunk, x):
            global count
            count += 1
            if count == 5:
                raise ValueError("late")
            time.sleep(0.02)

        u = celerity.Buffer.from_array(np.zeros(4))
        try:
            with celerity.Queue() as queue:
                while True:
                    queue.parallel_for((), fail_late, u.read_write(access.all()))
        except celerity.TaskFailed as error:
            print("woken by", error.__cause__)
        """,
    )
    assert result.stdout == "woken by late\n", result.stderr


def test_a_wrong_variable_ends_the_program_with_a_suggestion(tmp_path: Path) -> None:
    result = run(tmp_path, "celerity.Queue()", CELERITY_DEVICE="2")
    assert result.returncode == 1
    assert "Unknown environment variable CELERITY_DEVICE='2'. Did you mean CELERITY_DEVICES?" in result.stderr


READS_NOTHING = """
u = celerity.Buffer(8, name="u")
copied = celerity.Buffer(8)

def copy(chunk, out, given):
    out[...] = given[...]

with celerity.Queue() as queue:
    queue.parallel_for(8, copy, copied.write(access.one_to_one()), u.read(access.one_to_one()), name="early")  # submit
    queue.fence(copied).result()
"""

FENCES_NOTHING = """
with celerity.Queue() as queue:
    u = celerity.Buffer(8, name="u")
    queue.fence(u, Box((2,), (8,))).result()  # the line
"""


def test_reading_what_nobody_wrote_is_a_warning(tmp_path: Path) -> None:
    result = run(tmp_path, READS_NOTHING)
    assert result.returncode == 0
    assert re.search(r'WARNING: .*"early" reads .*"u" \[0:8\], but nothing has written it', result.stderr)
    assert f"declare the access as write(). Submitted at {line_of(tmp_path, '# submit')}." in result.stderr


def test_a_fence_of_what_nobody_wrote_gets_advice_that_fits_a_fence(tmp_path: Path) -> None:
    result = run(tmp_path, FENCES_NOTHING)
    assert result.returncode == 0
    assert 'WARNING: a fence reads buffer B1 "u" [2:8], but nothing has written it.' in result.stderr
    assert f"or write it before the fence. Submitted at {line_of(tmp_path, '# the line')}." in result.stderr
    assert "access" not in result.stderr


def test_a_warning_tells_its_line_although_its_task_is_done_long_ago(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        celerity.configure(horizon_step=1)
        with celerity.Queue() as queue:
            u = celerity.Buffer(8, name="u")
            queue.parallel_for(8, lambda chunk, u: None, u.read_write(access.one_to_one()), name="early")  # the line
            for _ in range(100):
                queue.parallel_for(8, lambda chunk, u: None, u.read_write(access.one_to_one()))
            queue.flush()
            time.sleep(0.5)
        """,
    )
    assert result.returncode == 0
    assert f"Submitted at {line_of(tmp_path, '# the line')}." in result.stderr


def test_reading_what_nobody_wrote_is_an_error_where_everything_is_checked(tmp_path: Path) -> None:
    result = run(tmp_path, READS_NOTHING, CELERITY_CHECK="1")
    assert result.returncode == 1
    assert re.search(r'UninitializedRead: .*"early" reads .*"u" \[0:8\], but nothing has written it', result.stderr)
    assert f"Submitted at {line_of(tmp_path, '# submit')}." in result.stderr


def test_a_warning_that_came_before_a_failure_is_printed_too(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def bad(chunk, u):
            raise ValueError("rubbish")

        with celerity.Queue() as queue:
            u = celerity.Buffer(8, name="u")
            queue.parallel_for(8, bad, u.read_write(access.one_to_one()))
        """,
    )
    assert result.returncode == 1
    assert result.stderr.index("nothing has written it") < result.stderr.index("ValueError: rubbish")


def test_an_interrupt_reaches_a_program_that_waits(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        import os, signal

        with celerity.Queue() as queue:
            queue.parallel_for((), lambda chunk: time.sleep(1.5))
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                queue.wait()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """,
    )
    assert result.stdout == "interrupted\n", result.stderr
    assert result.returncode == 0, result.stderr
