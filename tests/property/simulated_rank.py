# SPDX-License-Identifier: MIT
"""One rank of a simulation: its real generators and executor, on devices that make a step when they are told to."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from celerity_py import _native_testing
from celerity_py._native import (
    BoundAccess,
    CombineCall,
    ExecutorSettings,
    HostTaskCall,
    InitializeCall,
    KernelCall,
    Payload,
)
from tests.property.distribution import paths_of
from tests.property.interpreter import Meaning, fold_by_element
from tests.property.programs import ON_HOST, Fence, HostTask, Kernel, ObjectFence, Program
from tests.support.allocations import CELL_BYTES, cells_of
from tests.verification.contexts import RankContext
from tests.verification.elements import FlatBox, flat_covers, flat_indices, flat_size, to_flat
from tests.verification.graph_records import Trace

if TYPE_CHECKING:
    from celerity_py._native import (
        BarrierEvent,
        CompletedEvent,
        EmptyReductionEvent,
        FailedEvent,
        PilotEvent,
        ReceiveEvent,
        SendEvent,
        UserFreeEvent,
    )
    from tests.property.simulator import World

Action = Callable[[], None]
Cells = npt.NDArray[np.uint32]

POISON = 0xFFFF_FFFF
"""Of fresh memory, and of memory that was freed."""


class SimulationError(AssertionError):
    """Something that would be a crash, a hang or a wrong result in a real run."""


def memory_at(address: int, count: int) -> Cells:
    return np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(address))


def cells_of_payload(payload: Payload) -> Cells:
    """A view of the memory of a message, in the shape of its box, with the cells of an element behind each other."""
    per_element = payload.element_size_bytes // CELL_BYTES
    shape = (*payload.allocated_shape[:2], payload.allocated_shape[2] * per_element)
    whole = memory_at(payload.address, int(np.prod(shape))).reshape(shape)
    lows = (*payload.offset[:2], payload.offset[2] * per_element)
    extents = (*payload.extent[:2], payload.extent[2] * per_element)
    return whole[tuple(slice(low, low + extent) for low, extent in zip(lows, extents, strict=True))]


def pieces(binding: Any) -> list[Any]:
    """The parts of an access as accesses of their own, each in one allocation."""
    if binding is None or not binding.parts:
        return [] if binding is None else [binding]
    return [
        BoundAccess(
            binding.buffer,
            part.allocation,
            part.address,
            part.allocated_box,
            part.bounding_box,
            [box for box in binding.accessed if flat_covers(tuple(part.bounding_box), tuple(box))],
        )
        for part in binding.parts
    ]


class Functions:
    """Bodies of kernels and host tasks of one rank: they check the data that they read, and write the program's."""

    def __init__(self, trace: Trace, meaning: Meaning, program: Program) -> None:
        self.trace = trace
        self.meaning = meaning
        self.factors = {number: decl.element_size_bytes // CELL_BYTES for number, decl in program.buffers.items()}
        #: Of each host object: the submission.
        self.last_user: dict[int, int] = {}
        self.spaces = {n: to_flat(tuple((0, extent) for extent in d.shape)) for n, d in program.buffers.items()}

    def run(self, submission: int, chunk: FlatBox, accesses: list[Any], reductions: list[Any]) -> None:
        task = self.meaning.tasks[submission].task
        assert isinstance(task, Kernel | HostTask)
        meaning = self.meaning.tasks[submission]
        for number in getattr(task, "objects", ()):
            if self.last_user.get(number, 0) > submission:
                raise SimulationError(f"rank {self.trace.rank}: S{submission} uses h{number} too late")
            self.last_user[number] = submission
        bound = [(a, part) for a, given in zip(task.accesses, accesses, strict=True) for part in pieces(given)]
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
            items = meaning.contributions[position]
            numbers = np.arange(items.size).reshape(items.shape)[places].reshape(-1)
            reduction = task.reductions[position]
            count = meaning.before[reduction.buffer].words.size
            share = fold_by_element(reduction.op, items[places].reshape(-1), numbers, count)
            memory_at(binding.address, count)[:] = share

    def initialize(self, buffer: int, address: int, allocated: FlatBox, boxes: list[FlatBox]) -> None:
        number = self.trace.buffer_numbers[buffer]
        memory, cells, elements, factor = self._place(
            number, BoundAccess(buffer, address=address, allocated_box=allocated, accessed=boxes)
        )
        memory[cells] = np.repeat(self.meaning.initial[number][elements].astype(np.uint32), factor)

    def combine(self, call: CombineCall) -> None:
        count = flat_size(self.spaces[self.trace.buffer_numbers[call.buffer]])
        partials = memory_at(call.source, call.num_partials * count).astype(np.uint64)
        places = np.arange(partials.size)
        memory_at(call.destination, count)[:] = fold_by_element(ON_HOST[call.callable], partials, places, count)

    def _place(self, number: int, binding: Any) -> tuple[Cells, Any, Any, int]:
        factor = self.factors[number]
        flat = tuple(tuple(box) for box in binding.accessed)
        cells, _ = cells_of(tuple(binding.allocated_box), flat, factor)
        return (
            memory_at(binding.address, flat_size(tuple(binding.allocated_box)) * factor),
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
                f"accessed in allocation {binding.allocation}"
            )


#: Of the moments of a rank, those at which it is so idle that its scheduler flushes. Each rank has its own.
IDLE_SHARES = (0.0, 0.0, 0.05, 0.3, 1.0)
#: Of the scripted devices; the other options are those of the executor.
DEVICE_OPTIONS = {"compute_lanes", "other_lanes", "stream_like", "single_fifo", "host_copies_apart"}


class SimulatedRank:
    """One rank: application, scheduler, executor, devices, and the threads that call functions."""

    def __init__(self, world: World, rank: int) -> None:
        settings = world.program.settings
        self.world = world
        self.rank = rank
        self.context = RankContext(settings, rank, templates=world.has_templates, loops=world.has_templates)
        self.steps = deque(world.program.steps)
        self.has_ended = False
        self.is_shut_down = False
        self.functions = Functions(self.context.trace, world.meaning, world.program)
        options = world.executor_options(rank)
        devices = {name: options.pop(name) for name in DEVICE_OPTIONS & options.keys()}
        machine = {"num_ranks": settings.num_ranks, "rank": rank, "num_devices": settings.num_devices}
        planned = ExecutorSettings(**machine, oversubscribed=True, **options)
        self.executor, self.devices = _native_testing.make_scripted_executor(planned, **devices)
        self.kernels: dict[tuple[int, int], KernelCall] = {}
        """Handed out, and waiting on their lanes."""
        self.host_calls: list[HostTaskCall | InitializeCall | CombineCall] = []
        self.user_memory: dict[int, Cells] = {}
        self.freed: set[int] = set()
        self.fulfilled: set[int] = set()
        self.reached: deque[int] = deque()
        self.receives: dict[tuple[int, int], Payload] = {}
        """Posted, by source and message."""
        self.slow_lanes = world.choose_slow_lanes(self.executor.lanes())
        self.idle_share = world.random.choice(IDLE_SHARES)

    # application and scheduler

    def step_application(self) -> None:
        if self.steps:
            step = self.steps.popleft()
            self._register_launch(step)
            self.context.apply(step)
        else:
            self.context.finish()
            self.has_ended = True
        self._flush_perhaps()
        self.submit_new()

    def _flush_perhaps(self) -> None:
        """The scheduler flushes when its rank is idle, at moments of which the other ranks know nothing."""
        if self.world.random.random() < self.idle_share:
            self.context.flush_when_idle()

    def _register_launch(self, step: object) -> None:
        if (
            isinstance(step, Kernel)
            and self.world.is_stream_like
            and self.world.random.random() < self.world.native_share
        ):
            _native_testing.register_scripted_launch(self.executor, self.context.native.next_submission())

    def notify_scheduler(self) -> None:
        self.context.native.notify_epoch_reached(self.reached.popleft())
        self._flush_perhaps()
        self.submit_new()

    def submit_new(self) -> None:
        instructions = self.context.take()
        for raw in range(len(self.user_memory) + 1, len(self.context.trace.user_allocations) + 1):
            self._add_user_memory(raw)
        for record in instructions:
            self.world.paths.update(paths_of(record))
        if instructions:
            _native_testing.submit(self.executor, _native_testing.InstructionRecords(instructions))

    def _add_user_memory(self, raw: int) -> None:
        kind, number = self.context.trace.user_allocations[raw]
        if kind == "buffer":
            space = to_flat(self.context.trace.array_places[raw][1])
            elements = flat_indices(self.functions.spaces[number], (space,))
            words = self.world.meaning.initial[number][elements].astype(np.uint32)
            cells = np.repeat(words, self.functions.factors[number])
        else:
            task = self.world.meaning.tasks[number].task
            assert isinstance(task, Fence)
            space = to_flat(task.box)
            cells = np.full(flat_size(space) * self.functions.factors[task.buffer], POISON, dtype=np.uint32)
        self.user_memory[raw] = cells
        registered = self.executor.register_user_memory(cells.ctypes.data, space)
        assert registered == raw, (registered, raw)

    # executor

    def run(self) -> bool:
        """Whether there was an event: then the executor may have handed it over ahead of other work."""
        events = self.executor.run(0.0)
        _native_testing.validate(self.executor)
        for event in events:
            getattr(self, f"_on_{event.kind}")(event)
        self.reached.extend(self.devices.take_reached())
        return bool(events)

    def _on_pilot(self, event: PilotEvent) -> None:
        self.world.pilots[event.to].append((self.rank, event.pilot))

    def _on_send(self, event: SendEvent) -> None:
        self.world.start_send(self.rank, event.message)

    def _on_receive(self, event: ReceiveEvent) -> None:
        key = event.message.peer_rank, event.message.message
        if key in self.receives:
            raise SimulationError(f"rank {self.rank} receives message {key[1]} of rank {key[0]} twice")
        self.receives[key] = event.message

    def _on_barrier(self, event: BarrierEvent) -> None:
        self.world.enter_barrier(self.rank, event.request)

    def _on_completed(self, event: CompletedEvent) -> None:
        submission = event.submission
        meaning = self.world.meaning.tasks.get(submission)
        if meaning is None or not isinstance(meaning.task, Fence | ObjectFence):
            return
        self.fulfilled.add(submission)
        if isinstance(meaning.task, ObjectFence):
            if self.functions.last_user.get(meaning.task.object, 0) > submission:
                raise SimulationError(f"rank {self.rank}: h{meaning.task.object} was used before S{submission}")
            return
        factor = self.functions.factors[meaning.task.buffer]
        assert meaning.fence_result is not None
        for raw, use in self.context.trace.user_allocations.items():
            if use == ("fence", submission) and not np.array_equal(
                self.user_memory[raw], np.repeat(meaning.fence_result.astype(np.uint32), factor)
            ):
                raise SimulationError(f"rank {self.rank}: fence S{submission} is fulfilled with other data")

    def _on_retired(self, _: object) -> None:
        pass

    def _on_empty_reduction(self, event: EmptyReductionEvent) -> None:
        # Every part of a program contributes, and no contribution is the extremum of nothing.
        raise SimulationError(f"rank {self.rank}: nothing is said to be combined into reduction {event.reduction}")

    def _on_user_free(self, event: UserFreeEvent) -> None:
        self.freed.add(event.raw)
        self.user_memory[event.raw][:] = POISON

    def _on_shutdown(self, _: object) -> None:
        self.is_shut_down = True

    def _on_failed(self, event: FailedEvent) -> None:
        raise SimulationError(f"rank {self.rank} fails: {event.failure.text}, at {event.failure.instruction}")

    # possible next actions

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
                self.executor.kernel_returned(waiting.ticket)
        elif call is not None:
            self._run_kernel(call)

    def _launch(self, device: int) -> None:
        call = self.executor.next_kernel(device)
        assert call is not None
        self.kernels[self.devices.begun] = call
        if self.world.is_stream_like:
            self.executor.kernel_returned(call.ticket)

    def _run_kernel(self, call: KernelCall) -> None:
        self.functions.run(call.submission, call.chunk, call.accesses, call.reductions)

    def _take_host_call(self) -> None:
        call = self.executor.next_host_task()
        assert call is not None
        self.host_calls.append(call)

    def _run_host_call(self, call: HostTaskCall | InitializeCall | CombineCall) -> None:
        self.host_calls.remove(call)
        if call.kind == "host_task":
            self.functions.run(call.submission, call.chunk, call.accesses, [])
        elif call.kind == "combine":
            self.functions.combine(call)
        else:
            self.functions.initialize(call.buffer, call.address, call.allocated_box, call.boxes)
        self.executor.host_task_done(call.ticket)

    def _complete(self, request: int) -> None:
        self.world.sent[self.rank].remove(request)
        self.executor.notify_complete(request)

    # the end

    def leftovers(self) -> list[str]:
        left = [f"S{number} is not fulfilled" for number in self._fences() if number not in self.fulfilled]
        if not self.is_shut_down:
            left.append(f"{len(self.steps)} statements to go, and not shut down")
        left += [f"{entry.text}" for entry in self.executor.active_instructions()[:12]]
        if self.executor.outstanding_communication or self.receives:
            left.append(f"outstanding communication, receives {[*self.receives][:5]}")
        if self.devices.num_allocations:
            left.append(f"{self.devices.num_allocations} allocations")
        if text := self.devices.find_leftovers():
            left.append(text)
        return [f"rank {self.rank}: {text}" for text in left]

    def _fences(self) -> list[int]:
        fences = [number for kind, number in self.context.trace.user_allocations.values() if kind == "fence"]
        for number, meaning in self.world.meaning.tasks.items():
            if isinstance(meaning.task, ObjectFence) and (meaning.task.on_all or self.rank == 0):
                fences.append(number)
        return fences
