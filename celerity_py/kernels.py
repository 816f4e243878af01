# SPDX-License-Identifier: MIT
"""The ways to write a kernel: a Python function on arrays, CUDA C++ source, or one implementation per backend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, overload

from celerity_py.scheduler.errors import ArgumentTypeError, UsageError


class CudaKernel:
    """A kernel in CUDA C++, one thread per item of the index space.

    Args:
        source: CUDA C++ that defines `__global__ void name(celerity::chunk<D>, accessor<T, D>, ..., scalars)`, in the
            order of the arguments of the launch.
        name: The name of the function in `source`.
        block: Threads per block, one int per dimension; x is the last one.
        shared_bytes: Dynamic shared memory per block.
        grid: Blocks per dimension; derived from the chunk if left out.

    It runs on the CUDA backend only; `celerity.kernel(cpu=f, cuda=CudaKernel(...))` gives it a CPU implementation.
    """

    __slots__ = ("block", "grid", "name", "shared_bytes", "source")

    def __init__(
        self,
        source: str,
        name: str,
        block: Sequence[int] | None = None,
        shared_bytes: int = 0,
        grid: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(source, str) or not isinstance(name, str):
            raise ArgumentTypeError(
                f"CudaKernel() takes source text and the name of its function, not {source!r}, {name!r}."
            )
        self.source = source
        self.name = name
        self.block = None if block is None else tuple(block)
        self.shared_bytes = shared_bytes
        self.grid = None if grid is None else tuple(grid)

    def __repr__(self) -> str:
        return f"<CudaKernel {self.name!r}>"


class Kernel:
    """A kernel with an implementation per backend; made by `celerity.kernel`."""

    def __init__(self, cpu: Callable[..., Any] | None, cuda: Callable[..., Any] | CudaKernel | None, name: str) -> None:
        self.cpu = cpu
        self.cuda = cuda
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the CPU implementation directly, for instance in a test of the kernel itself."""
        if self.cpu is None:
            refuse_on_cpu(self)
        return self.cpu(*args, **kwargs)

    def __repr__(self) -> str:
        backends = [backend for backend in ("cpu", "cuda") if getattr(self, backend) is not None]
        return f"<kernel {self.name!r} for {' and '.join(backends)}>"


@overload
def kernel(function: Callable[..., Any], /, *, name: str | None = None) -> Kernel: ...
@overload
def kernel(*, name: str | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...
@overload
def kernel(
    *,
    cpu: Callable[..., Any] | None = None,
    cuda: Callable[..., Any] | CudaKernel | None = None,
    name: str | None = None,
) -> Kernel: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    cpu: Callable[..., Any] | None = None,
    cuda: Callable[..., Any] | CudaKernel | None = None,
    name: str | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel; a decorator, or a function of one implementation per backend.

    Args:
        function: `function(chunk, *args)` on arrays: NumPy's on the CPU backend, CuPy's on CUDA.
        cpu: The implementation for the CPU backend.
        cuda: The implementation for the CUDA backend, a function or a `CudaKernel`.
        name: The task's name in messages, traces and graphs; the function's name if left out.

    Returns:
        A kernel for `queue.parallel_for`.

    Raises:
        ArgumentTypeError: If an implementation is not callable.
    """
    if function is None and cpu is None and cuda is None:
        return functools.partial(kernel, name=name)
    if function is not None and (cpu is not None or cuda is not None):
        raise UsageError("celerity.kernel() takes either one function for all backends, or cpu= and cuda=, not both.")
    if function is not None:
        cpu = cuda = function
    if isinstance(cpu, CudaKernel):
        raise ArgumentTypeError(
            f"{cpu!r} cannot be the CPU implementation. Write celerity.kernel(cpu=f, cuda={cpu.name})."
        )
    if isinstance(cpu, Kernel):
        cpu = cpu.cpu
    if isinstance(cuda, Kernel):
        cuda = cuda.cuda
    for backend, implementation in (("cpu", cpu), ("cuda", cuda)):
        if implementation is not None and not callable(implementation) and not isinstance(implementation, CudaKernel):
            raise ArgumentTypeError(f"celerity.kernel() needs a function for {backend}, not {implementation!r}.")
    result = Kernel(cpu, cuda, name or name_of(cpu if cpu is not None else cuda))
    if callable(cpu):
        functools.update_wrapper(result, cpu, updated=())  # a function's own attributes stay its own
    return result


def name_of(function: Any) -> str:
    """A name for messages: the function's own, or that of its type."""
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    if isinstance(function, functools.partial):
        name = name_of(function.func)
    return name if isinstance(name, str) else type(function).__name__


def refuse_on_cpu(kernel: Kernel | CudaKernel) -> NoReturn:
    """Say what to do about a kernel that the CPU backend cannot run.

    Raises:
        UsageError: Always.
    """
    raise UsageError(
        f"The kernel {kernel.name!r} has no implementation for the CPU backend, which this run uses. "
        f"Give it one with celerity.kernel(cpu=f, cuda={kernel.name})."
    )
