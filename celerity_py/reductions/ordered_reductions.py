# SPDX-License-Identifier: MIT
"""Sums and products of kernels in CUDA C++ in a fixed order, as `celerity.reduction(deterministic=True)` asks for.

Each block of the kernel has an element of a hidden buffer to itself, and combines its values there. That is a reduction
into an array whose elements have one contributor per device. A second kernel combines the elements, in an order that
depends on their number only, and writes the result.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from celerity_py.access import all as all_elements
from celerity_py.buffer import Buffer
from celerity_py.cuda.launches import DEFAULT_BLOCKS
from celerity_py.cuda.signatures import SPELLINGS
from celerity_py.kernels import CudaKernel
from celerity_py.reductions.operations import OPERATIONS
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.reductions.reduction import Reduction
from celerity_py.scheduler.errors import OverlappingAccess, UsageError
from celerity_py.vocabulary.accesses import Access
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from celerity_py._native import Box
    from celerity_py.runtime.runtime import Runtime

_MOST_BLOCKS: Final = 1 << 20
_SOURCE: Final = Path(__file__).with_suffix(".cuh").read_text()


@dataclass(frozen=True, slots=True)
class OrderedTarget:
    """The second kernel of a reduction in a fixed order, until it is submitted."""

    buffer: Buffer[Any]
    blocks: Buffer[Any]
    includes_current: bool
    frame: FrameType


def order_reductions(
    submission: Submission, args: tuple[Any, ...], reductions: list[tuple[Any, ...]], frame: FrameType
) -> None:
    """Let the reductions of a `CudaKernel` that need a fixed order go into a buffer with an element per block.

    Args:
        submission: Of the kernel; the ports of these reductions are replaced.
        args: Of the submit.
        reductions: As the scheduler takes them, in the order of the arguments; replaced likewise.
        frame: Of the submit.

    Raises:
        UsageError: If threads combine with elements of an array, in which no order is fixed, or blocks are too many.
        OverlappingAccess: If the task uses a target in another way as well.
    """
    number = -1
    for position, arg in enumerate(args):
        if arg.__class__ is not Reduction:
            continue
        number += 1
        if not arg.port.needs_order:
            continue
        _check_target(submission, args, arg)
        blocks = _blocks_of(arg.buffer, _count_blocks(submission, arg.port))
        port = ReductionPort(blocks.record, arg.port.op, is_deterministic=True)
        port.ordered = OrderedTarget(arg.buffer, blocks, arg.port.includes_current, frame)
        submission.args[position] = port
        reductions[number] = (blocks.record.id, *arg.native[1:3], False)


def finish_ordered(runtime: Runtime, submission: Submission, priority: int) -> None:
    """Submit the second kernel for each reduction in a fixed order, behind the first one."""
    for port in submission.args:
        if port.__class__ is not ReductionPort or port.ordered is None:
            continue
        target: OrderedTarget = port.ordered
        port.ordered = None  # frames and buffers end with the call
        record = target.buffer.record
        mode = target.buffer.read_write if target.includes_current else target.buffer.write
        args = (
            target.blocks.read(all_elements()),
            mode(all_elements()),
            target.blocks.shape[0],
            target.includes_current,
        )
        kernel = _kernel_for(port.op, record.dtype.name, len(record.shape))
        name = f"{submission.name}: blocks in order"
        runtime.submit_kernel(kernel, 1, args, name, (), None, target.frame, priority)


def _check_target(submission: Submission, args: tuple[Any, ...], reduction: Reduction) -> None:
    port = reduction.port
    label = port.record.label
    if port.shape != ():
        raise UsageError(
            f"{submission.describe()} is in CUDA C++ and reduces into {label} of shape {port.shape} with "
            f"deterministic=True, but its threads combine with the elements of an array in any order, and "
            f"{port.op!r} of {port.record.dtype} depends on the order. Reduce in a kernel in Python, with CuPy: "
            f"out.combine(array). Or reduce integers, or leave deterministic=True out. Nothing was submitted."
        )
    others = [arg for arg in args if isinstance(arg, Access | Reduction) and arg is not reduction]
    if any(other.port.record is port.record for other in others) or sum(arg is reduction for arg in args) > 1:
        raise OverlappingAccess(
            f"{submission.describe()}: buffer {label} is the target of a reduction and is used a second time. A buffer "
            f"appears once in a task, either as a reduction or as an access. To let the old value take part, use "
            f"celerity.reduction(..., include_current=True); otherwise use a second buffer. Nothing was submitted."
        )


def _count_blocks(submission: Submission, port: ReductionPort) -> int:
    """As many as a launch of the kernel may have, for any chunk of the index space."""
    kernel: CudaKernel = submission.function
    space: Box = submission.box
    block = DEFAULT_BLOCKS[space.ndim] if kernel.block is None else kernel.block
    if kernel.grid is not None:
        count = math.prod(kernel.grid)
    else:
        items = kernel.items or (1,) * space.ndim
        each = [threads * items_of for threads, items_of in zip(block, items, strict=False)]
        count = math.prod(-(-extent // size) for extent, size in zip(space.shape, each, strict=False))
    if count > _MOST_BLOCKS:
        raise UsageError(
            f"{submission.describe()} reduces into {port.record.label} with deterministic=True in {count} blocks, "
            f"which is more than {_MOST_BLOCKS}. Give the CudaKernel fewer blocks, with grid= and a loop over the "
            f"chunk in steps of chunk.step(dim). Nothing was submitted."
        )
    return count


def _blocks_of(target: Buffer[Any], count: int) -> Buffer[Any]:
    """The hidden buffer, which lives as long as the target: recordings may refer to it."""
    known = target.blocks
    if known is None:
        known = target.blocks = {}
    if count not in known:
        label = target.record.label
        target.record.runtime.refuse_in_recording(f"The first reduction into {label} with deterministic=True")
        known[count] = Buffer(count, target.record.dtype, name=f"blocks of {target.record.label}")
    return known[count]


@functools.cache
def _kernel_for(op: str, dtype: str, ndim: int) -> CudaKernel:
    types = f"using T = {SPELLINGS[dtype]};\nusing Op = celerity::{OPERATIONS[op].device_type};\n"
    return CudaKernel(f"{types}constexpr int D = {ndim};\n{_SOURCE}", "work", block=(256,))
