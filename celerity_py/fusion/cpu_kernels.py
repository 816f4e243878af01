# SPDX-License-Identifier: MIT
"""Makes a kernel for processors of a function and a chunk, as `kernels` makes one in C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celerity_py.fusion.calls import call
from celerity_py.fusion.cpu_emission import CpuCall, emit_for_cpu
from celerity_py.fusion.kernels import TracedKernel, fields_of
from celerity_py.fusion.planning import plan
from celerity_py.fusion.stores import stores_of

if TYPE_CHECKING:
    from celerity_py import _native
    from celerity_py.vocabulary.submissions import Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedCpuKernel(TracedKernel):
    """A kernel in Python for numba."""

    #: By function. All calls of one end before those of the next begin.
    calls: tuple[CpuCall, ...]


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
    stores = stores_of(trace)  # the planner changes statements
    planned = plan(trace.statements)
    text, launch, calls = emit_for_cpu(planned, list(trace.memories), name, fixes_distances=fixes_distances)
    return FusedCpuKernel(name=name, text=text, **fields_of(trace, stores, planned, launch), calls=calls)
