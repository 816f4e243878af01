# SPDX-License-Identifier: MIT
"""Recordings: the kernels and host tasks that a function has submitted, to be submitted again by one call."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from celerity_py import _native
from celerity_py._native import PortRecord
from celerity_py.calls.outer_variables import OuterVariables
from celerity_py.calls.reached_values import Reached, Watch, find_changed, reached_values
from celerity_py.kernels import name_of
from celerity_py.runtime import lifecycle
from celerity_py.scheduler.errors import ArgumentTypeError, ClosedQueue, UsageError
from celerity_py.vocabulary.integers import to_int
from celerity_py.vocabulary.refused_operators import IsHandle
from celerity_py.vocabulary.submissions import Site

if TYPE_CHECKING:
    from celerity_py.buffer import Buffer
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.submissions import Submission

_MOST_TIMES: Final = 2**63 - 1


class Recording(IsHandle):
    """The kernels and host tasks that a function has submitted, for `Queue.replay`. `Queue.record` makes it.

    A recording keeps kernels and plain values alive, but no buffers. Any thread may read its attributes, on any rank by
    itself; replays are collective.

    Attributes:
        name: The name of the function.
        num_tasks: The number of kernels and host tasks of one repetition.
    """

    __slots__ = (
        *("__weakref__", "buffers", "functions", "name", "outer_variables", "queue", "runtime", "site"),
        *("changed", "submissions", "tasks", "thread", "watch"),
    )

    def __init__(self, queue: Any, runtime: Runtime, name: str, frame: FrameType) -> None:
        self.name = name
        self.site = Site(frame)
        #: The thread that makes it.
        self.thread = threading.get_ident()
        self.queue = queue
        self.runtime = runtime
        self.tasks = _native.RecordedTasks()
        self.submissions: list[Submission] = []
        #: Those that the tasks access.
        self.buffers: list[BufferRecord] = []
        #: The last submission of each Python function, with the function's code and defaults then.
        self.functions: list[tuple[Submission, CodeType, Any]] = []
        #: A value that the function reads and has changed, in words.
        self.changed: str | None = None
        #: What the function reads.
        self.watch = Watch(())
        checks = runtime.call_checks
        self.outer_variables = OuterVariables() if checks is None else checks.outer_variables

    @property
    def num_tasks(self) -> int:
        """The number of kernels and host tasks of one repetition."""
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"<Recording of {self.name!r} at {self.site}, {self.num_tasks} task(s)>"

    def refuse_another(self, opened: Recording) -> NoReturn:
        """While this one is being made: refuse another one.

        Raises:
            UsageError: Always.
        """
        if opened.thread == self.thread:
            where, remedy = "is under way. Recordings do not nest: record", ", or one function that calls both."
        else:
            where, remedy = "is under way in another thread. Let one thread record, or take a lock, and record", "."
        raise UsageError(
            f"queue.record({opened.name}) was called while the recording of {self.name!r} (called at {self.site}) "
            f"{where} one function after the other{remedy}"
        )

    def refuse(self, call: str) -> NoReturn:
        """While this one is being made: refuse a call of its function that no replay could carry out again.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            f"{call} was called inside of {self.name!r}, which queue.record() runs (called at {self.site}). A "
            f"recording holds kernels and host tasks only: do this before queue.record(), or after it."
        )

    def note_what_may_change(self, function: Any, before: Mapping[str, Reached]) -> None:
        """Remember the buffers, the functions as they are now, and what the recorded function reads.

        `before`: what it reached before it ran.
        """
        ports = (arg for each in self.submissions for arg in each.args if isinstance(arg, PortRecord))
        self.buffers = list({id(port.record): port.record for port in ports}.values())
        codes = set()
        for submission in {id(each.function): each for each in self.submissions}.values():
            task = submission.function
            codes.add(getattr(task, "__code__", None))
            if isinstance(task, FunctionType):
                if self.runtime.call_checks is None:  # it notes them at each submit
                    self.outer_variables.note(submission)
                self.functions.append((submission, task.__code__, task.__defaults__))
        now = reached_values(function, frozenset(filter(None, codes)))
        self.changed = _describe_change(before, now)
        used = {id(record) for record in self.buffers}
        self.watch = Watch([each for each in now.values() if each.kept.kind != "buffer" or id(each.kept.value) in used])

    def hold_buffers(self) -> list[Buffer]:
        """The buffers, which live as long as the result does.

        Raises:
            UsageError: If the program has dropped one.
        """
        held = []
        for record in self.buffers:
            buffer = record.handle()
            if buffer is None:
                raise UsageError(
                    f"{self!r} uses {record.label} (made at {record.site}), which the program has dropped since. Keep "
                    f"a reference to each buffer of a recording for as long as you replay it, or record again."
                )
            held.append(buffer)
        return held

    def check_values(self) -> None:
        """Refuse a replay that would not do what a call of the function does.

        Raises:
            UsageError: If the function changes a value that it reads, or if such a value is another one now.
        """
        if self.changed is not None:
            raise UsageError(
                f"queue.replay({self.name}): one call of {self.name!r} {self.changed}. Each repetition has the buffers "
                f"and values of the recording (made at {self.site}), whatever the names are then. Record a function in "
                f"which each name has its buffer again at the end, such as one that calls {self.name!r} twice. Keep a "
                f"number that changes from step to step in a buffer, which a task of the recording updates."
            )
        moved = self.watch.find_moved()
        if moved is not None:
            words, then, now = moved
            raise UsageError(
                f"{self!r} cannot be replayed: {self.name!r} reads {words!r}, which was {then} then and is {now} now. "
                f"A replay has the buffers and values of its recording. Record again after such a change, or keep the "
                f"value in a buffer."
            )

    def check_functions(self) -> None:
        """Refuse a replay of functions that have changed.

        Raises:
            UsageError: If one has other code, other defaults, or a variable from outside with another value.
        """
        for submission, code, defaults in self.functions:
            function = submission.function
            if function.__code__ is not code or function.__defaults__ is not defaults:
                self._refuse_changed(submission, "has other code or other defaults since then")
            changed = self.outer_variables.find_changed(submission)
            if changed is not None:
                self._refuse_changed(
                    submission,
                    f"uses the variable {changed.name!r} from outside, which was {changed.then} then and is "
                    f"{changed.now} now",
                )

    def _refuse_changed(self, submission: Submission, how: str) -> NoReturn:
        raise UsageError(
            f"{self!r} cannot be replayed: the function of its {submission.describe()} {how}. A replay has the values "
            f"of its recording. Record again after such a change, or keep the value in a buffer."
        )


def _describe_change(before: Mapping[str, Reached], now: Mapping[str, Reached]) -> str | None:
    """A value that a recorded function has changed, in words. A container may become longer, such as a cache."""
    for words, then, after in find_changed(before, now):
        if after.kind == "length":
            continue
        what = "is half a turn" if after.kind == "buffer" else "changes what it reads"
        return f"{what}: {words!r} was {then} before the function ran, and is {after} behind it"
    return None


def _check_signature(function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some functions in C have none
        return
    try:
        signature.bind()
    except TypeError as error:
        name = name_of(function)
        raise ArgumentTypeError(
            f"queue.record() calls {name}(), which does not fit its signature {name}{signature}: {error}. Record a "
            f"function without arguments, such as lambda: {name}(...)."
        ) from None


def record(queue: Any, runtime: Runtime, function: Callable[[], Any], frame: FrameType) -> Recording:
    """See `Queue.record`."""
    if not callable(function):
        raise ArgumentTypeError(f"queue.record() takes a function without arguments, not {function!r}.")
    _check_signature(function)
    recording = Recording(queue, runtime, name_of(function), frame)
    before = reached_values(function)
    result = runtime.submitter.record(function, recording.tasks, recording.submissions, recording)
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        raise ArgumentTypeError(
            f"queue.record() got {recording.name!r}, which returns a {type(result).__name__} that nobody runs. "
            f"Record a plain function that submits its tasks before it returns."
        )
    recording.note_what_may_change(function, before)
    recording.hold_buffers()
    return recording


def replay(queue: Any, recording: Any, times: Any, frame: FrameType) -> None:
    """See `Queue.replay`."""
    if not isinstance(recording, Recording):
        raise ArgumentTypeError(f"queue.replay() takes a Recording, as queue.record() returns it, not {recording!r}.")
    try:
        count = to_int(times)
    except TypeError:
        raise ArgumentTypeError(
            f"queue.replay({recording.name}): times= must be an integer, but is {times!r}."
        ) from None
    if not 0 <= count <= _MOST_TIMES:
        raise UsageError(f"queue.replay({recording.name}): times= is {count}, but must be 0 or more, below 2**63.")
    runtime = lifecycle.current()
    if recording.runtime is not runtime:
        raise ClosedQueue(
            f"{recording!r} belongs to a runtime that {recording.runtime.state.describe_end()}. "
            f"Record again with this queue."
        )
    if recording.queue is not queue:
        raise UsageError(
            f"{recording!r} belongs to another queue. Replay it with the queue that has recorded it, or record again."
        )
    held = recording.hold_buffers()
    if count > 0:
        recording.check_functions()
        recording.check_values()
    runtime.submitter.replay(recording.tasks, recording.submissions, count, frame)
    del held  # no buffer may die while native code submits tasks that access it
