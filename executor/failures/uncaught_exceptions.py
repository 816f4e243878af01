# SPDX-License-Identifier: MIT
"""Ends the job when an exception is not caught, because other ranks may be waiting for this one.

Python prints them and exits, and that is where a job with several ranks hangs: mpi4py's exit hook waits in MPI_Finalize
for ranks that wait for this one, and before MPI is initialised a launcher may not mind that a process is missing. So
under a launcher the hooks below end the whole job: through the run's `FailureHandler` if there is one, else by MPI.
In any process, and in notebooks, our own exceptions are printed as `told_errors` says.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Final

from celerity_py.executor.failures.failure import attempt, find_user_line, print_whole
from celerity_py.executor.failures.missing_attributes import explain_missing
from celerity_py.executor.failures.told_errors import format_error, format_error_once, render_in_notebook
from celerity_py.executor.interpreter_settings import register_exit_hook
from celerity_py.executor.network.launch_detection import detect_launch, find_place
from celerity_py.executor.network.rank_process import name_at_end, note_rank
from celerity_py.scheduler.errors import CelerityError, LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from celerity_py.executor.failures.failure_handler import FailureHandler

_ABORT_DELAY_S: Final = 3.0  # without a run: the others may be about to print the same, or to finish
_ABORT_PATIENCE_S: Final = 5.0  # for an MPI_Init in which not everyone takes part

_handlers: list[FailureHandler] = []  # of the runs that live, the latest last
_is_watching = False
_keeps_exit = False
_minds_forks = False
_original_hook = sys.excepthook
_original_thread_hook = threading.excepthook


def watch_program() -> None:
    """Install the hooks for the rest of the process: all, if a launcher started several. Touches no MPI, no threads.

    It also notes this process as the rank, for its children.
    """
    global _is_watching  # noqa: PLW0603 - the hooks are globals of the interpreter
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_uncaught
    CelerityError._render_traceback_ = render_in_notebook
    launch = detect_launch(os.environ)
    if launch.launcher is not None:
        note_rank()
    if launch.launcher is not None and launch.size != 1:
        _is_watching = True
        _install()
        name_at_end()


def attach(handler: FailureHandler) -> None:
    """Report uncaught exceptions to the failure handler of a run with several ranks, which keeps us from exiting then.

    Called before the runtime registers its own exit hook, so that ours runs between that one and MPI_Finalize.
    """
    global _keeps_exit  # noqa: PLW0603
    if not _keeps_exit:
        _keeps_exit = True
        register_exit_hook(_stay_while_failing)
    _handlers.append(handler)
    _install()


def detach(handler: FailureHandler) -> None:
    """Undo `attach`."""
    if handler in _handlers:
        _handlers.remove(handler)
    if not _handlers and not _is_watching:
        _uninstall()


def _forget_in_child() -> None:
    """A forked child is no rank: it prints its exceptions as every program does, and ends no job."""
    global _is_watching  # noqa: PLW0603
    _handlers.clear()
    _is_watching = False
    _uninstall()


def _stay_while_failing() -> None:
    for handler in _handlers:
        if handler.failure is not None:
            handler.wait_for_abort()


def _install() -> None:
    global _original_hook, _original_thread_hook, _minds_forks  # noqa: PLW0603
    if not _minds_forks:
        _minds_forks = True
        os.register_at_fork(after_in_child=_forget_in_child)
    if sys.excepthook is not _on_uncaught:
        _original_hook, sys.excepthook = sys.excepthook, _on_uncaught
    if threading.excepthook is not _on_uncaught_in_thread:
        _original_thread_hook, threading.excepthook = threading.excepthook, _on_uncaught_in_thread


def _uninstall() -> None:
    # A hook that was installed later calls ours, which then only pass the exception on.
    if sys.excepthook is _on_uncaught:
        sys.excepthook = _original_hook
    if threading.excepthook is _on_uncaught_in_thread:
        threading.excepthook = _original_thread_hook


def _add_hint(error: BaseException) -> None:
    text = explain_missing(error)
    if text:
        error.add_note(text)


def _print_uncaught(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if isinstance(error, CelerityError):
        with contextlib.suppress(Exception):  # the code of users runs here, such as __str__ of exceptions
            print_whole("".join(format_error_once(error)))
            return
    attempt(_add_hint, error)
    sys.__excepthook__(kind, error, where)


def _on_uncaught(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    attempt(_add_hint, error)
    story = ""
    if isinstance(error, CelerityError):
        with contextlib.suppress(Exception):
            story = "".join(format_error(error))
    if not story:
        story = "".join(traceback.format_exception(kind, error, where))
    is_default = _original_hook in {sys.__excepthook__, _print_uncaught}
    _tell(error, story, None if is_default else lambda: _original_hook(kind, error, where))


def _on_uncaught_in_thread(event: threading.ExceptHookArgs) -> None:
    error = event.exc_value
    if error is None or isinstance(error, SystemExit):
        _original_thread_hook(event)
        return
    story = f"Exception in thread {event.thread.name if event.thread is not None else '?'}:\n"
    story += "".join(traceback.format_exception(event.exc_type, error, event.exc_traceback))
    is_default = _original_thread_hook is threading.__excepthook__
    _tell(error, story, None if is_default else lambda: _original_thread_hook(event))


def _tell(error: BaseException, story: str, hook: Callable[[], object] | None) -> None:
    """Print the exception, by ourselves unless the program has a hook of its own for that, and end the job."""
    handler = _handlers[-1] if _handlers else None
    if hook is not None:
        if handler is None or not handler.is_known(error):
            hook()
        story = ""
    if handler is not None:
        handler.report_program_error(error, story)
        return
    if story:
        print_whole(story)
    if _is_watching and not isinstance(error, LaunchError):  # after which there is no MPI to end the job with
        attempt(_tell_of_rank, error)
        _abort_without_run(130 if isinstance(error, KeyboardInterrupt) else 1)


def _tell_of_rank(error: BaseException) -> None:
    place, line = find_place(os.environ), find_user_line(error)
    who = "" if place is None else f", rank {place.rank}"
    where = f" at {line}" if line else ""
    print_whole(
        f"celerity_py{who}: the program failed{where} with {type(error).__name__}, and the job ends in "
        f"{_ABORT_DELAY_S:g} s\n"
    )


def _abort_without_run(status: int) -> None:
    def abort() -> None:
        try:
            from celerity_py.executor.network import mpi_communicator
        except Exception:  # noqa: BLE001 - without MPI there is nothing to abort, and the exception is printed
            return
        mpi_communicator.abort(status)

    sys.stderr.flush()
    time.sleep(_ABORT_DELAY_S)
    thread = threading.Thread(target=abort, name="celerity-abort", daemon=True)
    thread.start()
    thread.join(_ABORT_PATIENCE_S)
    if thread.is_alive():
        os._exit(status)
