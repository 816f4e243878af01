# SPDX-License-Identifier: MIT
"""`celerity.stop_requested`: the signals of a batch system, answered alike on all ranks.

Each rank writes its flag into an element of a buffer, and all ranks fetch the buffer. A call looks at what an earlier
call has asked for, so that the program does not wait for the ranks.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

import numpy as np

from celerity_py._native import Box
from celerity_py.access import one_to_one
from celerity_py.buffer import Buffer, make_buffer
from celerity_py.runtime import lifecycle
from celerity_py.runtime.fence_submits import submit_fence
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.integers import to_int

if TYPE_CHECKING:
    from celerity_py.runtime.futures import Future
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.parts import Part

_CALL: Final = "celerity.stop_requested()"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGUSR1)


def stop_requested(*, every: SupportsIndex = 64) -> bool:
    """Whether a batch system wants the program to end soon: a rank has got SIGTERM or SIGUSR1. Collective.

    All ranks get the same answer from the same call, and True from then on. The first call of a run sets handlers of
    these signals, which no longer end the process; call it early. The end of the run sets the old ones again. A program
    then writes a checkpoint and leaves its loop.

    With several ranks the ranks tell each other in every call number 0, `every`, 2 · `every` and so on of the run, and
    such a call takes the answer of the one before, for which it waits if need be. Calls in between repeat the answer.
    So the answer is as old as `every` to 2 · `every` calls. Work that was submitted before still runs: a program of
    long steps waits for a result now and then, so that it is not far ahead of the execution.

    Args:
        every: In calls. The default suits short steps. Use 1 for calls that are seconds apart.

    Raises:
        ArgumentTypeError: If `every` is no integer.
        UsageError: If it is below 1, or the first call does not come from the main thread.
        NestedUse: If called inside of a kernel, host task, mapper or callback.
        CelerityError: If an earlier task failed.
    """
    try:
        calls = to_int(every)
    except TypeError:
        raise ArgumentTypeError(f"{_CALL} takes an int as every=, not {every!r}.") from None
    if calls < 1:
        raise UsageError(f"{_CALL} takes every= from 1 on, not {calls}.")
    runtime = lifecycle.current()
    runtime.check_usable(_CALL)
    runtime.refuse_in_recording(_CALL)
    stops: _Stops | None = runtime.of_io.get(_Stops)
    if stops is None:
        stops = runtime.of_io[_Stops] = _Stops(runtime, sys._getframe(1))
    return stops.ask(calls, sys._getframe(1))


class _Stops:
    """The flag of this rank, and what all ranks know."""

    def __init__(self, runtime: Runtime, frame: FrameType) -> None:
        self._runtime = runtime
        self._num_calls = 0
        self._answer = False
        self._asked: Future[Any] | None = None
        self._flags: Buffer[Any] | None = None
        if runtime.size > 1:
            self._flags = make_buffer((runtime.size,), np.uint8, "stop requested", frame)
        self._is_signalled = False
        self._old_handlers = _set_handlers(self._note)
        runtime.at_stop.append(self._end)

    def ask(self, every: int, frame: FrameType) -> bool:
        """See `stop_requested`."""
        if self._flags is None:
            return self._is_signalled
        if not self._answer and self._num_calls % every == 0:
            if self._asked is not None:
                self._answer = bool(np.any(self._asked.result()))
            self._asked = self._tell(self._flags, frame)
        self._num_calls += 1
        return self._answer

    def _tell(self, flags: Buffer[Any], frame: FrameType) -> Future[Any]:
        ranks = Box((0,), (self._runtime.size,))
        args = (flags.write(one_to_one()), self)
        self._runtime.submit_host_task(0, _write_flag, args, ranks, "stop requested", None, True, frame)
        return submit_fence(self._runtime, flags.record, flags.record.box, True, frame)

    def write_flag(self, flags: Any) -> None:
        """On a thread for host tasks."""
        flags[...] = self._is_signalled

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._is_signalled = True

    def _end(self) -> None:
        self._flags = self._asked = None
        self._runtime.of_io.clear()
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)


def _write_flag(_part: Part, flags: Any, stops: _Stops) -> None:
    stops.write_flag(flags)


def _set_handlers(note: Any) -> dict[signal.Signals, Any]:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            f"The first {_CALL} of a run has to come from the main thread, which alone can handle signals."
        )
    # None stands for a handler that Python does not know, such as that of the runtime.
    return {number: signal.signal(number, note) or signal.SIG_DFL for number in _SIGNALS}
