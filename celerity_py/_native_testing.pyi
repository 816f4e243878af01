"""
Parts of the native core of celerity_py that only its tests and benchmarks call.
"""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import celerity_py._native


def split(space: celerity_py._native.Box, granularity: tuple[int, ...], costs: tuple[float, float, float], count: int) -> list[celerity_py._native.Box]: ...

def split_by_weights(space: celerity_py._native.Box, granularity: tuple[int, ...], weights: Sequence[float]) -> list[celerity_py._native.Box]: ...

def split_into_blocks(space: celerity_py._native.Box, granularity: tuple[int, ...], extent: int) -> list[celerity_py._native.Box]: ...

class RegionMap:
    """Maps the elements of a box to integers."""

    def __init__(self, domain: celerity_py._native.Box, initial: int) -> None: ...

    @overload
    def update(self, where: celerity_py._native.Box, value: int) -> None: ...

    @overload
    def update(self, where: celerity_py._native.Region, value: int) -> None: ...

    @overload
    def modify(self, where: celerity_py._native.Box, factor: int, offset: int) -> None:
        """Replaces each value v in `where` by v * factor + offset."""

    @overload
    def modify(self, where: celerity_py._native.Region, factor: int, offset: int) -> None: ...

    def transform(self, factor: int, offset: int) -> None: ...

    def query(self, where: celerity_py._native.Box) -> list[tuple[celerity_py._native.Box, int]]: ...

    def entries(self) -> list[tuple[celerity_py._native.Box, int]]: ...

    def __len__(self) -> int: ...

def measure_generation(topology: str, *, num_ranks: int = 1, num_devices: int = 1, with_instructions: bool = True, num_rounds: int = 6, wave_time: float = 50.0) -> dict[str, Any]:
    """
    Time graph generation of one of soup, chain, expanding_tree, contracting_tree, wave_sim, jacobi for rank 0, without execution.

    Returns seconds per round (construction to destruction), and the number of tasks, commands and instructions by kind.
    """

COPY_REASONS: tuple = ...

INSTRUCTION_KINDS: tuple = ...

class RecordedProgram:
    """Tasks that GraphContext.replay repeats."""

    def __init__(self, tasks: Sequence[celerity_py._native.Task]) -> None: ...

class GraphContext:
    """
    The graphs of one rank, generated step by step on the calling thread and recorded.
    """

    def __init__(self, planning: celerity_py._native.PlanningSettings, validates: bool = True, batch_seed: int = 0) -> None:
        """
        With a seed, batches of plain loops are collected for times that are drawn.
        """

    @property
    def batched_periods(self) -> int:
        """Of plain loops, in batches that devices may carry out as graphs."""

    def create_buffer(self, info: celerity_py._native.BufferInfo) -> int: ...

    def destroy_buffer(self, buffer: int) -> None: ...

    def chunks_for(self, task: celerity_py._native.Task) -> list[celerity_py._native.Box]: ...

    def submit(self, task: celerity_py._native.Task, reach: Sequence[int] = [0, 0, 0]) -> int:
        """reach: of a replicated execution, per dimension."""

    def record(self, tasks: Sequence[celerity_py._native.Task], reaches: Sequence[Sequence[int]]) -> RecordedProgram:
        """
        A program of as many phases as there are reaches for each task, phase after phase.
        """

    def find_halos(self, tasks: Sequence[celerity_py._native.Task]) -> tuple[str, list[list[int]], float, float]:
        """
        Of tasks that ask for deep halos: (kind of answer, reaches, growth of a share, work of all).
        """

    def replayed_batches(self) -> list[int]:
        """How many batches there were of each identity, in no order."""

    def replay(self, program: RecordedProgram, repetitions: int, phase: int = 0) -> int:
        """Submits the tasks of the program again and again."""

    @property
    def expanded_repetitions(self) -> int: ...

    @property
    def repeated_tasks(self) -> int: ...

    def next_submission(self) -> int: ...

    def flush(self) -> None: ...

    def notify_epoch_reached(self, task: int) -> None:
        """
        The horizon or epoch with this task id was executed. Take the instructions before it first.
        """

    def take_tasks(self) -> list[dict[str, Any]]:
        """Records since the last call."""

    def take_commands(self) -> list[dict[str, Any]]:
        """Records since the last call."""

    def take_instructions(self) -> list[dict[str, Any]]:
        """Records since the last call."""

    def take_notices(self) -> list[celerity_py._native.PlanningNotice]:
        """Since the last call."""

class Engine:
    """
    The out-of-order engine, a pure machine: decides which instruction is issued next, on which lane, and after which others.

    Lane classes are (kind, device, number of lanes, domain); lanes are numbered through all classes in order, and lanes of one domain can wait for each
    other without the host. Drive it by submitting instructions, executing what next() hands out (each lane in order, an instruction only when its waits are
    reached), and reporting complete(). Not thread-safe.
    """

    def __init__(self, lane_classes: Sequence[tuple[str, int, int, int]], *, remote: str = 'pulls', lanes_wait: bool = True, most_shared: int = 0, order: str = 'age') -> None:
        """
        most_shared: see lane_class, for all classes. order: "age", "path" or "predecessors".
        """

    def submit(self, id: int, priority: int, key: tuple[int, str], dependencies: Sequence[int], policy: str, lane_class: int = 0, is_brief: bool = False) -> None:
        """
        Adds an instruction. Ids must grow; dependencies that are not live count as complete.

        Args:
            id: The instruction.
            priority: Higher is issued first among issuable instructions: 32 times the priority of the queue, plus that of the kind, from 0 to 31.
            key: (task, "send" | "receive" | "work"): the order in which remote waits may be issued.
            dependencies: Ids of predecessors.
            policy: "host", "clock", or for lanes "plain", "launched", "deferred", "signal" or "pull"; see issue_policy in issue_request.hpp.
            lane_class: Index of the class, for lanes.
            is_brief: See issue_request.
        """

    def next(self) -> tuple[int, int, int, list[tuple[int, int]], list[int]] | None:
        """
        (id, lane, sequence, [(lane, sequence), ...] to wait for first, signals likewise) of the issuable instruction of highest priority, or None. The lane is -1 for the host.
        """

    @property
    def depended_on_one(self) -> bool:
        """Whether the latest instruction of next() depends on its one wait only."""

    def announce(self, queue: int) -> None:
        """There is a queue of this priority; see issue_turns.hpp."""

    def notify_issued(self, id: int) -> None:
        """A deferred instruction has been enqueued on its lane."""

    def release(self, id: int, is_ready: bool = False) -> None:
        """
        Ends the hold of a signal or pull. A pull that is ready need not respect the order of keys: its data is in place.
        """

    def allow_remote_waits(self, allowed: bool) -> None:
        """Whether next() may hand out remote waits."""

    def allow_lanes(self, allowed: bool) -> None:
        """Whether next() may hand out instructions for lanes."""

    def complete_lane(self, lane: int, sequence: int) -> list[int]:
        """
        The lane has come past everything up to `sequence`. Returns all ids that are complete by it, as complete() does.
        """

    def complete(self, id: int) -> list[int]:
        """
        Reports completion, in any order. Returns all ids that are complete by it, predecessors first: also older ones of its lane, and horizons and epochs.
        """

    def take_completed(self) -> list[int]:
        """
        Ids that became complete in submit(), next() or notify_issued(): horizons and epochs.
        """

    def unissued(self) -> list[int]:
        """Ids of live instructions that next() has not handed out."""

    def in_flight(self) -> list[int]:
        """Ids handed out and not complete."""

    @property
    def num_live(self) -> int:
        """Submitted and not complete."""

    @property
    def num_in_flight(self) -> int:
        """Handed out and not complete."""

class ReceiveArbiter:
    """
    Brings together requests to receive, pilots, and arrived payloads, in whatever order they come. A pure machine.

    Boxes are flat 6-tuples (min0, min1, min2, max0, max1, max2), transfers (consumer task, buffer, reduction), allocations (memory, raw). Not thread-safe.
    """

    def __init__(self) -> None: ...

    def receive(self, id: int, transfer: tuple[int, int, int], boxes: Sequence[tuple[int, int, int, int, int, int]], destination: tuple[int, int], element_size: int) -> None:
        """
        Instruction `id` completes when all of `boxes` have arrived. Requests of one transfer are disjoint.
        """

    def split_receive(self, id: int, transfer: tuple[int, int, int], boxes: Sequence[tuple[int, int, int, int, int, int]], destination: tuple[int, int], element_size: int) -> None:
        """Instruction `id` completes at once; its parts are awaited one by one."""

    def await_receive(self, id: int, transfer: tuple[int, int, int], destination: tuple[int, int], boxes: Sequence[tuple[int, int, int, int, int, int]]) -> None:
        """
        Instruction `id` completes when all of `boxes` of earlier split receives into `destination` have arrived.
        """

    def receive_partials(self, id: int, transfer: tuple[int, int, int], destination: tuple[int, int], bytes_per_slot: int, sources: Sequence[int], slots: Sequence[int]) -> None:
        """
        Instruction `id` completes when each rank of `sources` has filled its slot.
        """

    def pilot(self, source_rank: int, message: int, transfer: tuple[int, int, int], sent_box: tuple[int, int, int, int, int, int]) -> None:
        """Rank `source_rank` announces that `message` will carry `sent_box`."""

    def take_posts(self) -> list[dict[str, Any]]:
        """
        The receives to post since the last call: dicts with

        "fragment" (handle for complete()), "instruction", "source", "message", "transfer", "destination", "box" (the part to receive),
        "message_box" (of the whole message), "offset_bytes" and "element_size". For partial results the boxes are one element as large as a slot, and offset_bytes says
        where the slot begins; otherwise offset_bytes is 0.
        """

    def complete(self, fragment: int) -> None:
        """The payload of a post has arrived."""

    def take_completed(self) -> list[int]:
        """Instructions that became complete since the last call."""

    @property
    def num_open(self) -> int:
        """Requests and awaits that are not complete."""

    @property
    def num_unclaimed_pilots(self) -> int:
        """Pilots with a part that no request has taken."""

def send_pilot(port: celerity_py._native.MessagePort, destination_rank: int, pilot: bytes) -> None:
    """See message_port."""

def send_small(port: celerity_py._native.MessagePort, pilot: bytes, payload: celerity_py._native.Payload) -> bool:
    """See message_port."""

def send_payload(port: celerity_py._native.MessagePort, payload: celerity_py._native.Payload) -> None:
    """See message_port."""

def receive_payload(port: celerity_py._native.MessagePort, payload: celerity_py._native.Payload) -> None:
    """See message_port."""

def enter_barrier(port: celerity_py._native.MessagePort, request: int) -> None:
    """See message_port."""

def take_messages(port: celerity_py._native.MessagePort) -> tuple[list[tuple[int, bytes]], list[int]]:
    """Pilots, as (source rank, pilot), and complete requests."""

def num_outstanding(port: celerity_py._native.MessagePort) -> int:
    """Operations under way, and pilots that wait."""

def layout_of(payload: celerity_py._native.Payload) -> tuple[int, int, list[tuple[int, int]]]:
    """
    (first byte, bytes of a run, [(count, stride in bytes), ...] from the innermost loop on)
    """

def time_to_next_look_s(since_progress_s: float, since_arrival_s: float, since_move_s: float = 1000.0, *, is_awaiting: bool = True, has_requests: bool = False, spins: bool = False, cores_per_rank: float = 4.0, has_other_ways: bool = False) -> float:
    """How long the executor thread waits before it looks at the network."""

def copy_boxes(source: int, source_array: tuple[int, int, int, int, int, int] | None, destination: int, destination_array: tuple[int, int, int, int, int, int] | None, boxes: Sequence[tuple[int, int, int, int, int, int]], element_size: int) -> None:
    """
    Copies boxes between two arrays in host memory, given by their addresses. For tests: nothing is checked.

    Data lies in a dense row-major array over the given box, or packed, box after box, if that is None.
    """

def copy_shape(source_array: tuple[int, int, int, int, int, int] | None, destination_array: tuple[int, int, int, int, int, int] | None, boxes: Sequence[tuple[int, int, int, int, int, int]], element_size: int) -> list[tuple[int, int]]:
    """
    How copy_boxes() would go about it: for each box (number of contiguous runs, bytes per run).
    """

def reduce(op: str, dtype: str, source: int, count: int, destination: int, num_elements: int = 1) -> None:
    """
    Reduces `count` arrays at address `source`, in order and element by element, to address `destination`. Raises ValueError if the operation is not defined.
    """

def begin_pass(bounds: Sequence[int], threads: tuple[tuple[Sequence[int], Sequence[int]], Sequence[tuple[int, int, int, int]], Sequence[int], int | None, tuple[Sequence[int], Sequence[int]] | None, int], words: Sequence[int], strides: int, numbers: int) -> tuple[list[int], list[int], bool, list[int]] | None:
    """
    (blocks of the grid, threads of a block, whether those of the function without vectors, the parameter block with the columns of vectors), x first; None
    if there are no items.

    Arguments are those of FusedLaunch, and the words of the block, with the places where strides and numbers begin.
    """

def with_accesses(task: celerity_py._native.Task, accesses: Iterable[tuple[int, int, celerity_py._native.RangeMapper]], name: str = ...) -> celerity_py._native.Task:
    """
    The task with a name and (buffer, mode, mapper) each, which a Submitter takes from the arguments of the call.
    """

def make_object_fence(object: int, on_all: bool = True) -> celerity_py._native.Task:
    """A task that waits for the users of a host object."""

def make_fence(buffer: int, box: celerity_py._native.Box, user_allocation: int, on_all: bool = True, to_device: bool = False) -> celerity_py._native.Task:
    """A task that copies a part of a buffer to an array of the user."""

def make_epoch(action: str = 'none') -> celerity_py._native.Task:
    """action: 'none', 'barrier' or 'shutdown'."""

def check_dimensions(mapper: celerity_py._native.RangeMapper, kernel_dims: int, buffer_dims: int) -> tuple[str, int]:
    """How they do not fit, and the number that this is about."""

def map_chunk(mapper: celerity_py._native.RangeMapper, chunk: celerity_py._native.Box, whole: celerity_py._native.Box, buffer_shape: tuple[int, ...]) -> celerity_py._native.Region:
    """
    The part of a buffer for a chunk of the index space `whole`. RuntimeError if this is a table that has no entry for `chunk`.
    """

def submit_task(scheduler: celerity_py._native.Scheduler, task: celerity_py._native.Task) -> int:
    """
    Returns the submission id. Raises AccessPatternError with nothing enqueued.
    """

class InstructionRecords:
    """
    Instructions made from dicts as a graph context records them, to replay them.
    """

    def __init__(self, instructions: Iterable[dict[str, Any]]) -> None: ...

    @property
    def instructions(self) -> list[dict[str, Any]]:
        """As dicts again."""

def submit(executor: celerity_py._native.Executor, records: InstructionRecords) -> None:
    """
    Submits recorded instructions to an executor, as the scheduler submits its own.
    """

def statistics_of_one_launch() -> dict[str, Any]:
    """
    Statistics with all kinds of entries, as Executor.statistics() has them on GPUs.
    """

def validate(executor: celerity_py._native.Executor) -> None:
    """Raises RuntimeError if the engine of the executor contradicts itself."""

def set_scheduler_busy(executor: celerity_py._native.Executor, busy: bool) -> None:
    """
    For the statistics of an executor: time with nothing in flight while the scheduler works.
    """

def has_kernel(executor: celerity_py._native.Executor, device: int) -> bool:
    """Whether next_kernel(device) returns at once."""

def has_host_task(executor: celerity_py._native.Executor) -> bool:
    """Whether next_host_task() returns at once."""

def set_paused(scheduler: celerity_py._native.Scheduler, paused: bool) -> None:
    """Holds all input of a scheduler back, or lets it go."""

class ScriptedDevices:
    """
    The devices of an executor that make_scripted_executor() has made. Whatever is on their lanes waits until step().

    Everything, the executor's calls included, happens on one thread.
    """

    def possible_steps(self) -> list[int]:
        """
        The arguments that step() takes now: lanes, and negative numbers for flags that may be written ahead of their lanes.
        """

    def step(self, which: int) -> tuple[str, int, int, celerity_py._native.KernelCall | None]:
        """
        Lets a lane make a step. Returns ("copy" | "reduce" | "signal" | "pull" | "kernel" | "launch", lane, sequence, call).

        A kernel runs when this returns: its body is the caller's to carry out. For a "launch" the call is one as next_kernel() gives, otherwise it is None.
        """

    @property
    def begun(self) -> tuple[int, int]:
        """(lane, sequence) of the call that next_kernel() has given last."""

    def take_reached(self) -> list[int]:
        """Horizons and epochs that have completed since the last call."""

    @property
    def num_allocations(self) -> int:
        """Allocated and not freed."""

    def find_leftovers(self) -> str:
        """
        Operations left on lanes, or memory written after it was freed; empty if there are none.
        """

def make_scripted_executor(settings: celerity_py._native.ExecutorSettings, *, compute_lanes: int = 1, other_lanes: int = 1, stream_like: bool = False, single_fifo: bool = False, host_copies_apart: bool = False) -> tuple[celerity_py._native.Executor, ScriptedDevices]:
    """A real executor on devices that a test drives."""

def make_requests(records: InstructionRecords, *, num_ranks: int = 1, num_devices: int = 1, stream_like: bool = False, direct_peers: Sequence[bool] = (), launches: Sequence[int] = ()) -> list[tuple[str, str | None, int | None]]:
    """
    The requests of executors to their engines: (policy, kind of the lane, its device) for each instruction.

    Args:
        records: The instructions.
        direct_peers: By rank; empty if there are none.
        launches: Submissions whose kernels the executor launches itself.
    """

def register_scripted_launch(executor: celerity_py._native.Executor, submission: int) -> None:
    """
    The executor itself launches the kernels of this submission: step() returns them. Before the submission.
    """
