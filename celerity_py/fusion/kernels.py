# SPDX-License-Identifier: MIT
"""Makes a kernel of a function and a chunk: text, what a launch gives to it, and which values it depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.calls import call
from celerity_py.fusion.emission import emit
from celerity_py.fusion.planning import plan
from celerity_py.fusion.scalars import Parameter, content_of
from celerity_py.fusion.stores import Store, stores_of
from celerity_py.fusion.tiling import Tile, Windows, choose_tile

#: Sums of two smaller coordinates fit into 32 bits.
MAX_SMALL_COORDINATE: Final = 2**30 - 2**22

if TYPE_CHECKING:
    from celerity_py._native import Box
    from celerity_py.fusion.launches import Launch, PassLaunch
    from celerity_py.fusion.memories import Scratch
    from celerity_py.fusion.planning import Pass, Plan
    from celerity_py.fusion.trace import Trace
    from celerity_py.vocabulary.submissions import Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedKernel:
    """What one call of a function has given, for any kind of device.

    Chunks and submits with equal texts share a compiled kernel.
    """

    name: str
    #: Functions `name_0`, `name_1`, ..., to be carried out in this order. The structure: equal texts are equal kernels.
    text: str
    #: Positions among the arguments of the accesses whose memories come first.
    accesses: tuple[int, ...]
    #: The memories behind them, which a launch allocates.
    scratch: tuple[Scratch, ...]
    #: The boxes and distances of this chunk.
    numbers: tuple[int, ...]
    scalars: tuple[tuple[Parameter, np.dtype[Any]], ...]
    #: Positions of the arguments whose values decided what the function does: another value is another kernel.
    needed: frozenset[int]
    #: The user's lines with statements, by pass.
    lines: tuple[tuple[str, ...], ...]
    stores: tuple[Store, ...]
    #: Positions of the reductions into which it combines values.
    combined: frozenset[int]

    def scalars_of(self, arguments: Sequence[Any]) -> np.ndarray[Any, Any]:
        """The scalars for other arguments, 16 bytes each.

        Raises:
            UsageError: If a Python integer does not fit into the type of the arrays that it meets.
        """
        return content_of(self.scalars, arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel(TracedKernel):
    """A kernel in C++ behind `fused_tiles.cuh`, in its namespace."""

    #: How the functions are launched.
    passes: tuple[PassLaunch, ...]
    #: Whether `CELERITY_COORDINATE` may be `int`, if strides are smaller than 2**31 in magnitude.
    has_small_coordinates: bool


def fields_of(trace: Trace, stores: tuple[Store, ...], planned: Plan, launch: Launch) -> dict[str, Any]:
    """The fields of a `TracedKernel` but its text, which one of the emissions has written for a plan."""
    return {
        "accesses": tuple(trace.memories.values()),
        "scratch": planned.scratch,
        "numbers": tuple(launch.numbers),
        "scalars": tuple(launch.scalars),
        "needed": frozenset(trace.needed),
        "lines": tuple(tuple(statement.line for statement in one.statements) for one in planned.passes),
        "stores": stores,
        "combined": frozenset(trace.combined),
    }


def make(  # noqa: PLR0917 - those of a call, in its order
    function: Callable[..., Any],
    name: str,
    box: Box,
    global_box: Box,
    arguments: Sequence[Any],
    owner: Submission,
    *,
    fixes_distances: bool = True,
    choose: Callable[[Pass, Windows], Tile] = choose_tile,
) -> FusedKernel:
    """The kernel for one chunk.

    Args:
        function: `f(chunk, *arguments)`, as for arrays of NumPy.
        name: An identifier, the beginning of the names of the functions in the text.
        box: The chunk.
        global_box: The whole index space.
        arguments: Accesses as `AccessArgument`; everything else is a plain value.
        owner: The task, in messages.
        fixes_distances: Whether the distances of stencils are part of the text, as `tiling.MAX_FIXED_DISTANCE` tells.
        choose: How many items of a pass a thread has.

    Raises:
        CelerityError: As from a function that is not fused, and for what a fused kernel does not take.
        NotTakenError: For what is not fused yet.
    """
    trace = call(function, box, global_box, arguments, owner)
    stores = stores_of(trace)  # the planner changes statements
    planned = plan(trace.statements)
    text, launch, passes = emit(planned, list(trace.memories), name, fixes_distances=fixes_distances, choose=choose)
    return FusedKernel(
        name=name,
        text=text,
        **fields_of(trace, stores, planned, launch),
        passes=passes,
        has_small_coordinates=launch.largest < MAX_SMALL_COORDINATE,
    )
