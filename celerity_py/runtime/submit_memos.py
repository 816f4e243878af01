# SPDX-License-Identifier: MIT
"""What the first submit of a kernel has found out is kept, so that native code does the next ones by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from celerity_py import _native
from celerity_py.cuda.launches import LaunchPlan
from celerity_py.hints import Division, Hint
from celerity_py.kernels import CudaKernel, Kernel
from celerity_py.vocabulary.accesses import Access, Port
from celerity_py.vocabulary.index_spaces import boxes
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime

_CLASSES = {cls.__name__: cls for cls in (Access, CudaKernel, Hint, Kernel, Port, Submission)}


def make_table(runtime: Runtime) -> _native.SubmissionTable:
    """What makes submissions of this runtime part of the program."""
    table = _native.SubmissionTable(
        runtime.scheduler, runtime.executor, runtime.submissions, Submission, is_shared=runtime.size > 1
    )
    if runtime.tracer is not None:
        table.set_observer(runtime.tracer.note_submission)
    return table


def make_submitter(runtime: Runtime) -> _native.KernelSubmitter:
    """What repeats submits to this runtime."""
    return _native.KernelSubmitter(runtime.table, runtime, runtime.inside, boxes, _CLASSES, runtime.is_cuda)


def remember(  # noqa: PLR0917 - what a submit knows
    runtime: Runtime,
    kernel: Any,
    args: tuple[Any, ...],
    hints: Sequence[Hint] | Hint,
    submission: Submission,
    division: Division,
    launch: tuple[LaunchPlan, bytes] | None,
) -> None:
    """Leave later submits of this kernel with arguments of the same kinds to native code.

    Not of plain functions: a loop that makes a new one for each submit would fill the memory.

    Args:
        runtime: Where it has been submitted.
        kernel: As passed to `parallel_for`.
        args: Likewise.
        hints: Likewise.
        submission: What it has become.
        division: What the hints come to.
        launch: The plan of a `CudaKernel` that native code launches.
    """
    if not isinstance(kernel, CudaKernel | Kernel) or runtime.origins.checks is not None:
        return
    assert submission.box is not None
    function: Any = None
    pack: Any = None
    scalars: list[int] = []
    if launch is not None:
        plan = launch[0]
        if plan.packing is None:
            return
        function, (pack, scalars) = plan.function, plan.packing
    code, _ = runtime.origins.of(submission)
    runtime.submitter.remember(kernel, args, hints, submission.box, *division, function, pack, scalars, code)
