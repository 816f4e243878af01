# SPDX-License-Identifier: MIT
"""One rank of a simulation: its real generators and executor, on devices that make a step when they are told to."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from celerity_py import _native_testing
from tests.property.distribution import paths_of
from tests.property.interpreter import Meaning, fold
from tests.property.programs import Fence, HostTask, Kernel, Program
from tests.support.allocations import CELL_BYTES, cells_of
from tests.verification.contexts import RankContext
from tests.verification.elements import FlatBox, flat_indices, flat_size, to_flat
from tests.verification.graph_records import Trace

if TYPE_CHECKING:
    from tests.property.simulator import World

Action = Callable[[], None]
Cells = npt.NDArray[np.uint32]
Call = tuple[Any, ...]

POISON = 0xFFFF_FFFF
"""Of fresh memory, and of memory that was freed."""


class SimulationError(AssertionError):
    """Something that would be a crash, a hang or a wrong result in a real run."""


def memory_at(address: int, count: int) -> Cells:
    return np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(address))


@dataclass
class Payload:
    """A box inside of an array in host memory, of a send or of a receive."""

    request: int
    address: int
    allocated: tuple[int, int, int]
    offset: tuple[int, int, int]
    extent: tuple[int, int, int]
    element_size: int

    @property
    def cells(self) -> Cells:
        """A view, in the shape of the box, with the cells of an element behind each other."""
        per_element = self.element_size // CELL_BYTES
        shape = (*self.allocated[:2], self.allocated[2] * per_element)
        whole = memory_at(self.address, int(np.prod(shape))).reshape(shape)
        lows = (*self.offset[:2], self.offset[2] * per_element)
        extents = (*self.extent[:2], self.extent[2] * per_element)
        return whole[tuple(slice(low, low + extent) for low, extent in zip(lows, extents, strict=True))]


class Functions:
    """Bodies of kernels and host tasks of one rank, which compare what they read, and leave what the program leaves."""

    def __init__(self, trace: Trace, meaning: Meaning, program: Program) -> None:
        self.trace = trace
        self.meaning = meaning
        self.factors = {number: decl.element_size_bytes // CELL_BYTES for number, decl in program.buffers.items()}
        self.spaces = {n: to_flat(tuple((0, extent) for extent in d.shape)) for n, d in program.buffers.items()}

    def run(self, submission: int, chunk: FlatBox, accesses: list[Any], reductions: list[Any]) -> None:
        task = self.meaning.tasks[submission].task
        assert isinstance(task, Kernel | HostTask)
        meaning = self.meaning.tasks[submission]
        bound = [(a, binding) for a, binding in zip(task.accesses, accesses, strict=True) if binding is not None]
        for access, binding in bound:
            if access.mode != "write":
                expected = meaning.before[access.buffer].words
                self._compare(f"S{submission} {access}, chunk {chunk}", access.buffer, binding, expected)
        for access, binding in bound:
            if access.mode != "read":
                memory, cells, elements, factor = self._place(access.buffer, binding)
                words = meaning.after[access.buffer].words[elements].astype(np.uint32)
                memory[cells] = np.repeat(words, factor)
        for position, binding in enumerate(reductions):
            assert isinstance(task, Kernel)
            places = tuple(slice(chunk[d] - low, chunk[3 + d] - low) for d, (low, _) in enumerate(task.box))
            share = fold(task.reductions[position].op, meaning.contributions[position][places].reshape(-1))
            memory_at(binding[0], 1)[0] = share

    def initialize(self, buffer: int, address: int, allocated: FlatBox, boxes: list[FlatBox]) -> None:
        number = self.trace.buffer_numbers[buffer]
        memory, cells, elements, factor = self._place(number, (buffer, None, address, allocated, None, boxes))
        memory[cells] = np.repeat(self.meaning.initial[number][elements].astype(np.uint32), factor)

    def _place(self, number: int, binding: Any) -> tuple[Cells, Any, Any, int]:
        _, _, address, allocated, _, boxes = binding
        factor = self.factors[number]
        flat = tuple(tuple(box) for box in boxes)
        cells, _ = cells_of(tuple(allocated), flat, factor)
        return (
            memory_at(address, flat_size(tuple(allocated)) * factor),
            cells,
            flat_indices(self.spaces[number], flat),
            factor,
        )

    def _compare(self, what: str, number: int, binding: Any, expected: Any) -> None:
        memory, cells, elements, factor = self._place(number, binding)
        found = memory[cells]
        wrong = np.flatnonzero(found != np.repeat(expected[elements].astype(np.uint32), factor))
        if wrong.size:
            kind = "poison" if found[wrong[0]] == POISON else "a wrong value"
            element = int(elements[int(wrong[0]) // factor])
            raise SimulationError(
                f"rank {self.trace.rank}: {what} finds {kind} in element {element} of b{number}, "
                f"accessed in allocation {binding[1]}"
            )


class SimulatedRank:
    """One rank: application, scheduler, executor, devices, and the threads that call functions."""

    def __init__(self, world: World, rank: int) -> None:
        settings = world.program.settings
        self.world = world
        self.rank = rank
        self.context = RankContext(settings, rank)
        self.steps = deque(world.program.steps)
        self.has_ended = False
        self.is_shut_down = False
        self.functions = Functions(self.context.trace, world.meaning, world.program)
        self.executor, self.devices = _native_testing.make_scripted_executor(
            num_ranks=settings.num_ranks, rank=rank, num_devices=settings.num_devices, **world.executor_options(rank)
        )
        self.kernels: dict[tuple[int, int], Call] = {}
        """Handed out, and waiting on their lanes."""
        self.host_calls: list[Call] = []
        self.user_memory: dict[int, Cells] = {}
        self.freed: set[int] = set()
        self.fulfilled: set[int] = set()
        self.reached: deque[int] = deque()
        self.receives: dict[tuple[int, int], Payload] = {}
        """Posted, by source and message."""
        self.slow_lanes = world.choose_slow_lanes(self.executor.lanes())

    # application and scheduler

    def step_application(self) -> None:
        if self.steps:
            step = self.steps.popleft()
            self._register_launch(step)
            self.context.apply(step)
        else:
            self.context.finish()
            self.has_ended = True
        self.submit_new()

    def _register_launch(self, step: object) -> None:
        if (
            isinstance(step, Kernel)
            and self.world.is_stream_like
            and self.world.random.random() < self.world.native_share
        ):
            _native_testing.register_scripted_launch(self.executor, self.context.native.next_submission())

    def notify_scheduler(self) -> None:
        self.context.native.notify_epoch_reached(self.reached.popleft())
        self.submit_new()

    def submit_new(self) -> None:
        instructions, pilots = self.context.take()
        for raw in range(len(self.user_memory) + 1, len(self.context.trace.user_allocations) + 1):
            self._add_user_memory(raw)
        for record in instructions:
            self.world.paths.update(paths_of(record))
        if instructions or pilots:
            _native_testing.submit(self.executor, _native_testing.InstructionRecords(instructions, pilots))

    def _add_user_memory(self, raw: int) -> None:
        kind, number = self.context.trace.user_allocations[raw]
        if kind == "buffer":
            cells = np.repeat(self.world.meaning.initial[number].astype(np.uint32), self.functions.factors[number])
        else:
            task = self.world.meaning.tasks[number].task
            assert isinstance(task, Fence)
            count = int(np.prod([high - low for low, high in task.box], dtype=np.int64))
            cells = np.full(count * self.functions.factors[task.buffer], POISON, dtype=np.uint32)
        self.user_memory[raw] = cells
        registered = self.executor.register_user_memory(cells.ctypes.data, cells.nbytes)
        assert registered == raw, (registered, raw)

    # executor

    def run(self) -> None:
        for event in self.executor.run(0.0):
            getattr(self, f"_on_{event[0]}")(*event[1:])
        self.reached.extend(self.devices.take_reached())

    def _on_pilot(self, to: int, pilot: bytes) -> None:
        self.world.pilots[to].append((self.rank, pilot))

    def _on_send(self, request: int, to: int, message: int, *where: Any) -> None:
        self.world.start_send(self.rank, to, message, Payload(request, *where))

    def _on_receive(self, request: int, source: int, message: int, *where: Any) -> None:
        if (source, message) in self.receives:
            raise SimulationError(f"rank {self.rank} receives message {message} of rank {source} twice")
        self.receives[(source, message)] = Payload(request, *where)

    def _on_barrier(self, request: int) -> None:
        self.world.enter_barrier(self.rank, request)

    def _on_completed(self, submission: int) -> None:
        meaning = self.world.meaning.tasks.get(submission)
        if meaning is None or not isinstance(meaning.task, Fence):
            return
        self.fulfilled.add(submission)
        factor = self.functions.factors[meaning.task.buffer]
        assert meaning.fence_result is not None
        for raw, use in self.context.trace.user_allocations.items():
            if use == ("fence", submission) and not np.array_equal(
                self.user_memory[raw], np.repeat(meaning.fence_result.astype(np.uint32), factor)
            ):
                raise SimulationError(f"rank {self.rank}: fence S{submission} is fulfilled with other data")

    def _on_retired(self, _last: int) -> None:
        pass

    def _on_user_free(self, raw: int) -> None:
        self.freed.add(raw)
        self.user_memory[raw][:] = POISON

    def _on_shutdown(self) -> None:
        self.is_shut_down = True

    def _on_failed(self, *what: Any) -> None:
        raise SimulationError(f"rank {self.rank} fails: {what}")

    # what may happen next

    def actions(self) -> list[Action]:
        world = self.world
        steps = self.devices.possible_steps()
        if self.slow_lanes and not world.is_desperate and world.random.random() >= world.pace_of_slow:
            steps = [which for which in steps if which not in self.slow_lanes]
        result: list[Action] = [partial(self._step, which) for which in world.some_of(steps)]
        settings = world.program.settings
        devices = range(settings.num_devices)
        result += [partial(self._launch, d) for d in devices if _native_testing.has_kernel(self.executor, d)]
        if _native_testing.has_host_task(self.executor):
            result.append(self._take_host_call)
        result += [partial(self._run_host_call, call) for call in world.some_of(self.host_calls)]
        if self.reached:
            result.append(self.notify_scheduler)
        result += [partial(world.deliver, self.rank, entry) for entry in world.some_of(world.pilots[self.rank])]
        arrived = [key for key in world.some_of([*self.receives]) if (key[0], self.rank, key[1]) in world.sends]
        result += [partial(world.transfer, self.rank, key) for key in arrived]
        return result + [partial(self._complete, request) for request in world.some_of(world.sent[self.rank])]

    def _step(self, which: int) -> None:
        kind, lane, sequence, call = self.devices.step(which)
        if kind == "kernel":
            waiting = self.kernels.pop((lane, sequence))
            self._run_kernel(waiting)
            if not self.world.is_stream_like:
                self.executor.kernel_done(waiting[0])
        elif call is not None:
            self._run_kernel(call)

    def _launch(self, device: int) -> None:
        call = self.executor.next_kernel(device)
        assert call is not None
        self.kernels[self.devices.begun] = call
        if self.world.is_stream_like:
            self.executor.kernel_issued(call[0])
            self.executor.kernel_done(call[0])

    def _run_kernel(self, call: Call) -> None:
        _, submission, chunk, accesses, reductions, *_ = call
        self.functions.run(submission, chunk, accesses, reductions)

    def _take_host_call(self) -> None:
        call = self.executor.next_host_task()
        assert call is not None
        self.host_calls.append(call)

    def _run_host_call(self, call: Call) -> None:
        self.host_calls.remove(call)
        if call[0] == "host_task":
            _, _, submission, chunk, accesses = call
            self.functions.run(submission, chunk, accesses, [])
        else:
            self.functions.initialize(*call[2:6])
        self.executor.host_task_done(call[1])

    def _complete(self, request: int) -> None:
        self.world.sent[self.rank].remove(request)
        self.executor.notify_complete(request)

    # the end

    def leftovers(self) -> list[str]:
        left = [f"S{number} is not fulfilled" for number in self._fences() if number not in self.fulfilled]
        if not self.is_shut_down:
            left.append(f"{len(self.steps)} statements to go, and not shut down")
        left += [f"{text}" for _, text, *_ in self.executor.active_instructions()[:12]]
        if self.executor.outstanding_communication or self.receives:
            left.append(f"outstanding communication, receives {[*self.receives][:5]}")
        if self.devices.num_allocations:
            left.append(f"{self.devices.num_allocations} allocations")
        if text := self.devices.find_leftovers():
            left.append(text)
        return [f"rank {self.rank}: {text}" for text in left]

    def _fences(self) -> list[int]:
        return [number for kind, number in self.context.trace.user_allocations.values() if kind == "fence"]
