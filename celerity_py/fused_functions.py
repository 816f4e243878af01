# SPDX-License-Identifier: MIT
"""Functions on arrays from which the runtime makes one kernel: `celerity.fuse`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from celerity_py._native import KernelRecord, SubmitMemo
from celerity_py.kernels import CudaKernel, Kernel, name_of, refuse_submit
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError

if TYPE_CHECKING:
    from celerity_py.fusion.kernels import TracedKernel


class Listing:
    """With `celerity-py fuse`: the fused functions of the dry run, and for which devices their kernels are made."""

    __slots__ = ("for_gpus", "functions")

    def __init__(self, *, for_gpus: bool) -> None:
        self.for_gpus = for_gpus
        self.functions: list[FusedFunction] = []


#: Of this process; None if nobody asks for it.
LISTING: Listing | None = None


class FusedFunction(KernelRecord):
    """A kernel that native code runs, made of a function on arrays by `celerity.fuse`."""

    __slots__ = ("__dict__", "__weakref__", "exact", "function", "made", "texts", "why_not")

    def __init__(self, function: Callable[..., Any], name: str, *, exact: bool) -> None:
        functools.update_wrapper(self, function, updated=())
        #: The function as it was written.
        self.function = self._cpu = self._cuda = function
        self.name = name
        self.exact = exact
        #: The submits that native code can repeat.
        self.memo = SubmitMemo()
        #: What was made of the function when it was last called with views that stand for elements, by structure.
        self.texts: tuple[str, ...] = ()
        #: All that was made of it in this run, by text.
        self.made: dict[str, TracedKernel] = {}
        #: Why Python runs it after all, in some submit; empty if it does not.
        self.why_not = ""
        if LISTING is not None:
            LISTING.functions.append(self)

    def source(self) -> str:
        """The text that was made of the function at its last new kind of submit, as it was compiled.

        For GPUs it is C++, for CPU devices Python that numba takes. If chunks have texts of their own, they follow each
        other. Any thread.

        Raises:
            UsageError: If there is none yet.
        """
        if not self.texts:
            raise UsageError(
                f"The fused kernel '{self.name}' has no source yet: a submit makes it, unless Python runs the "
                f"function, or the run is dry. Call source() after the first submit."
            )
        return "\n\n".join(self.texts)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, for instance in a test of the kernel itself, on arrays of NumPy or CuPy.

        Raises:
            ArgumentTypeError: If the arguments are those of a submit, as for `Kernel`.
        """
        refuse_submit(self.name, args, kwargs)
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<fused kernel {self.name!r}>"


@overload
def fuse(function: Callable[..., Any], /, *, exact: bool = True, name: str | None = None) -> FusedFunction: ...
@overload
def fuse(*, exact: bool = True, name: str | None = None) -> Callable[[Callable[..., Any]], FusedFunction]: ...
def fuse(
    function: Callable[..., Any] | None = None, /, *, exact: bool = True, name: str | None = None
) -> FusedFunction | Callable[[Callable[..., Any]], FusedFunction]:
    """Declare a fused kernel: a decorator of a function on arrays, which becomes one pass over memory where possible.

    At the first submit with arguments of new kinds, the function is called once for each chunk of this rank's devices,
    on the thread that submits, with views that stand for elements. What it does to them becomes a kernel: compiled by
    numba for CPU devices, and by NVRTC for GPUs. Later submits call neither the function nor a compiler. Results are
    those of the same function on arrays of NumPy, to the bit where `docs/how_to/fused_kernels.md` says so.

    Any thread may make fused kernels. Only their submits are collective.

    Args:
        function: `function(chunk, *args)`, as for `celerity.kernel`.
        exact: False allows the compiler to contract a * b + c to one operation with one rounding.
        name: The task's name in messages and timelines; by default that of the function.

    Returns:
        A kernel for `queue.parallel_for`, or a decorator if there is no function. `kernel.source()` is the text that
        was compiled for it.

    Raises:
        ArgumentTypeError: If `function` is not callable or is a kernel already. A submit raises it, and UsageError,
            for what a fused kernel does not take, with the line of the function.
    """
    if function is None:
        return functools.partial(fuse, exact=exact, name=name)
    if isinstance(function, Kernel | CudaKernel | FusedFunction) or not callable(function):
        raise ArgumentTypeError(f"celerity.fuse() takes a function on arrays, not {function!r}.")
    if name is not None and not isinstance(name, str):
        raise ArgumentTypeError(f"The name of a kernel is a string, not {name!r}.")
    return FusedFunction(function, name or name_of(function), exact=exact)
