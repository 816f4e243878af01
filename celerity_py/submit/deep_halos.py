# SPDX-License-Identifier: MIT
"""Deep halos of recordings, `hints.recompute`: what they cannot serve, and the tasks with their reach in each step."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from celerity_py.calls.divided_calls import CheckedSubmission
from celerity_py.scheduler.errors import CelerityWarning, UsageError
from celerity_py.vocabulary.accesses import Access, CustomAccess, Port

if TYPE_CHECKING:
    from types import FrameType

    from celerity_py import _native
    from celerity_py.vocabulary.submissions import Submission

_MOST_GROWTH: Final = 1.5


class DeepHalos(NamedTuple):
    """Of a recording: what is saved, and what it costs."""

    steps: int  # from one exchange of halos to the next
    exchanges: int  # of halos, in each step without it
    work: float  # of all devices in all steps, relative to the work without it
    reaches: list[tuple[int, int, int]]  # of each task in each step

    def describe(self) -> str:
        """What is saved, and what it costs."""
        each = "once" if self.exchanges == 1 else f"{self.exchanges} times"
        return (
            f"With hints.recompute({self.steps}), halos are exchanged before one of {self.steps} repetitions, instead "
            f"of {each} in each repetition, for {100 * (self.work - 1):.1f} % more work."
        )


class _Answer(NamedTuple):
    """As `RecordedTasks.find_halos` gives it."""

    kind: str
    task: int
    other: int  # another task, or an access of the task
    reach: tuple[int, int, int]
    share: tuple[int, int, int]
    growth: float
    work: float
    exchanges: int
    reaches: list[tuple[int, int, int]]


def refuse_recompute(label: str, steps: int, accesses: Sequence[Access], reductions: Sequence[Any]) -> None:
    """Refuse the hint on kernels of whose accesses the ranks know too little. Without the hint, `steps` is 0.

    Raises:
        UsageError: If the kernel reduces, or has a callable as mapper.
    """
    if steps == 0:
        return
    custom = next((access for access in accesses if access.__class__ is CustomAccess), None)
    if custom is not None:
        raise UsageError(
            f'kernel "{label}" has hints.recompute({steps}), and its access to {custom.port.record.label} has a '
            f"callable as mapper. Every rank has to know the borders that others compute, which built-in mappers tell. "
            f"Use access.one_to_one() or access.neighborhood(...), or leave the hint out."
        )
    if reductions:
        raise UsageError(
            f'kernel "{label}" has hints.recompute({steps}) and reduces, but what it computes of other shares would '
            f"count twice. Leave the hint out for this kernel, and give it to the others of the recording, or reduce "
            f"in a kernel of its own."
        )


def find_halos(
    who: str,
    tasks: _native.RecordedTasks,
    submitter: _native.Submitter,
    submissions: Sequence[Submission],
    frame: FrameType,
) -> DeepHalos | None:
    """The halos of a recording; None if no kernel asks for them, or if nothing could be saved.

    Args:
        who: The recording, for messages.
        tasks: Those of one repetition. Their buffers live.
        submitter: That of the runtime.
        submissions: Of the tasks.
        frame: Of the call of `Queue.record`.

    Raises:
        UsageError: If the halos would be too deep, or if kernels contradict each other.
    """
    steps = tasks.steps_of_halos
    if steps == 0:
        return None
    answer = _Answer(*tasks.find_halos(submitter))
    if answer.kind == "deep":
        return DeepHalos(steps, answer.exchanges, answer.work, answer.reaches)
    if answer.kind == "none":
        return None
    first = submissions[answer.task]
    if answer.kind in {"other_steps", "other_shares"}:
        _refuse_pair(who, answer.kind, first, submissions[answer.other])
    if answer.kind == "too_much":
        _refuse_depth(who, first, steps, answer)
    ports = [arg for arg in first.args if arg.__class__ is Port]
    label = ports[answer.other].record.label
    if answer.kind == "writes_elsewhere":
        raise UsageError(
            f"{who}: {first.describe()} has hints.recompute({steps}), and writes {label} by another mapper than "
            f"access.one_to_one(). Every rank has to know which elements others compute of it. Leave the hint out for "
            f"this kernel."
        )
    if answer.kind == "wraps":
        raise UsageError(
            f"{who}: {first.describe()} has hints.recompute({steps}), and reads {label} around a periodic dimension "
            f"that is cut among devices. That is not done yet. Leave the hint out, or cut another dimension."
        )
    warnings.warn_explicit(
        f"{who}: hints.recompute({steps}) has no effect, because {first.describe()} reads elements of {label} that "
        f"other devices write in each step, far away from its own share. (Said once per recording.)",
        CelerityWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
    )
    return None


def _refuse_pair(who: str, kind: str, first: Submission, second: Submission) -> NoReturn:
    if kind == "other_steps":
        raise UsageError(
            f"{who}: {first.describe()} and {second.describe()} have hints.recompute() with different numbers of "
            f"steps. Give all kernels of a recording the same number, or none."
        )
    raise UsageError(
        f"{who}: {first.describe()} and {second.describe()} have hints.recompute(), but different index spaces, or "
        f"hints and constrain= that divide them otherwise. The borders of their shares would not meet. Give them the "
        f"same index space and the same hints."
    )


def _refuse_depth(who: str, deepest: Submission, steps: int, answer: _Answer) -> NoReturn:
    extents = "x".join(str(extent) for extent in answer.share[: deepest.box.ndim])
    reach = ", ".join(str(items) for items in answer.reach[: deepest.box.ndim])
    raise UsageError(
        f"{who}: with hints.recompute({steps}), {deepest.describe()} computes up to ({reach}) items beyond each side "
        f"of a share that is cut, by dimension. The work of a share of {extents} items then grows to "
        f"{answer.growth:.2f} times as much, and {_MOST_GROWTH} is the most. Take fewer steps, or larger shares."
    )


def deepen(
    halos: DeepHalos,
    tasks: _native.RecordedTasks,
    submitter: _native.Submitter,
    submissions: Sequence[Submission],
) -> tuple[_native.RecordedTasks, list[Submission]]:
    """The tasks of all steps between two exchanges, and their submissions.

    Each step has other chunks. With CHECK, a fused kernel is compared with NumPy by the launch of its chunks, so that
    each step has a submission of its own.
    """
    repeated = [
        copy(each) if isinstance(each, CheckedSubmission) and each.fused is not None else each
        for _ in range(halos.steps)
        for each in submissions
    ]
    return tasks.with_reaches(submitter, halos.reaches, repeated), repeated
