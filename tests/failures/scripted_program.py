# SPDX-License-Identifier: MIT
"""Runs one scenario of `test_failing_ranks.py` on every rank: the live executor over MPI, with a scripted engine."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from celerity_py import _native_testing
from celerity_py._native import ActiveInstruction
from celerity_py.executor.failures.failure_handler import FailureTimes
from celerity_py.executor.interpreter_settings import register_exit_hook
from celerity_py.executor.live_executor import LiveExecutor
from celerity_py.executor.network.communicator_choice import make_communicator
from tests.support.planned_rank import Planned
from tests.support.scripted_executor import ScriptedExecutor, ScriptedRuntime

communicator = make_communicator()
native, runtime = ScriptedExecutor(), ScriptedRuntime()
is_hasty = "hasty" in sys.argv
times = FailureTimes(gone_s=2.0, compare_s=1.0, report_s=2.0, silent_s=3.0) if is_hasty else FailureTimes()
planned = Planned(communicator.rank)
executor = LiveExecutor(native, communicator, runtime, num_devices=1, times=times, program=planned.log)


def shutdown() -> None:
    if executor.failure is not None:
        executor.leave_failed(unseen=runtime.functions == {})
    _native_testing.submit_task(planned.scheduler, _native_testing.make_epoch("shutdown"))
    planned.scheduler.wait_until_planned()
    native.emit(("shutdown",))
    while not executor.wait_shutdown(0.1):
        pass
    if executor.failure is not None:
        executor.leave_failed()
    executor.stop()
    planned.scheduler.stop()
    communicator.close()


def wait() -> None:
    """Like a future: wait for something that only a failure brings."""
    submission = runtime.submit(wait)
    _native_testing.submit_task(planned.scheduler, _native_testing.make_epoch())
    native.active = [ActiveInstruction(30.0, "receive", submission, 1, None, 1)]
    runtime.has_failed.wait(60)
    assert runtime.failure is not None, "waited in vain"
    raise RuntimeError("the run has failed") from runtime.failure.exception()


def step() -> None:
    raise ValueError("bad step")


def nothing() -> None:
    """Every rank ends in good order."""
    runtime.submit(step)


def kernel_raises() -> None:
    submission = runtime.submit(step)
    if communicator.rank == 1:
        native.start_kernel(1, submission)
    wait()


def exception_is_swallowed() -> None:
    submission = runtime.submit(step)
    if communicator.rank == 1:
        native.start_kernel(1, submission)
    try:
        wait()
    except RuntimeError:
        time.sleep(60)


def program_raises() -> None:
    if communicator.rank == 1:
        raise ZeroDivisionError("in the program")
    wait()


def exits_early() -> None:
    if communicator.rank == 1:
        sys.exit(3)
    wait()


def is_interrupted() -> None:
    if communicator.rank == 1:
        os.kill(os.getpid(), signal.SIGINT)
    wait()


def is_killed() -> None:
    if communicator.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    wait()


scenario: Callable[[], None] = globals()[sys.argv[1]]
executor.start()
register_exit_hook(shutdown)
scenario()
