# SPDX-License-Identifier: MIT
"""The kinds of devices as fused kernels see them: which text is made, and who compiles it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from celerity_py.cpu.compilation import compile_for_cpu
from celerity_py.cuda import compilation
from celerity_py.cuda.compilation import CompilationError, FusedProgram
from celerity_py.fusion.cpu_kernels import FusedCpuKernel, make_for_cpu
from celerity_py.fusion.kernels import FusedKernel, make
from celerity_py.fusion.launches import PassLaunch, Shape
from celerity_py.fusion.plans import Compiled
from celerity_py.scheduler.errors import InternalError

if TYPE_CHECKING:
    from celerity_py.fusion.plans import Target


def find(devices: Any, drain: Callable[[], None]) -> Target | None:
    """The target for the `Devices` of a rank; None if no compiler for it is installed.

    Args:
        devices: The devices.
        drain: See `Runtime.drain`.
    """
    if devices.is_cuda:
        return CudaTarget(devices.ordinals, drain)
    return CpuTarget() if find_spec("numba") is not None else None


class CpuTarget:
    """CPU devices, by numba."""

    make = staticmethod(make_for_cpu)

    def begin(self) -> None:
        """See `Target`."""

    def items(self, made: FusedCpuKernel) -> list[tuple[list[int], int]]:
        """See `Target`."""
        return [([bound for interval in call.box for bound in interval], call.parts) for call in made.calls]

    def compile(self, made: FusedCpuKernel, **options: bool) -> Compiled:
        """See `Target`."""
        kernel = compile_for_cpu(made.text, made.name, len(made.calls))
        return Compiled([([address], [], None) for address in kernel.addresses], kernel)


class CudaTarget:
    """GPUs, by NVRTC, which keeps what it has compiled on disk as for a `CudaKernel`."""

    make = staticmethod(make)

    def __init__(self, ordinals: tuple[int, ...], drain: Callable[[], None]) -> None:
        self._ordinals = ordinals
        #: Loading code waits for all streams, as for a CudaKernel.
        self.begin = drain

    def items(self, made: FusedKernel) -> list[tuple[list[int], int]]:
        """See `Target`."""
        return [(list(made.numbers[one.bounds : one.bounds + 2 * one.dims]), 0) for one in made.passes]

    def compile(self, made: FusedKernel, *, contracts: bool, has_small_strides: bool) -> Compiled:
        """See `Target`."""
        options = ("--maxrregcount=128", *(() if contracts else ("--fmad=false",)))
        if has_small_strides and made.has_small_coordinates:
            options += ("-DCELERITY_COORDINATE=int",)

        def load(name: str) -> list[int]:
            return compilation.load(FusedProgram(made.text, f"fused::{name}", options), self._ordinals)

        passes = []
        try:
            for number, one in enumerate(made.passes):
                name = f"{made.name}_{number}"
                single = [] if one.single is None else load(f"{name}_single")
                passes.append((load(name), single, threads_of(one)))
        except CompilationError as error:
            raise InternalError(f"The text of the fused kernel '{made.name}' does not compile:\n{error}") from None
        return Compiled(passes)


class _DryCpuTarget(CpuTarget):
    """Makes kernels, and compiles nothing."""

    def compile(self, made: FusedCpuKernel, **options: bool) -> Compiled:
        return Compiled([([0], [], None) for _ in made.calls])


class _DryCudaTarget(CudaTarget):
    """Likewise."""

    def compile(self, made: FusedKernel, **options: bool) -> Compiled:
        return Compiled([([0], [] if one.single is None else [0], threads_of(one)) for one in made.passes])


def find_dry(*, for_gpus: bool) -> Target:
    """The target of a dry run."""
    return _DryCudaTarget((), lambda: None) if for_gpus else _DryCpuTarget()


def threads_of(one: PassLaunch) -> Any:
    """As `_native.FusedLaunch` takes them: x first."""
    wide = [(memory.place, memory.first_stride, memory.ndim, memory.itemsize) for memory in one.wide]
    single = None if one.single is None else _flat(one.single)
    return _flat(one.shape), wide, list(one.margins), one.wide_bounds, single, one.most_blocks


def _flat(shape: Shape) -> tuple[list[int], list[int]]:
    return _x_first(shape.block), _x_first(shape.items)


def _x_first(extents: tuple[int, ...]) -> list[int]:
    return [*reversed(extents), 1, 1, 1][:3]
