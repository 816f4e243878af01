# SPDX-License-Identifier: MIT
"""The ways to write a kernel: a Python function on arrays, CUDA C++ source, or one implementation per backend."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, overload

import numpy as np

from celerity_py._native import Box, HolderRecord, KernelRecord, SubmitMemo
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, UsageError
from celerity_py.vocabulary.accesses import Access
from celerity_py.vocabulary.integers import is_int, to_int, to_ints
from celerity_py.vocabulary.notation import printable
from celerity_py.vocabulary.refused_operators import StandsForArray
from celerity_py.vocabulary.submissions import Site
from celerity_py.vocabulary.type_rules import describe_value

# The limits of CUDA; x first.
_MOST_THREADS: Final = 1024
_MOST_THREADS_PER_DIMENSION: Final = (1024, 1024, 64)
_MOST_BLOCKS_PER_DIMENSION: Final = (2**31 - 1, 65535, 65535)
_MOST_ITEMS_PER_DIMENSION: Final = (1024, 1024, 1024)  # more registers than a thread can have


class CudaKernel(KernelRecord):
    """A kernel in CUDA C++, by default with one thread per item of the index space.

    It runs on the CUDA backend only; `celerity.kernel(cpu=f, cuda=CudaKernel(...))` adds an implementation for the CPU.
    At the first submit the runtime compares its parameters with the arguments, and one process per host compiles it.
    Any thread may make kernels. Only their submits are collective.

    Args:
        source: CUDA C++ that defines `__global__ void name(celerity::chunk<D>, accessor<T, D>, ..., scalars)`, with the
            parameters in the order of the arguments of the submit.
        name: The name of the function in `source`.
        block: Threads per block, one int per dimension; x is the last one.
        shared_bytes: Dynamic shared memory per block, in bytes.
        grid: Blocks, one int per dimension; None derives them from the chunk.
        items: Neighbouring items that each thread works on, one int per dimension, at most 1024; None: 1 per dimension.
            `chunk.item()` is the first of these items, and the constant `chunk.items(dimension)` their number.

    Raises:
        ArgumentTypeError: If source and name are no strings, or extents and bytes no integers.
        DimensionMismatch: If blocks, grids or items have more than three dimensions. A submit raises it if their
            dimensions are not those of the chunk.
        UsageError: If blocks or grids are larger than CUDA allows, or items too many. A submit raises it if parameters
            and arguments do not fit, or the source does not compile.
    """

    __slots__ = ("block", "grid", "items", "shared_bytes", "site", "source")

    def __init__(
        self,
        source: str,
        name: str,
        block: Sequence[int] | None = None,
        shared_bytes: int = 0,
        grid: Sequence[int] | None = None,
        *,
        items: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(source, str) or not isinstance(name, str):
            raise ArgumentTypeError(
                f"CudaKernel() takes source text and the name of its function, not {source!r}, {name!r}."
            )
        self.source = source
        self.name = name
        self.block = _extents(block, "block", _MOST_THREADS_PER_DIMENSION)
        self.grid = _extents(grid, "grid", _MOST_BLOCKS_PER_DIMENSION)
        self.items = _extents(items, "items", _MOST_ITEMS_PER_DIMENSION)
        if self.block is not None and math.prod(self.block) > _MOST_THREADS:
            raise UsageError(
                f"CudaKernel(block={self.block}) has {math.prod(self.block)} threads per block, but CUDA allows "
                f"{_MOST_THREADS}."
            )
        if not is_int(shared_bytes) or shared_bytes < 0:
            raise ArgumentTypeError(f"CudaKernel() takes a number of bytes as shared_bytes=, not {shared_bytes!r}.")
        self.shared_bytes = to_int(shared_bytes)
        #: Where it was made, for messages of the compiler.
        self.site = Site(sys._getframe(1))
        self.memo = SubmitMemo()

    def __repr__(self) -> str:
        return f"<CudaKernel {self.name!r}>"


def _extents(given: Any, what: str, most: tuple[int, ...]) -> tuple[int, ...] | None:
    """Threads of a block or blocks of a grid, checked."""
    if given is None:
        return None
    try:
        extents = to_ints(given)
    except TypeError:
        raise ArgumentTypeError(f"CudaKernel() takes one int per dimension as {what}=, not {given!r}.") from None
    if len(extents) > 3:
        raise DimensionMismatch(f"CudaKernel({what}={extents}) has {len(extents)} dimensions, but CUDA has 3.")
    for extent, limit in zip(reversed(extents), most, strict=False):
        if not 1 <= extent <= limit:
            raise UsageError(
                f"CudaKernel({what}={extents}): from 1 to {', '.join(map(str, reversed(most)))} are possible in the "
                f"dimensions z, y, x."
            )
    return extents


class Kernel(KernelRecord):
    """A kernel with an implementation per backend; made by `celerity.kernel`."""

    __slots__ = ("__dict__", "__weakref__")

    def __init__(self, cpu: Callable[..., Any] | None, cuda: Callable[..., Any] | CudaKernel | None, name: str) -> None:
        self._cpu = cpu
        self._cuda = cuda
        self.name = name
        #: The submits of these functions that native code can repeat.
        self.memo = SubmitMemo()

    @property
    def cpu(self) -> Callable[..., Any] | None:
        """The implementation for the CPU backend."""
        return self._cpu

    @property
    def cuda(self) -> Callable[..., Any] | CudaKernel | None:
        """The implementation for the CUDA backend."""
        return self._cuda

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the CPU implementation directly, for instance in a test of the kernel itself.

        Args:
            args: The arguments of the function: an object with a box as its chunk, then arrays.
            kwargs: Arguments of the function by name.

        Raises:
            ArgumentTypeError: If the arguments are those of a submit: an index space in the place of the chunk, or
                accesses, buffers and reductions.
        """
        refuse_submit(self.name, args, kwargs)
        if self.cpu is None:
            refuse_backend(self)
        return self.cpu(*args, **kwargs)

    def __repr__(self) -> str:
        backends = [backend for backend in ("cpu", "cuda") if getattr(self, backend) is not None]
        return f"<kernel {self.name!r} for {' and '.join(backends)}>"


def refuse_submit(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call of a kernel with the arguments of a submit.

    Raises:
        ArgumentTypeError: For an index space in the place of the chunk, for accesses, buffers and reductions.
    """
    mistake = ""
    if not args and not kwargs:
        mistake = "without arguments"
    elif any(isinstance(arg, Access) for arg in args):
        mistake = "with an access"
    elif any(isinstance(arg, StandsForArray) and not isinstance(arg, HolderRecord) for arg in args):
        mistake = "with a buffer or reduction"
    elif args and isinstance(args[0], int | tuple | list | Box | np.ndarray | np.generic):
        mistake = f"with {describe_value(args[0])} in the place of its chunk"
    if mistake:
        raise ArgumentTypeError(
            f"The kernel {name!r} is called {mistake}. Such a call would run its function here and now. To "
            f"have it run on the devices, submit it: queue.parallel_for(shape, {name}, ...). A test may call "
            f"it with an object that has a box, such as types.SimpleNamespace(box=Box((0,), (8,)), xp=numpy), and "
            f"arrays."
        )


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
    """Declare a kernel: a decorator of one function, or a function of one implementation per backend.

    Make a kernel once and submit it often: it remembers the checks of its submits. Any thread may make kernels. Only
    their submits are collective.

    Args:
        function: `function(chunk, *args)` on arrays: NumPy's on the CPU backend, CuPy's on the CUDA backend, with the
            stream of the device current.
        cpu: The implementation for the CPU backend, a function.
        cuda: The implementation for the CUDA backend, a function or a `CudaKernel`.
        name: The task's name in messages and timelines; by default that of the function.

    Returns:
        A kernel for `queue.parallel_for`, or a decorator if only `name` is given.

    Raises:
        ArgumentTypeError: If an implementation is not callable, `cpu` is a `CudaKernel`, or `name` is no string.
        UsageError: If both `function` and `cpu` or `cuda` are given.
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
    if name is not None and not isinstance(name, str):
        raise ArgumentTypeError(f"The name of a kernel is a string, not {name!r}.")
    result = Kernel(cpu, cuda, printable(name or name_of(cpu if cpu is not None else cuda)))
    if callable(cpu):
        functools.update_wrapper(result, cpu, updated=())  # a function's own attributes stay its own
    return result


def name_of(function: Any) -> str:
    """A name for messages: the function's own, or that of its type."""
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    if isinstance(function, functools.partial):
        name = name_of(function.func)
    return printable(name if isinstance(name, str) else type(function).__name__)


def refuse_backend(kernel: Kernel | CudaKernel) -> NoReturn:
    """Explain the remedy for a kernel that the backend in use cannot run.

    Raises:
        UsageError: Always.
    """
    backend, remedy = "CPU", f"celerity.kernel(cpu=f, cuda={kernel.name})"
    if isinstance(kernel, Kernel) and kernel.cuda is None:
        backend, remedy = "CUDA", "celerity.kernel(cpu=f, cuda=g), or run with CELERITY_BACKEND=cpu"
    raise UsageError(
        f"The kernel {kernel.name!r} has no implementation for the {backend} backend, which this run uses. "
        f"Give it one with {remedy}."
    )
