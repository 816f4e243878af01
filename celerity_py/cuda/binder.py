# SPDX-License-Identifier: MIT
"""Calls of Python kernels on GPUs: CuPy views over device memory, the lane's stream, partial results on the device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np

from celerity_py._native import KernelCall
from celerity_py.calls.binder import Binder, Binding
from celerity_py.calls.call_checks import CallChecks
from celerity_py.calls.views import View
from celerity_py.cuda.contexts import on_device
from celerity_py.cuda.device_arrays import is_cupy_dtype
from celerity_py.cuda.library_streams import library_scopes
from celerity_py.cuda.mixed_arrays import explain_mixture
from celerity_py.cuda.turns import kernel_turns
from celerity_py.reductions.host_reducers import CallableReducer, PlaceReducer
from celerity_py.reductions.partial_results import Reducer, ReductionPort
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.submissions import Submission

_MAX_STREAMS = 256  # lanes are few, but each runtime makes its own

#: (ordinal, handle) -> CuPy's wrapper
_streams: dict[tuple[int, int], Any] = {}


class CudaView(View[Any]):
    """A view whose arrays are CuPy's.

    CuPy knows no read-only arrays: on a read access `view[box] = x` is refused, `view[box][...] = x` only with CHECK.
    """

    __slots__ = ()

    @property
    def __cuda_array_interface__(self) -> Any:
        """The interface by which other libraries use `view.array`."""
        return self.array.__cuda_array_interface__  # type: ignore[attr-defined] # CuPy's


class CudaReducer(Reducer):
    """A partial result in device memory; contributions are combined in the order of the stream."""

    __slots__ = ()

    def _begin(self) -> None:
        import cupy

        super()._begin()
        self._operation = getattr(cupy, self._operation.__name__)

    def _merge(self, value: Any) -> None:
        if self._port.record.dtype.kind == "c" and self._port.op in {
            "and",
            "or",
        }:  # CuPy has them for no complex numbers
            self._base[...] = self._operation(self._base != 0, value != 0)
        else:
            super()._merge(value)

    def _at(self, indices: Any, values: Any) -> None:
        if self._port.needs_order:
            raise UsageError(
                f"{self._owner.describe()} combines at indices of {self._port.record.label} on a GPU, where CuPy has "
                f"no fixed order, but the reduction has deterministic=True. Make an array of the shape of the buffer "
                f"in the kernel, by functions with a fixed order, and combine(array)."
            )
        try:
            super()._at(indices, values)
        # CuPy lacks `at` for some operations, and its scatter refuses dtypes such as int64: three kinds of exceptions.
        except (NotImplementedError, AttributeError, TypeError) as error:
            raise UsageError(
                f"{self._owner.describe()} combines at indices of {self._port.record.label}, and CuPy has no "
                f"{self._operation.__name__}.at for {self._port.record.dtype} ({error}). Make an array of the shape of "
                f"the buffer in the kernel, and combine(array)."
            ) from error


class _HostCombination(CallableReducer):
    """A partial result in device memory that combines on the host: each call waits for the stream.

    The array holds the bytes of the elements if CuPy has no arrays of their dtype.
    """

    __slots__ = ()

    def _check_array(self) -> None:
        if not is_cupy_dtype(self._port.record.dtype):
            raise UsageError(
                f"{self._owner.describe()} takes the array of a partial result of {self._port.record.label}, and CuPy "
                f"has no arrays of {self._port.record.dtype}. Use combine() and combine_at()."
            )

    def _load(self) -> Any:
        port = self._port
        on_device: Any = self._base
        return np.ndarray(port.shape, port.record.dtype, on_device.get().tobytes()).copy()

    def _store(self, result: np.ndarray[Any, Any]) -> None:
        whole = np.ascontiguousarray(np.broadcast_to(result, self._port.shape))
        on_device: Any = self._base
        on_device.set(np.ndarray(on_device.shape, on_device.dtype, whole.tobytes()))

    def _to_host(self, value: Any) -> Any:
        return value.get() if hasattr(value, "get") and hasattr(value, "dtype") else value


class CudaCallableReducer(_HostCombination):
    """See `CallableReducer`."""

    __slots__ = ()


class CudaPlaceReducer(_HostCombination, PlaceReducer):
    """See `PlaceReducer`."""

    __slots__ = ()


class _ForeignStream:
    """Passes a stream to CuPy by the protocol for streams that others own."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def stream_of(ordinal: int, handle: int) -> Any:
    """CuPy's wrapper of a stream, which stays ours."""
    known = _streams.get((ordinal, handle))
    if known is not None:
        return known
    import cupy

    from_external = getattr(cupy.cuda.Stream, "from_external", None)
    if from_external is None:
        stream = cupy.cuda.ExternalStream(handle, ordinal)
    else:  # CuPy 14 warns of the older way
        stream = from_external(_ForeignStream(handle))
    if len(_streams) >= _MAX_STREAMS:
        _streams.clear()
    _streams[ordinal, handle] = stream
    return stream


class CudaBinder(Binder):
    """Makes arguments of CuPy arrays over the memory of one GPU."""

    view_type = CudaView
    reducer_type = CudaReducer
    callable_reducer_type = CudaCallableReducer
    place_reducer_type = CudaPlaceReducer
    protects_reads = False

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal

    @cached_property
    def xp(self) -> Any:
        """CuPy, imported for the first kernel in Python."""
        import cupy

        return cupy

    def run_kernel(
        self,
        submission: Submission,
        device: int,
        call: KernelCall,
        checks: CallChecks | None = None,
        stream: Any = None,
    ) -> None:
        """Run one chunk of a kernel. Work that the kernel puts on the stream may still run when this returns.

        Checks wait for the stream.
        """
        stream = stream_of(self._ordinal, call.stream)
        with kernel_turns.take(), on_device(self._ordinal), stream:
            super().run_kernel(submission, device, call, checks, stream)

    def call(
        self,
        submission: Submission,
        part: Any,
        bindings: Sequence[Binding],
        partials: Iterable[Any] = (),
        checks: CallChecks | None = None,
    ) -> None:
        """As that of the base class. Libraries that the program has imported use the lane's stream meanwhile."""
        # Checks surround another call of this method, and look at what the function has left on the lane.
        if checks is not None:
            super().call(submission, part, bindings, partials, checks)
            return
        try:
            with library_scopes(self._ordinal, part.stream) or nullcontext():
                super().call(submission, part, bindings, partials)
        except Exception as error:
            if told := explain_mixture(error, submission):
                error.add_note(told)
            raise

    def array_at(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """A CuPy array over foreign device memory."""
        return self.map(address, shape, dtype)[0]()

    def partial_at(self, address: int, port: ReductionPort) -> Any:
        """A CuPy array over a partial result, of bytes if CuPy has no arrays of its dtype."""
        dtype = port.record.dtype
        if is_cupy_dtype(dtype):
            return self.array_at(address, port.shape, dtype)
        return self.array_at(address, (*port.shape, dtype.itemsize), np.dtype(np.uint8))

    def map(self, address: int, shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
        """The same function twice: CuPy has no read-only arrays for accesses that only read."""
        memory = self.xp.cuda.UnownedMemory(address, dtype.itemsize * math.prod(shape), None, self._ordinal)
        pointer = self.xp.cuda.MemoryPointer(memory, 0)
        make = partial(self.xp.ndarray, (*shape, *dtype.shape), dtype.base, pointer)
        return make, make

    def to_host(self, array: Any) -> Any:
        """An array of CuPy as one of NumPy; waits for the current stream."""
        return array.get()


def release_cached_memory(ordinal: int) -> None:
    """Make CuPy give unused memory of its pool on a GPU back to the driver. Waits for the GPU."""
    import cupy

    with on_device(ordinal):
        cupy.get_default_memory_pool().free_all_blocks()
