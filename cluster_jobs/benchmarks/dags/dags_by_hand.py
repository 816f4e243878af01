# SPDX-License-Identifier: MIT
"""The DAG programs by hand on one GPU: on one stream, on several with events, and as a CUDA graph.

The kernels are those that the runtime launches: the same source, compiled by the same call. What is issued is prepared
once as a list of calls with their arguments, so that hardly any Python is left between two calls of the driver.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_jobs.benchmarks.cuda_driver import Driver, DriverError
from cluster_jobs.benchmarks.dags import dag_schedules
from cluster_jobs.benchmarks.dags.dag_measure import Variant
from cluster_jobs.benchmarks.dags.dag_programs import Program, Step, Use
from cluster_jobs.benchmarks.dags.dag_schedules import Operation, Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

Call = tuple[Callable[..., Any], tuple[Any, ...]]

#: Threads per block, by the dimensions of the index space, where a step has none; as the runtime has them.
DEFAULT_BLOCKS = ((), (256,), (8, 32), (4, 8, 8))


def launch_shape(step: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Blocks and threads per block in the directions x, y and z."""
    block = step.block or DEFAULT_BLOCKS[len(step.space)]
    grid = step.grid or tuple(-(-extent // threads) for extent, threads in zip(step.space, block, strict=True))
    one = (1, 1, 1)
    return ((*reversed(grid), *one)[:3], (*reversed(block), *one)[:3])


def parameters(step: Step, addresses: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> list[bytes]:
    """The values of a kernel's parameters, laid out as the device header of the runtime declares them.

    A chunk is the corners of itself and of the index space; an accessor a pointer, and the strides in elements of all
    dimensions but the last one, but at least one.
    """
    corners = ((0,) * len(step.space), step.space) * 2
    values = [struct.pack(f"={4 * len(step.space)}q", *(extent for corner in corners for extent in corner))]
    for (_, kind, name, ndim), arg in zip(step.kernel.declared(), step.args, strict=True):
        if not isinstance(arg, Use):
            assert kind == "int"
            assert not ndim
            values.append(struct.pack("=i", arg))
            continue
        shape = shapes[arg.buffer]
        assert len(shape) == int(ndim), f"{step.kernel.name}: {name} has {ndim} dimension(s), {arg.buffer} {len(shape)}"
        strides = [int(np.prod(shape[dim + 1 :])) for dim in range(max(1, len(shape) - 1))]
        values.append(struct.pack(f"=Q{len(strides)}q", addresses[arg.buffer], *strides))
    return values


class Arrays:
    """The buffers of a program on the GPU and, where they are copied, on the host; all variants share them.

    Args:
        program: What they belong to.
        from_host: Whether dirty inputs and results are copied.
        ahead: The dirty inputs are copied by `reset`, and only results by the runs.
    """

    def __init__(self, program: Program, *, from_host: bool, ahead: bool = False) -> None:
        import cupy
        import cupyx

        self.cupy = cupy
        self.program = program
        self.ahead = ahead
        self.driver = Driver(0)
        cupy.cuda.runtime.setDevice(0)
        self.on_device = {name: cupy.empty(array.shape, array.dtype) for name, array in program.buffers.items()}
        inputs = program.inputs()
        #: Buffers uploaded once, and buffers uploaded at each reset; a reset sets all others to zero.
        self._constants = inputs - program.written()
        self._variables = inputs & program.written()
        #: By whether it is pinned: the dirty inputs, and where results go.
        self.sources: dict[bool, dict[str, Any]] = {False: {}, True: {}}
        self.targets: dict[bool, dict[str, Any]] = {False: {}, True: {}}
        if from_host:
            dirty = () if ahead else program.dirty
            for name in dirty:
                array = np.ascontiguousarray(program.buffers[name])
                self.sources[False][name] = array
                pinned = self.sources[True][name] = cupyx.empty_pinned(array.shape, array.dtype)
                pinned[...] = array
            for name in program.read_back:
                array = program.buffers[name]
                shape = (1,) * array.ndim
                self.targets[False][name] = np.empty(shape, array.dtype)
                self.targets[True][name] = cupyx.empty_pinned(shape, array.dtype)
            self._constants -= set(dirty)
            self._variables -= set(dirty)
        self._upload(self._constants)
        self.reset()

    def _upload(self, names: set[str]) -> None:
        for name in sorted(names):
            self.on_device[name].set(np.ascontiguousarray(self.program.buffers[name]))

    def reset(self) -> None:
        """Give all buffers the contents that they have at first; zeros where something else writes first."""
        synchronize = self.cupy.cuda.runtime.deviceSynchronize
        synchronize()
        for name, array in self.on_device.items():
            if name not in self._constants:
                array.data.memset(0, array.nbytes)
        for targets in self.targets.values():
            for target in targets.values():
                target[...] = 0
        self._upload(self._variables)
        synchronize()

    def results(self) -> dict[str, NDArray[Any]]:
        """Copies of the results, after everything has been waited for."""
        self.cupy.cuda.runtime.deviceSynchronize()
        return {name: self.cupy.asnumpy(self.on_device[name]) for name in self.program.results}

    def read(self, *, is_pinned: bool) -> dict[str, NDArray[Any]]:
        """The results that were copied to the host."""
        return {name: np.array(array) for name, array in self.targets[is_pinned].items()}

    def function(self, step: Step) -> int:
        """The CUfunction of a step's kernel, which is the one that the runtime launches."""
        from celerity_py.cuda.compilation import Program as Source
        from celerity_py.cuda.compilation import load

        return load(Source(step.kernel.source(0), step.kernel.name), (0,))[0]


class Issuer:
    """Turns operations into calls, with streams and events of its own.

    Args:
        arrays: The buffers.
        count: How many streams.
        is_pinned: Copy from and to pinned memory of the host.
        priority: Of the streams; lower numbers are higher priorities, down to -5 on today's GPUs.
    """

    def __init__(self, arrays: Arrays, count: int, *, is_pinned: bool = True, priority: int = 0) -> None:
        cupy = arrays.cupy
        self.arrays = arrays
        self.is_pinned = is_pinned
        self.streams = [cupy.cuda.Stream(non_blocking=True, priority=priority) for _ in range(count)]
        self._events: dict[int | str, Any] = {}
        self._launches = self._prepare()

    def _prepare(self) -> list[tuple[Any, ...]]:
        """For each step, all arguments of a launch but the stream, and the values that they point to."""
        program = self.arrays.program
        addresses = {name: int(array.data.ptr) for name, array in self.arrays.on_device.items()}
        shapes = {name: array.shape for name, array in program.buffers.items()}
        prepared = []
        for step in program.steps:
            blocks, threads = launch_shape(step)
            values = [ctypes.create_string_buffer(value, len(value)) for value in parameters(step, addresses, shapes)]
            pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
            prepared.append((self.arrays.function(step), *blocks, *threads, 0, pointers, values))
        return prepared

    def calls(self, operations: Sequence[Operation], *, synchronizes: bool = False) -> list[Call]:
        """The calls of some operations; with `synchronizes`, the stream is waited for behind each copy and launch."""
        calls: list[Call] = []
        for operation in operations:
            stream = self.streams[operation.stream]
            calls.append(self._call(operation, stream))
            if synchronizes and operation.kind in {"launch", "copy_in", "copy_out"}:
                calls.append((stream.synchronize, ()))
        return calls

    def _call(self, operation: Operation, stream: Any) -> Call:
        if operation.kind == "launch":
            assert isinstance(operation.what, int)
            *launch, pointers, _ = self._launches[operation.what]
            address = ctypes.c_void_p(ctypes.addressof(pointers))
            return self.arrays.driver.function("cuLaunchKernel"), (*launch, ctypes.c_void_p(stream.ptr), address, None)
        if operation.kind in {"record", "wait"}:
            event = self._event(operation.what)
            return (event.record, (stream,)) if operation.kind == "record" else (stream.wait_event, (event,))
        name = str(operation.what)
        runtime = self.arrays.cupy.cuda.runtime
        on_device = int(self.arrays.on_device[name].data.ptr)
        if operation.kind == "copy_in":
            source = self.arrays.sources[self.is_pinned][name]
            copy = (on_device, source.ctypes.data, source.nbytes, runtime.memcpyHostToDevice, stream.ptr)
        else:
            target = self.arrays.targets[self.is_pinned][name]
            copy = (target.ctypes.data, on_device, target.nbytes, runtime.memcpyDeviceToHost, stream.ptr)
        return runtime.memcpyAsync, copy

    def _event(self, key: int | str) -> Any:
        if key not in self._events:
            self._events[key] = self.arrays.cupy.cuda.Event(disable_timing=True)
        return self._events[key]

    def capture(self, operations: Sequence[Operation]) -> Any:
        """A graph of some operations."""
        calls = self.calls(dag_schedules.forked(operations))
        self.streams[0].begin_capture()
        try:
            issue(calls)
        finally:
            graph = self.streams[0].end_capture()
        graph.upload(self.streams[0])
        self.streams[0].synchronize()
        return graph

    def synchronize(self, streams: Sequence[int]) -> list[Call]:
        """The calls that wait for some of the streams."""
        return [(self.streams[stream].synchronize, ()) for stream in streams]


def issue(calls: Sequence[Call]) -> None:
    """Make the calls.

    Raises:
        DriverError: If one returns a status other than 0; what CuPy's raise passes through.
    """
    for call, arguments in calls:
        status = call(*arguments)
        if status:
            raise DriverError(f"{getattr(call, '__name__', call)} failed with status {status}")


class HandWritten(Variant):
    """One variant of a program.

    Args:
        name: "a0" (one stream, waited for behind each kernel; pageable memory), "a1" (one stream), "b" (streams and
            events), or "c" (a graph of b's kernels).
        arrays: The buffers.
        schedule: Of b.
        from_host: Whether dirty inputs and results are copied.
        priority: Of the streams, as `Issuer` has it.
    """

    def __init__(self, name: str, arrays: Arrays, schedule: Schedule, *, from_host: bool, priority: int = 0) -> None:
        program = arrays.program
        serial = dag_schedules.serial(program)
        self.name = name
        self.arrays = arrays
        if name in {"a0", "a1"}:
            schedule = serial
        once = dag_schedules.kernel_operations(schedule)
        reading = dag_schedules.copies_out(program, schedule) if from_host else []
        with_copies = [*once, *reading]
        if from_host and not arrays.ahead:
            with_copies = dag_schedules.operations_with_copies(program, schedule)
        again = dag_schedules.kernel_operations(schedule, repeated=True)
        count = 1 + max(operation.stream for operation in (*with_copies, *again))
        is_graph = name == "c"
        #: Streams used, and waits issued in a run of kernels by itself; of a graph only the driver knows.
        self.streams = None if is_graph else len(set(schedule.streams))
        self.waits = None if is_graph else dag_schedules.count_waits(once)
        issuer = self.issuer = Issuer(arrays, count, is_pinned=name != "a0", priority=priority)
        if is_graph:
            issue([*issuer.calls(with_copies), *issuer.synchronize(range(count))])  # loads what is loaded at first use
            graph = issuer.capture(once)
            launch = [(graph.launch, (issuer.streams[0],))]
            self._again = self._once = launch
            if from_host:
                copies = dag_schedules.operations_with_copies(program, serial)
                self._once = [
                    *issuer.calls([operation for operation in copies if operation.kind == "copy_in"]),
                    *launch,
                    *issuer.calls([operation for operation in copies if operation.kind == "copy_out"]),
                ]
            self._finish = self._finish_once = issuer.synchronize([0])
            return
        self._read_back = issuer.calls(reading)
        self._once = issuer.calls(with_copies, synchronizes=name == "a0")
        self._again = issuer.calls(again, synchronizes=name == "a0")
        self._finish = issuer.synchronize(range(count))
        self._finish_once = issuer.synchronize(dag_schedules.last_streams(with_copies))

    def prepare(self) -> None:
        """Nothing: the host's arrays stay as they are."""

    def submit(self) -> None:
        """Issue a run behind the one before."""
        issue(self._again)

    def finish(self) -> None:
        """Wait for all runs."""
        issue(self._finish)

    def submit_alone(self) -> None:
        """Issue a run by itself, with its copies."""
        issue(self._once)

    def submit_copies(self) -> None:
        """Issue the copies of the results behind the runs; not of a graph."""
        issue(self._read_back)

    def finish_alone(self) -> None:
        """Wait for it."""
        issue(self._finish_once)

    def reset(self) -> None:
        """Give all buffers their initial contents."""
        self.arrays.reset()

    def results(self) -> dict[str, NDArray[Any]]:
        """Copies of the results."""
        return self.arrays.results()

    def read(self) -> dict[str, NDArray[Any]]:
        """The results of the latest run by itself, as the host has read them."""
        return self.arrays.read(is_pinned=self.issuer.is_pinned)
