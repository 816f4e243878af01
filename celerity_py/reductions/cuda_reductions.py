# SPDX-License-Identifier: MIT
"""The kernels behind `executor/core/backends/cuda/cuda_reductions`: one GPU reduces the partial results of a rank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from celerity_py import _native
from celerity_py.cuda import compilation
from celerity_py.cuda.signatures import SPELLINGS
from celerity_py.reductions.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py.hints import Division


_SOURCE: Final = Path(__file__).with_suffix(".cuh").read_text()
#: The host rounds each product of complex numbers.
_OPTIONS: Final = ("--fmad=false",)


def program_of(op: str, dtype: str) -> compilation.Program:
    """The input of the compilation for one operation and dtype that native code combines."""
    types = f"using T = {SPELLINGS[dtype]};\nusing Op = celerity::{OPERATIONS[op].device_type};\n"
    return compilation.Program(types + _SOURCE, "reduce_partials", _OPTIONS)


class ReduceKernels:
    """The kernels that are loaded on all devices of a rank."""

    def __init__(self) -> None:
        #: Which the executor launches.
        self.native = _native.CudaReductions()
        self._known: set[tuple[str, str]] = set()

    def prepare(
        self,
        ordinals: tuple[int, ...],
        drain: Callable[[], None],
        reductions: list[tuple[Any, ...]],
        division: Division,
    ) -> None:
        """Compile and load the kernels that a task may need. By the thread that submits.

        Args:
            ordinals: Of the GPUs of this rank.
            drain: See `Runtime.drain`.
            reductions: Of the task, as the scheduler takes them.
            division: Of the task. Where a GPU has several chunks, each has a partial result.
        """
        for _, op, dtype, includes_current, *_ in reductions:
            has_several = len(ordinals) > 1 or includes_current or division.has_several_parts()
            if op == "callable" or not has_several or (op, dtype) in self._known:
                continue
            program = program_of(op, dtype)
            if not compilation.is_loaded(program, ordinals):
                drain()  # as before the first launch of any kernel
            self.native.add(op, dtype, compilation.load(program, ordinals))
            self._known.add((op, dtype))
