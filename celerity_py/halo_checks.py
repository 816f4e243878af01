# SPDX-License-Identifier: MIT
"""With CHECK: compares what a rank computes of other shares with what the owners of the elements compute.

Behind each task that reaches beyond its shares, a copy of each buffer that it writes is made, by the owners alone. A
second kernel has the chunks of the task. It fetches the copy, and compares it with the buffer, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from celerity_py import _native
from celerity_py.access import one_to_one
from celerity_py.buffer import Buffer, make_buffer
from celerity_py.scheduler.errors import UsageError
from celerity_py.small_operations import copy_box
from celerity_py.vocabulary.accesses import READ, Port

if TYPE_CHECKING:
    from types import FrameType

    from celerity_py.runtime.runtime import Runtime
    from celerity_py.submit.deep_halos import DeepHalos
    from celerity_py.vocabulary.submissions import Submission

Reach = tuple[int, int, int]


class HaloChecks:
    """The checks of a recording, as tasks among its own.

    Attributes:
        tasks: A copy and a comparison for each buffer.
        behind: For each of them, the number of the task of the recording behind which it runs.
        submissions: Of these tasks.
    """

    def __init__(self, recording: Any, runtime: Runtime, halos: DeepHalos, priority: int, frame: FrameType) -> None:
        self.tasks = _native.RecordedTasks()
        self.behind: list[int] = []
        self.submissions: list[Submission] = []
        self._copies: dict[int, Buffer] = {}  # by the id of the buffer
        checked = list(recording.submissions)
        count = len(checked)
        grown = [place for place in range(count) if any(any(reach) for reach in halos.reaches[place::count])]
        written = {place: _written_by(checked[place]) for place in grown}
        for buffer in (each for some in written.values() for each in some):
            if buffer.record.id not in self._copies:
                name = f"{buffer.name or buffer.record.label} of its owners"
                self._copies[buffer.record.id] = make_buffer(buffer.shape, buffer.record.dtype, name, frame)

        def submit() -> None:
            for place, buffers in written.items():
                for buffer in buffers:
                    self._submit(runtime, checked[place], buffer, priority, frame, halos.steps)
                    self.behind += [place, place]

        runtime.submitter.record(submit, self.tasks, self.submissions, recording)

    def _submit(  # noqa: PLR0917 - of one check
        self, runtime: Runtime, submission: Submission, buffer: Buffer, priority: int, frame: FrameType, steps: int
    ) -> None:
        box, owned = submission.box, self._copies[buffer.record.id]
        name = f"check of {submission.name}"
        copy_box(runtime, owned, buffer, (box, box), frame, priority, name)
        compare = _comparison_of(submission.describe(), buffer.record.label, runtime.rank, steps)
        args = buffer.read(one_to_one()), owned.read(one_to_one())
        runtime.submit_kernel(compare, box, args, name, (), None, frame, priority)

    def join(
        self, halos: DeepHalos, tasks: _native.RecordedTasks, submissions: Sequence[Submission]
    ) -> tuple[DeepHalos, _native.RecordedTasks, list[Submission]]:
        """The tasks of a repetition with the checks among them."""
        places = [place for at in range(len(submissions)) for place in (at, *self._checks_of(at, len(submissions)))]
        merged = [*submissions, *self.submissions]
        count = len(submissions)
        of_steps = [halos.reaches[first : first + count] for first in range(0, len(halos.reaches), count)]
        reaches = [
            step[place] if place < count else self._reach_of(place - count, step)
            for step in of_steps
            for place in places
        ]
        joined = tasks.joined(self.tasks, self.behind)
        return halos._replace(reaches=reaches), joined, [merged[place] for place in places]

    def _checks_of(self, at: int, count: int) -> list[int]:
        return [count + number for number, behind in enumerate(self.behind) if behind == at]

    def _reach_of(self, number: int, step: Sequence[Reach]) -> Reach:
        """The owners alone copy; a comparison has the chunks of its task."""
        return step[self.behind[number]] if number % 2 else (0, 0, 0)


def _written_by(submission: Submission) -> list[Buffer]:
    records = {arg.record.id: arg.record for arg in submission.args if arg.__class__ is Port and arg.mode != READ}
    return [record.handle() for record in records.values()]


def _comparison_of(who: str, label: str, rank: int, steps: int) -> Callable[[Any, Any, Any], None]:
    def compare(_chunk: Any, computed: Any, owned: Any) -> None:
        here, there = (each if isinstance(each, np.ndarray) else each.get() for each in (computed.array, owned.array))
        bits_here, bits_there = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (here, there))
        if np.array_equal(bits_here, bits_there):
            return
        differs = (bits_here != bits_there).reshape(-1, here.dtype.itemsize).any(axis=1)
        first = int(np.flatnonzero(differs)[0])
        inside = np.unravel_index(first, here.shape)
        low = computed.box.min
        element = [int(at) + (low[dim] if dim < len(low) else 0) for dim, at in enumerate(inside)]
        raise UsageError(
            f"{who} has hints.recompute({steps}), and rank {rank} computes {here[inside]} in element {element} of "
            f"{label}, where the owner of the element computes {there[inside]}. With this hint, the result for an item "
            f"must depend on the elements that the item reads, and not on the chunk. Change the kernel, or leave the "
            f"hint out."
        )

    return compare
