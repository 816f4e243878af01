# SPDX-License-Identifier: MIT
"""Makes a kernel for processors of a function and a chunk, as `kernels` makes one in C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celerity_py.fusion.calls import call
from celerity_py.fusion.cpu_emission import emit_for_cpu
from celerity_py.fusion.planning import plan
from celerity_py.fusion.scalars import content_of

if TYPE_CHECKING:
    import numpy as np

    from celerity_py import _native
    from celerity_py.fusion.coordinates import Box
    from celerity_py.fusion.memories import Scratch
    from celerity_py.fusion.scalars import Parameter
    from celerity_py.vocabulary.submissions import Submission


@dataclass(frozen=True, slots=True)
class FusedCpuKernel:
    """What one call of a function has given. Chunks and submits with equal texts share a compiled kernel."""

    name: str
    #: Python for numba: functions `name_0`, ... to be called in this order. Equal texts are equal kernels.
    text: str
    #: What each of them computes, in the dimensions of buffers: a call computes a part of the box. All calls of one
    #: end before those of the next begin.
    boxes: tuple[Box, ...]
    #: Positions among the arguments of the accesses whose memories come first.
    accesses: tuple[int, ...]
    #: The memories behind them, which a launch allocates.
    scratch: tuple[Scratch, ...]
    #: Distances and further places of this chunk.
    numbers: tuple[int, ...]
    scalars: tuple[tuple[Parameter, np.dtype[Any]], ...]
    #: Positions of the arguments whose values decided what the function does: another value is another kernel.
    needed: frozenset[int]
    #: The user's lines with statements, by pass.
    lines: tuple[tuple[str, ...], ...]

    def scalars_of(self, arguments: Sequence[Any]) -> np.ndarray[Any, Any]:
        """The scalars for other arguments, 16 bytes each.

        Raises:
            UsageError: If a Python integer does not fit into the type of the arrays that it meets.
        """
        return content_of(self.scalars, arguments)


def make_for_cpu(  # noqa: PLR0917 - those of a call, in its order
    function: Callable[..., Any],
    name: str,
    box: _native.Box,
    global_box: _native.Box,
    arguments: Sequence[Any],
    owner: Submission,
    *,
    fixes_distances: bool = True,
) -> FusedCpuKernel:
    """The kernel for one chunk. Arguments and errors are those of `kernels.make`."""
    trace = call(function, box, global_box, arguments, owner)
    planned = plan(trace.statements)
    text, launch = emit_for_cpu(planned, list(trace.memories), name, fixes_distances=fixes_distances)
    return FusedCpuKernel(
        name,
        text,
        tuple(one.box[: one.num_divided] for one in planned.passes),
        tuple(trace.memories.values()),
        planned.scratch,
        tuple(launch.numbers),
        tuple(launch.scalars),
        frozenset(trace.needed),
        tuple(tuple(statement.line for statement in one.statements) for one in planned.passes),
    )
