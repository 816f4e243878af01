# SPDX-License-Identifier: MIT
"""Recordings: the kernels and host tasks that a function has submitted, to be submitted again by one call."""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from types import CodeType, FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from celerity_py import _native
from celerity_py._native import PortRecord
from celerity_py.calls.outer_variables import NamedValues, find_changed_value, values_of
from celerity_py.calls.reached_values import Kept, Reached, Watch, find_changed, keep, reached_values
from celerity_py.comparison.value_digests import digest_of
from celerity_py.cuda.launches import prepare_launch
from celerity_py.halo_checks import HaloChecks
from celerity_py.kernels import CudaKernel, name_of
from celerity_py.runtime import lifecycle
from celerity_py.scheduler.errors import ArgumentTypeError, ClosedQueue, UsageError
from celerity_py.submit.deep_halos import DeepHalos, deepen, find_halos
from celerity_py.submit.plain_values import settle
from celerity_py.vocabulary.integers import to_int
from celerity_py.vocabulary.parameters import Parameter
from celerity_py.vocabulary.refused_operators import IsHandle
from celerity_py.vocabulary.submissions import Site

if TYPE_CHECKING:
    from celerity_py.buffer import Buffer
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.submissions import Submission

_log = logging.getLogger(__name__)

_MOST_TIMES: Final = 2**63 - 1
_MOST_VARIANTS: Final = 8
#: Names of arguments of `Queue.replay`.
_NO_PARAMETERS: Final = frozenset({"times", "until", "at_most"})


class _Variant(NamedTuple):
    """The tasks of a recording with values of its parameters."""

    kept: list[Kept | None]
    tasks: _native.RecordedTasks
    submissions: list[Submission]


class Recording(IsHandle):
    """The kernels and host tasks that a function has submitted, for `Queue.replay`. `Queue.record` makes it.

    A recording keeps kernels and plain values alive, but no buffers. Any thread may read its attributes, on any rank by
    itself; replays are collective.

    Attributes:
        name: The name of the function.
        num_tasks: The number of kernels and host tasks of one repetition.
    """

    __slots__ = (
        *("__weakref__", "buffers", "functions", "name", "queue", "runtime", "site"),
        *("changed", "checks", "deep", "halos", "parameters", "submissions", "tasks", "thread", "variants", "watch"),
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
        #: The last submission of each Python function, with the function's code, defaults and values from outside then.
        self.functions: list[tuple[Submission, CodeType, Any, NamedValues | None]] = []
        #: A value that the function reads and has changed, in words.
        self.changed: str | None = None
        #: What the function reads.
        self.watch = Watch(())
        self.parameters: dict[str, Parameter] = {}
        #: Of `hints.recompute`; None without.
        self.halos: DeepHalos | None = None
        #: With CHECK, of the deep halos.
        self.checks: HaloChecks | None = None
        #: With deep halos, the tasks of all steps from one exchange to the next, and their submissions.
        self.deep: tuple[_native.RecordedTasks, list[Submission]] | None = None
        #: The latest ones, with other values of parameters.
        self.variants: list[_Variant] = []

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
            if isinstance(task, FunctionType | MethodType):
                self.functions.append((submission, task.__code__, task.__defaults__, values_of(task)))
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

    def find_halos(self, frame: FrameType) -> None:
        """See `hints.recompute`. The buffers live.

        Raises:
            UsageError: If the halos would be too deep, or if kernels contradict each other.
        """
        self.halos = find_halos(repr(self), self.tasks, self.runtime.submitter, self.submissions, frame)
        if self.halos is not None and self.runtime.rank == 0:
            _log.info("%r: %s", self, self.halos.describe())
        if self.halos is not None and self.runtime.call_checks is not None:
            self.checks = HaloChecks(self, self.runtime, self.halos, self.queue._priority, frame)

    def all_steps(
        self, tasks: _native.RecordedTasks, submissions: list[Submission]
    ) -> tuple[_native.RecordedTasks, list[Submission]]:
        """Tasks of one repetition; with deep halos, those of all steps."""
        if self.halos is None:
            return tasks, submissions
        halos = self.halos
        if self.checks is not None:
            halos, tasks, submissions = self.checks.join(halos, tasks, submissions)
        return deepen(halos, tasks, self.runtime.submitter, submissions)

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

    def take_values(self, given: Mapping[str, Any]) -> _Variant:
        """The tasks with these values of parameters; those of the recording for all others.

        Raises:
            UsageError: If the recording has no such parameter, or if a value does not fit.
        """
        values: dict[str, Any] = {name: parameter.given for name, parameter in self.parameters.items()}
        for name, value in given.items():
            if name not in values:
                names = ", ".join(values) or "none"
                close = "".join(f" Did you mean {each}=?" for each in difflib.get_close_matches(name, values, n=1))
                raise UsageError(
                    f"queue.replay({self.name}) got {name}={value!r}, but the parameters of its recording are: {names}."
                    f"{close} A parameter is named where the function is recorded: queue.record({self.name}, "
                    f"{name}={value!r})."
                )
            values[name] = settle(value, f"queue.replay({self.name}, {name}=...)")
        kept = [keep(value, digest_of) for value in values.values()]
        for known in self.variants:
            if all(a is not None and b is not None and a.is_same(b) for a, b in zip(known.kept, kept, strict=True)):
                return known
        made = self._make_variant(values, kept)
        self.variants = [made, *self.variants[: _MOST_VARIANTS - 1]]
        return made

    def _make_variant(self, values: Mapping[str, Any], kept: list[Kept | None]) -> _Variant:
        submissions, changes = list(self.submissions), []
        uses = {
            (id(arguments), position): name
            for name, parameter in self.parameters.items()
            for arguments, position in parameter.uses
        }
        for number, submission in enumerate(submissions):
            found = {at: uses[key] for at in range(len(submission.args)) if (key := (id(submission.args), at)) in uses}
            if all(values[name] is self.parameters[name].given for name in found.values()):
                continue
            changed = submissions[number] = copy(submission)
            changed.args = [values[found[at]] if at in found else arg for at, arg in enumerate(submission.args)]
            is_native = changed.function.__class__ is CudaKernel and self.runtime.devices.is_cuda
            prepared = prepare_launch(self.runtime, changed, None) if is_native else None
            digest = self.runtime.origins.of_changed_values(changed, self.runtime.submitter.digest_values)
            changes.append((number, None if prepared is None else prepared[1], digest))
        tasks = self.tasks.with_values(self.runtime.submitter, changes, submissions) if changes else self.tasks
        return _Variant(kept, *self.all_steps(tasks, submissions))

    def check_functions(self) -> None:
        """Refuse a replay of functions that have changed.

        Raises:
            UsageError: If one has other code, other defaults, or a variable from outside with another value.
        """
        for submission, code, defaults, outside in self.functions:
            function = submission.function
            if function.__code__ is not code or function.__defaults__ is not defaults:
                self._refuse_changed(submission, "has other code or other defaults since then")
            changed = None if outside is None else find_changed_value(outside)
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


def _check_signature(function: Callable[..., Any], names: Iterable[str]) -> None:
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (ValueError, TypeError):  # some functions in C have none
        return
    given = ", ".join(f"{name}=..." for name in names)
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        name = name_of(function)
        raise ArgumentTypeError(
            f"queue.record() calls {name}({given}), which does not fit its signature {name}{signature}: {error}. "
            f"Record a function without arguments, such as lambda: {name}(...), or name a plain value that a replay "
            f"may change: queue.record({name}, dt=0.1)."
        ) from None


def record(
    queue: Any, runtime: Runtime, function: Callable[..., Any], values: Mapping[str, Any], frame: FrameType
) -> Recording:
    """See `Queue.record`."""
    if not callable(function):
        raise ArgumentTypeError(f"queue.record() takes a function without arguments, not {function!r}.")
    name = name_of(function)
    refused = _NO_PARAMETERS.intersection(values)
    if refused:
        raise UsageError(
            f"queue.record({name}, {min(refused)}=...): a parameter cannot have the name of an argument of "
            f"queue.replay(). Give the parameter of the function another name."
        )
    _check_signature(function, values)
    recording = Recording(queue, runtime, name, frame)
    for each, value in values.items():
        given = settle(value, f"queue.record({name}, {each}=...)")
        recording.parameters[each] = Parameter(each, given, name)
    before = reached_values(function)
    called = functools.partial(function, **recording.parameters) if values else function
    try:
        result = runtime.submitter.record(called, recording.tasks, recording.submissions, recording)
    finally:
        for parameter in recording.parameters.values():
            parameter.is_open = False
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        raise ArgumentTypeError(
            f"queue.record() got {recording.name!r}, which returns a {type(result).__name__} that nobody runs. "
            f"Record a plain function that submits its tasks before it returns."
        )
    recording.note_what_may_change(function, before)
    held = recording.hold_buffers()
    recording.find_halos(frame)
    del held
    return recording


def replay(queue: Any, recording: Any, times: Any, values: Mapping[str, Any], frame: FrameType) -> None:
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
    if values:
        _, tasks, submissions = recording.take_values(values)
    else:
        if recording.deep is None:
            recording.deep = recording.all_steps(recording.tasks, recording.submissions)
        tasks, submissions = recording.deep
    runtime.submitter.replay(tasks, submissions, count, frame)
    del held  # no buffer may die while native code submits tasks that access it
