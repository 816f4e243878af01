# SPDX-License-Identifier: MIT
"""Words the violations that the native scheduler finds at a submit: the task, the buffers, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from celerity_py.reductions.reduction import Reduction
from celerity_py.scheduler.errors import (
    DimensionMismatch,
    InconsistentMapper,
    OutOfBoundsAccess,
    OverlappingAccess,
    UsageError,
)
from celerity_py.vocabulary.accesses import MODE_NAMES, READ, Access, describe
from celerity_py.vocabulary.notation import show

if TYPE_CHECKING:
    from celerity_py._native import AccessViolation, Box
    from celerity_py.vocabulary.submissions import Submission

_OUT_OF_BOUNDS: Final = frozenset({"no_index", "no_element"})


def explain(violation: AccessViolation, submission: Submission, args: Sequence[Any]) -> UsageError:
    """The error of a task whose declared accesses contradict each other.

    Args:
        violation: The contradiction.
        submission: The task.
        args: The arguments of the task as the user gave them.
    """
    given = [arg for arg in args if isinstance(arg, Access)]
    access = None if violation.access is None else given[violation.access]
    subject = submission.label
    kind: type[UsageError] = UsageError
    if violation.kind == "misfit":
        assert access is not None
        record, mapper = access.port.record, describe(access.mapper)
        subject = f"{subject}, {MODE_NAMES[access.port.mode]} access to {record.label} by {mapper}"
        kind = OutOfBoundsAccess if violation.misfit.kind in _OUT_OF_BOUNDS else DimensionMismatch
        space: Any = submission.box
        text = f"{mapper} {explain_misfit(*violation.misfit, space, record.shape)}"
        if violation.misfit.kind == "no_element" and mapper.startswith("slice(") and "at=" not in mapper:
            text += _explain_slice(space, record.shape)
    elif violation.kind == "overlap":
        assert access is not None
        kind, text = OverlappingAccess, _explain_overlap(violation, access, given[violation.other_access])
    elif violation.kind == "reduced":
        kind, text = OverlappingAccess, _explain_reduced(violation, access, args)
    elif violation.kind == "unknown_buffer":
        text = f"buffer B{violation.buffer} does not exist (any more)."
    else:
        assert access is not None
        kind, text = InconsistentMapper, _explain_parts(violation, access, submission.box)
    return kind(f"{subject}: {text} Nothing was submitted.")


#: How a mapper does not fit, by the kind of the misfit; follows the name of the mapper.
_MISFITS: Final = {
    "other_dims": "needs a buffer with as many dimensions as the kernel, {have} "
    "Use slice(dim), slice(dim, at=index), all() or a callable.",
    "other_dims_than_slice": "needs a buffer with as many dimensions as the kernel, or one more, {have} "
    "Use all() or a callable.",
    "other_dims_than_box": "needs a buffer with {needed}, but the buffer has {buffer_dims}. "
    "Give the box as many dimensions as the buffer.",
    "other_dims_than_names": "needs a buffer with {needed}, {have} "
    "Name one dimension of the kernel for each dimension of the buffer.",
    "other_dims_than_widths": "needs a kernel and a buffer with {needed}, one per extent, {have} "
    "Give one extent per dimension, or use a callable.",
    "not_one_dimension": "needs a kernel with 1 dimension and a buffer with at least 1, {have} Use a callable.",
    "no_kernel_dimension": "names dimension {number} of the kernel, which has {kernel_dims}, counted from 0. "
    "Name another one.",
    "no_buffer_dimension": "names a dimension that the buffer does not have: it has {buffer_dims}, counted from 0. "
    "Name another one.",
    "no_index": "names an index that the buffer does not have: in dimension {number} they go from 0 to {last}.",
    "no_element": "gives some items no element: the index space is {space}, and the buffer has the shape {shape}. "
    "Use an index space that lies inside of the buffer, such as its shape. If some items need no element, "
    "use a callable, whose results are clamped to the buffer.",
}


def explain_misfit(kind: str, number: int, space: Box, shape: tuple[int, ...]) -> str:
    """How a mapper does not fit an index space and a buffer of this shape; follows the name of the mapper."""
    kernel_dims, buffer_dims = _dimensions(space.ndim), _dimensions(len(shape))
    return _MISFITS[kind].format(
        have=f"but the kernel has {kernel_dims} and the buffer has {buffer_dims}.",
        kernel_dims=kernel_dims,
        buffer_dims=buffer_dims,
        needed=_dimensions(number),
        number=number,
        last=shape[number] - 1 if kind == "no_index" else None,
        space=show(space),
        shape=shape,
    )


def _explain_slice(space: Box, shape: tuple[int, ...]) -> str:
    """Which slices give each item an element; nothing if there are none."""
    if min(space.min) < 0:
        return ""
    fitting = []
    for dim in range(len(shape)):
        others = [extent for at, extent in enumerate(shape) if at != dim]
        ends = [end for at, end in enumerate(space.max) if at != dim or space.ndim == len(shape) - 1]
        if all(end <= extent for end, extent in zip(ends, others, strict=True)):
            fitting.append(f"slice({dim})")
    if not fitting:
        return ""
    return f" slice(dim) covers all of dimension dim, and the items lie along the others: {' or '.join(fitting)} fits."


def _dimensions(count: int) -> str:
    return f"{count} dimension" if count == 1 else f"{count} dimensions"


def _explain_parts(violation: AccessViolation, access: Access, whole: Box | None) -> str:
    who = "the whole range" if violation.chunk == whole else f"this rank's chunk {show(violation.chunk)}"
    where = show(violation.where)
    is_unwritten = violation.kind == "unwritten"
    return (
        f"buffer {access.port.record.label} through {describe(access.mapper)}: asked for {who} the mapper returns "
        f"{show(violation.of_chunk)}, but its {violation.num_parts} chunks together return {show(violation.of_parts)}. "
        f"{'Nobody would write' if is_unwritten else f'The result for {who} does not contain'} {where}. "
        f"Let the mapper return, for any chunk, what exactly that chunk accesses."
    )


def _explain_overlap(violation: AccessViolation, writer: Access, other: Access) -> str:
    record = writer.port.record
    if all(extent == 1 for extent in record.shape):
        remedy = (
            'to make one value of what they find, use celerity.reduction(buffer, "sum") and combine() in the kernel.'
        )
    else:
        remedy = "write disjoint parts, or read the old values from a second buffer."
        if other.port.mode == READ:
            remedy += (
                " A small part, such as a row that all chunks read, goes into a small buffer first: "
                "queue.copy(row, buffer, source_box=box)."
            )
    return (
        f"buffer {record.label} through {describe(writer.mapper)}: chunk {show(violation.chunk)} writes "
        f"{show(violation.where) if record.shape else 'its only element'}, which chunk {show(violation.other_chunk)} "
        f"{'reads' if other.port.mode == READ else 'writes'} too, through {describe(other.mapper)}. "
        f"Chunks run at the same time: {remedy}"
    )


def _explain_reduced(violation: AccessViolation, access: Access | None, args: Sequence[Any]) -> str:
    ports = [arg.port for arg in args if isinstance(arg, Reduction)]
    label = next(port.record.label for port in ports if port.record.id == violation.buffer)
    other = "that of another reduction" if access is None else f"is accessed through {describe(access.mapper)}"
    return (
        f"buffer {label} is the target of a reduction and {other}. A buffer appears once in a task, either as a "
        f"reduction or as an access: while the kernel runs, each chunk keeps its partial result there. To let the old "
        f"value take part, use celerity.reduction(..., include_current=True); otherwise use a second buffer."
    )
