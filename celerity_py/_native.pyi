"""
Native core of celerity_py: regions, graph generation, scheduler thread, out-of-order engine.
"""

from collections.abc import Callable, Iterable, Sequence, Set
import types
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    Never,
    NoReturn,
    overload
)


def version() -> str:
    """The version of celerity_py that this extension was built for."""

class Box:
    """
    A half-open box of elements in the global coordinates of a buffer or an index space.

    Immutable: any thread may use it. It contains the elements `i` with `min[d] <= i[d] < max[d]` for every dimension `d`. An
    empty box always is `Box((0, ...), (0, ...))`, so that equal boxes are equal sets; a box of 0 dimensions, `Box((), ())`,
    holds one element. A box is true if it is not empty.

    Args:
        min: First element, one integer for each of 0 to 3 dimensions.
        max: One past the last element, in every dimension.

    Raises:
        DimensionMismatch: If `min` and `max` differ in length, or have more than 3 dimensions.
        ArgumentTypeError: If they are not sequences of integers.
    """

    @overload
    def __init__(self, min: Sequence[int], max: Sequence[int]) -> None: ...

    @overload
    def __init__(self, *args: Never, **unknown: Never) -> None: ...

    @property
    def min(self) -> tuple[int, ...]:
        """The first element."""

    @property
    def max(self) -> tuple[int, ...]:
        """One past the last element, in every dimension."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements in each dimension."""

    @property
    def size(self) -> int:
        """
        The number of elements.

        Raises:
            UsageError: If there are 2**63 or more.
        """

    @property
    def ndim(self) -> int:
        """The number of dimensions, 0 to 3."""

    @property
    def slices(self) -> tuple[slice, ...]:
        """
        One slice per dimension, in global coordinates: indexes an array that covers the whole space.
        """

    def relative_slices(self, origin: Box) -> tuple[slice, ...]:
        """
        One slice per dimension, counted from the first element of `origin`: indexes an array that covers `origin`.

        Raises:
            DimensionMismatch: If the two boxes differ in their number of dimensions.
            ValueError: If this box begins before `origin`.
        """

    def shift(self, *offsets: int) -> Box:
        """
        The box moved by `offsets`. An empty box stays empty.

        Args:
            offsets: One integer per dimension, in elements.

        Raises:
            DimensionMismatch: If there are more or fewer integers than dimensions.
            UsageError: If the result would lie beyond the coordinates that there are, -2**63 to 2**63 - 1.
        """

    def shrink(self, *widths: int) -> Box:
        """
        The box with `widths` elements less on both sides; empty if nothing is left.

        Args:
            widths: One integer per dimension, in elements. Negative ones grow.

        Raises:
            DimensionMismatch: If there are more or fewer integers than dimensions.
        """

    def grow(self, *widths: int) -> Box:
        """
        The box with `widths` elements more on both sides. An empty box stays empty. The result may reach out of a buffer; `&` cuts it. It ends where the
        coordinates end, at -2**63 and 2**63 - 1.

        Args:
            widths: One integer per dimension, in elements. Negative ones shrink.

        Raises:
            DimensionMismatch: If there are more or fewer integers than dimensions.
        """

    def flat(self) -> tuple[int, int, int, int, int, int]:
        """
        Three coordinates of `min`, then three of `max`, as in graph records; unused dimensions are 0 and 1.
        """

    def __and__(self, other: Box) -> Box:
        """
        The elements in both boxes.

        Raises:
            DimensionMismatch: If the two boxes differ in their number of dimensions.
        """

    def __contains__(self, part: Box | Sequence[int] | int) -> bool:
        """Whether all elements of a box, or one element, are in this one."""

    def __bool__(self) -> bool: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        """
        Raises ArgumentTypeError: NumPy asks for it when an array is indexed by a box.
        """

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple[type[Box], tuple[object, ...]]: ...

    def indices(self) -> BoxIndices:
        """
        An iterator over the elements, each a tuple of one integer per dimension, the last dimension fastest.

        `for index in chunk.box.indices(): u[index] = ...` is a loop of Python, with microseconds per element. An operation on arrays
        such as `u[chunk.box] = ...` takes nanoseconds.
        """

    def __iter__(self) -> NoReturn: ...

    def __len__(self) -> NoReturn: ...

    def __getitem__(self, index: object) -> NoReturn: ...

    def __add__(self, other: object) -> NoReturn: ...

    def __radd__(self, other: object) -> NoReturn: ...

    def __mul__(self, other: object) -> NoReturn: ...

    def __rmul__(self, other: object) -> NoReturn: ...

    def __floordiv__(self, other: object) -> NoReturn: ...

    def __rfloordiv__(self, other: object) -> NoReturn: ...

    def __truediv__(self, other: object) -> NoReturn: ...

    def __rtruediv__(self, other: object) -> NoReturn: ...

    def __mod__(self, other: object) -> NoReturn: ...

    def __rmod__(self, other: object) -> NoReturn: ...

    def __sub__(self, other: Region) -> Region: ...

    def __or__(self, other: Region) -> Region: ...

class BoxIndices:
    """The elements of a box, as `Box.indices` gives them."""

    def __iter__(self) -> BoxIndices: ...

    def __next__(self) -> tuple[int, ...]: ...

def box_from_flat(flat: tuple[int, int, int, int, int, int], dims: int) -> Box:
    """The inverse of `Box.flat`."""

class Region:
    """
    A set of elements, as a union of boxes.

    Immutable: any thread may use it. The boxes are kept in a normal form: disjoint, as long as possible in the last
    dimension first, sorted. So equal regions are equal sets, no matter how they were put together. A region is true if it is
    not empty. `Region()` fits any number of dimensions. Where the operators take a region they also take a box.

    Args:
        boxes: Boxes of the same number of dimensions; they may overlap.

    Raises:
        DimensionMismatch: If the boxes differ in their number of dimensions.
        ArgumentTypeError: If something is no box.
    """

    @overload
    def __init__(self, boxes: Iterable[Box] = ()) -> None: ...

    @overload
    def __init__(self, *args: Never, **unknown: Never) -> None: ...

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The disjoint boxes of the normal form."""

    @property
    def bounding_box(self) -> Box:
        """
        The smallest box that contains the region.

        Raises:
            ValueError: If the region was made from no boxes at all.
        """

    @property
    def size(self) -> int:
        """
        The number of elements.

        Raises:
            UsageError: If there are 2**63 or more.
        """

    def __contains__(self, part: Region | Box | Sequence[int] | int) -> bool:
        """
        Whether all elements of a region or a box, or one element, are in this one.
        """

    def __bool__(self) -> bool: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        """
        Raises ArgumentTypeError: NumPy asks for it when an array is indexed by a region.
        """

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple[type[Region], tuple[object, ...]]: ...

    def __or__(self, other: Region | Box) -> Region:
        """
        The elements in either.

        Raises:
            DimensionMismatch: If the two differ in their number of dimensions.
        """

    def __ror__(self, other: Box) -> Region: ...

    def __and__(self, other: Region | Box) -> Region:
        """
        The elements in both.

        Raises:
            DimensionMismatch: If the two differ in their number of dimensions.
        """

    def __rand__(self, other: Box) -> Region: ...

    def __sub__(self, other: Region | Box) -> Region:
        """
        The elements in this region but not in the other.

        Raises:
            DimensionMismatch: If the two differ in their number of dimensions.
        """

    def __rsub__(self, other: Box) -> Region: ...

class MapperMisfit(NamedTuple):
    """
    How a mapper fails to fit a kernel and a buffer, and the number that some kinds are about.
    """
    kind: Literal['none', 'other_dims', 'other_dims_than_slice', 'other_dims_than_box', 'other_dims_than_names', 'other_dims_than_widths', 'not_one_dimension', 'no_kernel_dimension', 'no_buffer_dimension', 'no_index', 'no_element'] = ...
    number: int = ...

class RangeMapper:
    """
    Which part of a buffer a part of an index space touches. Immutable; results are clamped to the buffer.
    """

    @staticmethod
    def built_in(kind: str, numbers: tuple[int, ...] = (), options: tuple[int, ...] = ()) -> RangeMapper:
        """
        The mapper of this name in `celerity_py.access`, with its arguments by position and by name. An option of -1, or one left out, is not given.
        """

    @staticmethod
    def fixed(where: Box | Region) -> RangeMapper: ...

    @staticmethod
    def table(entries: list[tuple[Box, Box | Region]]) -> RangeMapper:
        """
        The results of a Python callable, for each chunk that `Scheduler.chunks_for` lists.
        """

    def region(self, chunk: Box, whole: Box, buffer_box: Box) -> Region:
        """
        The part of a buffer, whose box is `buffer_box`, that a chunk of the index space `whole` accesses; of a built-in mapper that fits both.
        """

    def describe(self) -> str:
        """As the user would write it."""

    def __repr__(self) -> str: ...

class TracedHandover:
    @property
    def instruction(self) -> int: ...

    @property
    def dependencies(self) -> list[int]: ...

class TracedIssue:
    @property
    def instruction(self) -> int: ...

    @property
    def operation(self) -> str: ...

    @property
    def reason(self) -> str | None: ...

    @property
    def source(self) -> int | None: ...

    @property
    def destination(self) -> int | None: ...

    @property
    def submission(self) -> int: ...

    @property
    def buffer(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def peer(self) -> int | None: ...

    @property
    def lane(self) -> int | None: ...

    @property
    def position(self) -> int: ...

    @property
    def allocation(self) -> tuple[int, int]: ...

    @property
    def priority(self) -> int: ...

class TracedLane:
    @property
    def lane(self) -> int: ...

    @property
    def position(self) -> int: ...

class TracedCall:
    @property
    def instruction(self) -> int: ...

    @property
    def device(self) -> int | None: ...

class TracedSend:
    @property
    def instruction(self) -> int: ...

    @property
    def buffer(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def message(self) -> int: ...

    @property
    def peer(self) -> int: ...

class TracedReceive:
    @property
    def instruction(self) -> int: ...

    @property
    def buffer(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def message(self) -> int: ...

    @property
    def peer(self) -> int: ...

class TracedBarrier:
    @property
    def instruction(self) -> int: ...

class TracedWork:
    @property
    def instructions_issued(self) -> int: ...

class TracedPython:
    pass

class TracedPlan:
    @property
    def input(self) -> str: ...

    @property
    def submission(self) -> int: ...

    @property
    def instructions_generated(self) -> int: ...

class TracedApplication:
    @property
    def call(self) -> str: ...

    @property
    def submission(self) -> int: ...

class InstructionTraits(NamedTuple):
    """The facts that all instructions of a kind share."""
    category: str = ...
    completes_at_issue: bool = ...
    is_repeatable: bool = ...

def instruction_kinds() -> dict[str, InstructionTraits]:
    """By the name of the kind."""

class TraceEvent:
    """
    One entry of a timeline. Times are those of time.perf_counter_ns(). Ids are 0 where they do not apply.
    """

    @property
    def start_ns(self) -> int: ...

    @property
    def end_ns(self) -> int: ...

    @property
    def action(self) -> TracedHandover | TracedIssue | TracedLane | TracedCall | TracedSend | TracedReceive | TracedBarrier | TracedWork | TracedPython | TracedPlan | TracedApplication: ...

class TraceRecorder:
    """
    The latest actions of scheduler, executor and application, with their times. Any thread.
    """

    def __init__(self, capacity: int) -> None:
        """Keeps at least so many events."""

    @property
    def num_lost(self) -> int:
        """Events that newer ones have replaced."""

    def record_call(self, call: str, start_ns: int, end_ns: int, submission: int = 0) -> None:
        """
        The application was in a call ('submit', 'map', 'blocked' or 'wait'), by time.perf_counter_ns(). Any thread.
        """

    def events(self) -> list[TraceEvent]:
        """The events so far, by start."""

class ProfilerRanges:
    """Ranges that a profiler shows, by functions of NVTX. Any thread."""

    def __init__(self, push: int, pop: int) -> None:
        """The addresses of nvtxRangePushA and nvtxRangePop."""

    def push(self, text: str) -> None:
        """The calling thread begins a range."""

    def pop(self) -> None:
        """It ends its innermost range."""

    def note(self, submission: int, name: str) -> None:
        """The name of a submission, for its instructions."""

class MpiSettings:
    """
    What mpi4py knows of its library: addresses of handles, sizes and constants.
    """

    def __init__(self, **fields: Any) -> None: ...

    @property
    def module_path(self) -> str: ...

    @module_path.setter
    def module_path(self, arg: str, /) -> None: ...

    @property
    def handle_bytes(self) -> int: ...

    @handle_bytes.setter
    def handle_bytes(self, arg: int, /) -> None: ...

    @property
    def status_bytes(self) -> int: ...

    @status_bytes.setter
    def status_bytes(self, arg: int, /) -> None: ...

    @property
    def largest_error_text(self) -> int: ...

    @largest_error_text.setter
    def largest_error_text(self, arg: int, /) -> None: ...

    @property
    def undefined(self) -> int: ...

    @undefined.setter
    def undefined(self, arg: int, /) -> None: ...

    @property
    def communicator(self) -> int: ...

    @communicator.setter
    def communicator(self, arg: int, /) -> None: ...

    @property
    def byte(self) -> int: ...

    @byte.setter
    def byte(self, arg: int, /) -> None: ...

    @property
    def word16(self) -> int: ...

    @word16.setter
    def word16(self, arg: int, /) -> None: ...

    @property
    def word32(self) -> int: ...

    @word32.setter
    def word32(self, arg: int, /) -> None: ...

    @property
    def word64(self) -> int: ...

    @word64.setter
    def word64(self, arg: int, /) -> None: ...

    @property
    def rank(self) -> int: ...

    @rank.setter
    def rank(self, arg: int, /) -> None: ...

    @property
    def num_ranks(self) -> int: ...

    @num_ranks.setter
    def num_ranks(self, arg: int, /) -> None: ...

    @property
    def largest_tag(self) -> int: ...

    @largest_tag.setter
    def largest_tag(self, arg: int, /) -> None: ...

    @property
    def largest_count(self) -> int: ...

    @largest_count.setter
    def largest_count(self, arg: int, /) -> None: ...

    @property
    def largest_small_bytes(self) -> int: ...

    @largest_small_bytes.setter
    def largest_small_bytes(self, arg: int, /) -> None: ...

class MessagePort:
    """
    Pilots and payloads for the native executor, notices and the end of a run for Python.

    One thread at a time: the executor's, while it runs. A failure of the network is a RuntimeError in its words.
    """

    PILOT_LIMIT_BYTES: int = 316

    NOTICE_LIMIT_BYTES: int = 4092

    SMALL_LIMIT_BYTES: int = 4096

    def send_notice(self, destination_rank: int, kind: int, content: bytes) -> None:
        """
        Notices between two ranks arrive in order, but overtake pilots. Raises ValueError if it is too long.
        """

    def settle(self, number: int) -> None:
        """
        Enters a barrier that completes when all pilots and notices sent before, by any rank, have arrived; poll() then returns the number.
        """

    def unasked_payloads(self) -> list[tuple[int, int]]:
        """
        After settle(), where they differ: (rank, number of its payloads to here minus receives from it).
        """

    def poll(self) -> tuple[list[tuple[int, int, bytes]], list[int]]:
        """
        Lets the transport progress. Returns notices, as (kind, source rank, content), and the numbers of settle() that are complete, each once.
        """

    def close(self) -> bool:
        """
        Ends all operations, and waits for a second at most. Whether no message can still be on its way here. Nothing may be called afterwards.
        """

def make_mpi_port(settings: MpiSettings) -> MessagePort:
    """
    Posts receives for the messages of all other ranks. Raises RuntimeError if the library lacks a function.
    """

class MemoryHolders(NamedTuple):
    """Who holds the memory that an allocation lacked."""
    buffer: int = ...
    device: Any = ...
    size_bytes: int = ...
    held_bytes: int = ...
    largest: list[Any] = ...
    most_bytes: int = ...

class ExecutorFailure(NamedTuple):
    """
    The failure of an Executor. Fields are 0 or empty where they do not apply.
    """
    kind: Literal['fault', 'memory', 'device', 'bounds', 'peer', 'network'] = ...
    text: str = ...
    instruction: str = ...
    submission: int = ...
    access: int = ...
    element: tuple[int, int, int] = ...
    declared: list[Any] = ...
    peer: int = ...
    in_flight: list[Any] = ...
    shortage: MemoryHolders = ...

class Payload(NamedTuple):
    """
    A box that is sent out of, or received into, a dense row-major array in host memory. Units are elements.
    """
    request: int = ...
    peer_rank: int = ...
    message: int = ...
    address: int = ...
    allocated_shape: tuple[int, int, int] = ...
    offset: tuple[int, int, int] = ...
    extent: tuple[int, int, int] = ...
    element_size_bytes: int = ...

class PilotEvent(NamedTuple):
    """A pilot to send."""
    kind: Literal['pilot'] = ...
    to: int = ...
    pilot: bytes = ...

class SendEvent(NamedTuple):
    """A message to send."""
    kind: Literal['send'] = ...
    message: Payload = ...

class ReceiveEvent(NamedTuple):
    """A message to receive."""
    kind: Literal['receive'] = ...
    message: Payload = ...

class BarrierEvent(NamedTuple):
    """A barrier to enter."""
    kind: Literal['barrier'] = ...
    request: int = ...

class CompletedEvent(NamedTuple):
    """A fence or an epoch is complete."""
    kind: Literal['completed'] = ...
    submission: int = ...
    is_known: bool = ...

class RetiredEvent(NamedTuple):
    """All submissions up to this one are complete."""
    kind: Literal['retired'] = ...
    last_submission: int = ...

class UserFreeEvent(NamedTuple):
    """The runtime has no more use for an array of the user."""
    kind: Literal['user_free'] = ...
    raw: int = ...

class EmptyReductionEvent(NamedTuple):
    """Nothing seems to have been combined into this result of min or max."""
    kind: Literal['empty_reduction'] = ...
    reduction: int = ...

class FailedEvent(NamedTuple):
    """The executor cannot go on."""
    kind: Literal['failed'] = ...
    failure: ExecutorFailure = ...

class ShutdownEvent(NamedTuple):
    """The last epoch is complete."""
    kind: Literal['shutdown'] = ...

class StoppedEvent(NamedTuple):
    """stop() was called."""
    kind: Literal['stopped'] = ...

class BoundPart(NamedTuple):
    """
    Elements of a periodic access that lie together, with the address of their allocation.
    """
    allocation: tuple[int, int] = ...
    address: int = ...
    allocated_box: tuple[int, int, int, int, int, int] = ...
    bounding_box: tuple[int, int, int, int, int, int] = ...

class BoundAccess(NamedTuple):
    """An access of a chunk, with the address of its allocation."""
    buffer: int = ...
    allocation: tuple[int, int] = ...
    address: int = ...
    allocated_box: tuple[int, int, int, int, int, int] = ...
    bounding_box: tuple[int, int, int, int, int, int] = ...
    accessed: list[Any] = ...
    parts: list[Any] = ...

class BoundReduction(NamedTuple):
    """Where a kernel leaves its partial result."""
    address: int = ...
    op: str = ...
    type: str = ...

class KernelCall(NamedTuple):
    """
    A kernel for one chunk. An access is None if the chunk accesses nothing; the stream is 0 without streams.
    """
    ticket: int = ...
    submission: int = ...
    chunk: tuple[int, int, int, int, int, int] = ...
    accesses: list[Any] = ...
    reductions: list[Any] = ...
    stream: int = ...

class HostTaskCall(NamedTuple):
    """A host task for one chunk."""
    kind: Literal['host_task'] = ...
    ticket: int = ...
    submission: int = ...
    chunk: tuple[int, int, int, int, int, int] = ...
    accesses: list[Any] = ...

class InitializeCall(NamedTuple):
    """Initial contents to compute."""
    kind: Literal['initialize'] = ...
    ticket: int = ...
    buffer: int = ...
    address: int = ...
    allocated_box: tuple[int, int, int, int, int, int] = ...
    boxes: list[Any] = ...

class CombineCall(NamedTuple):
    """Partial results of a reduction by a callable, to be reduced."""
    kind: Literal['combine'] = ...
    ticket: int = ...
    buffer: int = ...
    reduction: int = ...
    callable: int = ...
    source: int = ...
    num_partials: int = ...
    destination: int = ...
    is_all_of_it: bool = ...

class UnclaimedPilot(NamedTuple):
    """A message that was announced, and that nobody has asked for."""
    source: int = ...
    message: int = ...
    transfer: tuple[int, int, int] = ...
    sent_box: tuple[int, int, int, int, int, int] = ...

class ContentsPart(NamedTuple):
    """
    Where a part of a buffer lies. Address 0: the function for its contents has not been called.
    """
    where: tuple[int, int, int, int, int, int] = ...
    address: int = ...
    allocated: tuple[int, int, int, int, int, int] = ...
    memory: int = ...

class LastContents(NamedTuple):
    """
    Where a buffer lies after a failure. Ids are 0 where they do not apply.
    """
    parts: list[Any] = ...
    writer: int = ...
    is_spoiled: bool = ...
    is_hidden: bool = ...
    culprit: int = ...

class ActiveInstruction(NamedTuple):
    """
    An instruction that has been issued and is not complete. Ids are 0, and other fields None, where they do not apply.
    """
    age_s: float = ...
    text: str = ...
    submission: int = ...
    buffer: int = ...
    where: Any = ...
    peer: Any = ...
    transfer: Any = ...
    kind: str = ...
    is_computing: bool = ...
    instruction: int = ...

class NativeKernel:
    """A kernel that native code launches."""

class FusedLaunch(NativeKernel):
    """A fused kernel for the chunks of a task on this rank. Immutable."""

    def __init__(self, memories: Sequence[tuple[int, int, int, Sequence[int], bool]], structures: Sequence[tuple[Sequence[tuple[Sequence[int], Sequence[int], tuple[tuple[Sequence[int], Sequence[int]], Sequence[tuple[int, int, int, int]], Sequence[int], int | None, tuple[Sequence[int], Sequence[int]] | None, int] | None]], int, int]], chunks: Sequence[tuple[Box, int, Sequence[tuple[Sequence[int], int]], Sequence[int], Sequence[tuple[int, Sequence[int]]], int, Sequence[Box]]], code: object) -> None:
        """
        memories: (access, dimensions of its buffer, bytes of an element, strides of the element's dimensions, whether it is the partial result of a
        reduction, and then the number of that) each.

        structures: (passes, first byte of the scalars, their bytes). A pass is (functions, functions without vectors, threads): of GPUs CUfunctions, one per
        local device each, of CPU devices one address, no other and None. Threads are (shape, memories of vectors, margins of vectors, place of their bounds among the
        numbers, shape of the functions without vectors, most blocks), as in `fusion.launches.PassLaunch`. A shape is (block, items of each thread), x first. A memory of vectors is (memory, its first stride, dimensions, bytes of an item).

        chunks: (box, structure, items by pass, numbers, scratch, its bytes, parts). Items are (bounds, parts): 0 parts are as many as suits the device. A part of scratch memory is (offset of the element at the origin of all coordinates,
        strides), in bytes. Parts are by memory a box of a periodic access, an empty one of others; none if there are no periodic accesses.

        code: has the functions, and lives as long as the launch.
        """

    def scratch_bytes(self, chunk: Box) -> int:
        """The scratch memory that a chunk needs."""

    def launches(self, chunk: Box, places: Sequence[tuple[int, Box] | None], reductions: Sequence[tuple[int, Box] | None], scalars: bytes, scratch: int) -> list[tuple[list[int], list[int], list[int], list[int], bytes, list[int]]]:
        """
        What the passes of a chunk are launched with, in their order, for whoever launches them by hand. Passes without items are left out.

        places: by access, the address of an allocation and where it lies in its buffer; None for an empty access. reductions: the same of partial results. scratch: the address of memory of `scratch_bytes`.

        Returns (functions, bounds of the items, grid, block, the parameter block, and the words in it at which strides, numbers and scalars begin) each.
        """

class LocalAccesses:
    """What the chunks of this rank's devices access."""

    @property
    def key(self) -> bytes:
        """Equal for equal chunks and regions."""

    def chunks(self) -> list[tuple[Box, list[Region]]]:
        """Each chunk, with the region of each access."""

class CudaFunction(NativeKernel):
    """
    A compiled CUDA kernel, ready to be launched on each device of this rank. Immutable.
    """

    def __init__(self, functions: Sequence[int], block: Sequence[int], grid: Sequence[int] | None, shared_bytes: int, parameters: Sequence[tuple[str, int, int, bytes]], checks_bounds: bool = False, items: Sequence[int] = []) -> None:
        """
        functions: a CUfunction per local device. block, grid, items of each thread: extents, x last; a grid of None is derived from the chunk.

        parameters, in the order of the kernel's: (kind, dimensions of a chunk or accessor, bytes of a scalar or element, identity of a reducer) each. The kinds
        are "chunk", "accessor", "reducer" and "scalar".
        """

class CudaReductions:
    """
    The kernels that combine partial results on the devices of this rank, by operation and dtype. Any thread.
    """

    def __init__(self) -> None: ...

    def add(self, op: str, dtype: str, functions: Sequence[int]) -> None:
        """functions: a CUfunction per local device."""

def cuda_device_ids() -> list[str]:
    """
    An identifier of each GPU that this process may use, the same in all processes. Raises RuntimeError if there is no CUDA driver.
    """

def cuda_device_name(ordinal: int) -> str:
    """The name of a GPU, from the driver."""

def cuda_memory_bandwidth(ordinal: int) -> float:
    """
    Bytes per second of the memory of a GPU at most, by its clock and width; 0 if the driver does not tell them.
    """

def cuda_enter(ordinal: int) -> int:
    """
    Makes the primary context of a GPU current in this thread; returns the one before, 0 if there was none.
    """

def cuda_leave(previous: int) -> None:
    """Makes a context current again; 0: none. Touches no other device."""

def cuda_division(ordinal: int) -> tuple[int, int, int]:
    """
    The multiprocessors of a GPU, the fewest of them that queues may have, and the step from there. Raises RuntimeError if the driver cannot divide them.
    """

def cuda_probe(ordinals: Sequence[int]) -> tuple[bool, int, list[int]]:
    """
    Whether each of these GPUs reaches the memory of all others; the memory of the smallest one, used or free; and by source and destination, row by row, how bad the link between two of them is: 0 for the best.
    """

class ExecutorSettings:
    """
    The devices of one rank, and the settings of its executor. The defaults are rank 0 of 1 with 1 device.
    """

    def __init__(self, **fields: Any) -> None: ...

    @property
    def num_ranks(self) -> int: ...

    @num_ranks.setter
    def num_ranks(self, arg: int, /) -> None: ...

    @property
    def rank(self) -> int: ...

    @rank.setter
    def rank(self, arg: int, /) -> None: ...

    @property
    def num_devices(self) -> int: ...

    @num_devices.setter
    def num_devices(self, arg: int, /) -> None: ...

    @property
    def kernel_threads(self) -> int: ...

    @kernel_threads.setter
    def kernel_threads(self, arg: int, /) -> None: ...

    @property
    def oversubscribed(self) -> bool: ...

    @oversubscribed.setter
    def oversubscribed(self, arg: bool, /) -> None: ...

    @property
    def check(self) -> bool: ...

    @check.setter
    def check(self, arg: bool, /) -> None: ...

    @property
    def lane_events(self) -> bool: ...

    @lane_events.setter
    def lane_events(self, arg: bool, /) -> None: ...

    @property
    def kernel_order(self) -> str: ...

    @kernel_order.setter
    def kernel_order(self, arg: str, /) -> None: ...

    @property
    def sync(self) -> bool: ...

    @sync.setter
    def sync(self, arg: bool, /) -> None: ...

    @property
    def direct(self) -> bool: ...

    @direct.setter
    def direct(self, arg: bool, /) -> None: ...

    @property
    def trace(self) -> TraceRecorder: ...

    @trace.setter
    def trace(self, given: TraceRecorder | None) -> None: ...

    @property
    def ranges(self) -> ProfilerRanges: ...

    @ranges.setter
    def ranges(self, given: ProfilerRanges | None) -> None: ...

    @property
    def program(self) -> ProgramLog: ...

    @program.setter
    def program(self, given: ProgramLog | None) -> None: ...

    @property
    def overwrites_wait(self) -> bool: ...

    @overwrites_wait.setter
    def overwrites_wait(self, arg: bool, /) -> None: ...

    @property
    def idle_spin_s(self) -> float: ...

    @idle_spin_s.setter
    def idle_spin_s(self, arg: float, /) -> None: ...

    @property
    def most_on_a_lane(self) -> int: ...

    @most_on_a_lane.setter
    def most_on_a_lane(self, arg: int, /) -> None: ...

    @property
    def least_direct_bytes(self) -> int: ...

    @least_direct_bytes.setter
    def least_direct_bytes(self, arg: int, /) -> None: ...

class CudaSettings:
    """The GPUs of this rank."""

    def __init__(self, **fields: Any) -> None: ...

    @property
    def ordinals(self) -> list[int]:
        """As the driver counts them, one per device."""

    @ordinals.setter
    def ordinals(self, arg: Sequence[int], /) -> None: ...

    @property
    def compute_lanes(self) -> int:
        """Kernels at the same time on a GPU."""

    @compute_lanes.setter
    def compute_lanes(self, arg: int, /) -> None: ...

    @property
    def most_memory_bytes(self) -> int:
        """Of each GPU, for buffers; 0: all that there is."""

    @most_memory_bytes.setter
    def most_memory_bytes(self, arg: int, /) -> None: ...

    @property
    def graphs(self) -> bool:
        """
        Whole periods of replays run as graphs; not with a timeline, nor with kernels that check bounds.
        """

    @graphs.setter
    def graphs(self, arg: bool, /) -> None: ...

    @property
    def graphs_exchange(self) -> bool:
        """
        Kernels of graphs wait for other ranks; not on a GPU that they use, too.
        """

    @graphs_exchange.setter
    def graphs_exchange(self, arg: bool, /) -> None: ...

    @property
    def reductions(self) -> CudaReductions:
        """The kernels that combine partial results; more may be added later."""

    @reductions.setter
    def reductions(self, arg: CudaReductions | None, /) -> None: ...

    @property
    def small_copies(self) -> Any:
        """
        Five CUfunctions per device, as cuda_small_copies::functions has them; or none. Reads the number of devices.
        """

    @small_copies.setter
    def small_copies(self, handles: Sequence[tuple[int, int, int, int, int]], /) -> None: ...

    @property
    def release_cached_memory(self) -> Any:
        """
        Called with an ordinal, makes others in this process give back unused memory; reads whether there is such a function.
        """

    @release_cached_memory.setter
    def release_cached_memory(self, release: Callable[[int], object], /) -> None: ...

class SpinFlag:
    """
    A flag that one thread sets, and others wait for, without sleeping or asleep. An interrupt of who waits leaves no lock behind.
    """

    def __init__(self) -> None: ...

    @property
    def is_set(self) -> bool:
        """Whether it is set."""

    def set_at_once(self) -> None:
        """Sets it now, on any thread."""

    def sleep(self, limit_s: float) -> bool:
        """
        Sleeps, without the GIL, until it is set or the time is up; whether it is set. Handles signals.
        """

    def set(self, source: object = None) -> None:
        """
        Sets it, on the executor thread in the next run(); `source` makes this the callback of a future.
        """

    def wait(self, limit_s: float) -> bool:
        """
        Looks at it, without the GIL, until it is set or the time is up; whether it is set.
        """

class Executor:
    """
    Executes the instructions of one rank: on CPU devices with separate memories, or on GPUs.

    One thread calls run() again and again; a launcher thread per device calls next_kernel(), host-task threads call next_host_task(); all other methods
    may be called from any thread. Boxes are flat 6-tuples (min0, min1, min2, max0, max1, max2). Stop it before the scheduler is destroyed.
    """

    def __init__(self, settings: ExecutorSettings = ..., cuda: CudaSettings | None = None) -> None:
        """On CPU devices unless `cuda` is given."""

    PILOT_SIZE: int = 264

    def offer_direct(self, host_ranks: Sequence[int]) -> bytes:
        """
        Begins to prepare direct transfers, before the first batch. Returns the handles that the other ranks of this host open.

        Empty if this executor has no direct transfers. Afterwards open_direct() the offers of the others, and name those with whom both sides succeeded.
        """

    def open_direct(self, peer: int, offer: bytes) -> None:
        """
        Opens the offer of another rank of this host. Raises RuntimeError with the reason if it cannot.
        """

    def agree_direct(self, peers: Sequence[int]) -> None:
        """
        Names the ranks that transfers to and from are direct with; none is allowed.
        """

    def connect(self, port: MessagePort, *, spins: bool, cores_per_rank: float, has_other_ways: bool) -> None:
        """
        Sends and receives messages through this port, and looks at it from run(). Before the first batch.

        Without a port, messages are events, which notify_complete() and notify_pilot() answer: for tests that play the network.
        """

    def run(self, timeout_s: float) -> list[PilotEvent | SendEvent | ReceiveEvent | BarrierEvent | CompletedEvent | RetiredEvent | UserFreeEvent | EmptyReductionEvent | FailedEvent | ShutdownEvent | StoppedEvent]:
        """
        Works, without the GIL, until there is an event for Python, the port has a notice, wake() is called, or the time is up. Returns the events.

        Events that nobody waits for come up to 2 ms later.
        """

    def watch(self, submission: int, flag: SpinFlag, limit_s: float) -> bool:
        """
        Looks at the flag, without the GIL, until it is set or the time is up; it is set as soon as the fence or epoch is complete.

        Whether that was so: run() tells of it later then. Otherwise somebody else has set the flag, or run() tells.
        """

    def prepare_queue(self, priority: int, share: float = 0.0) -> None:
        """
        Makes streams for the kernels of queues of this priority. Before their first task. Any thread.

        With a share, these kernels run on that share of the multiprocessors of each GPU, and all others on the rest. Raises ValueError if a GPU has no such part,
        and RuntimeError if the driver refuses.
        """

    def lanes(self) -> list[tuple[str, int]]:
        """Kind and device of every lane, by its number."""

    def wake(self) -> None:
        """Makes the present or next run() return."""

    def notify_complete(self, request: int) -> None:
        """A send, receive or barrier is complete."""

    def notify_pilot(self, source_rank: int, pilot: bytes) -> None:
        """
        A pilot has arrived. Raises ValueError if it is none, or one of another version.
        """

    def unclaimed_pilots(self) -> list[UnclaimedPilot]:
        """
        Announced messages that nothing has asked for. On the thread that calls run(), between two calls.
        """

    @property
    def outstanding_communication(self) -> bool:
        """Requests that are not complete, or data that has not arrived."""

    @property
    def still_s(self) -> float:
        """
        Seconds since something has come from or gone to the network, or has left for Python.
        """

    def has_empty_lanes(self, num_handed_over: int) -> bool:
        """
        Whether the first `num_handed_over` instructions have come, and none that needs a lane of a device is left.
        """

    def fail(self) -> None:
        """Issues nothing new from now on; run() goes on returning."""

    def stop(self) -> None:
        """
        Wakes every thread out of next_kernel(), next_host_task() and run(). Idempotent.
        """

    def release_devices(self) -> bool:
        """
        Stops, and gives all memory of the devices back. False while operations run there: then it may be called again. No thread runs user code.
        """

    def active_instructions(self) -> list[ActiveInstruction]:
        """
        The instructions in flight or waiting for a transfer, the oldest first. If none is in flight, those not issued as well.
        """

    def settle(self, timeout_s: float) -> bool:
        """
        After the failure of a run with a single rank, before `stop`: wait until operations on streams have ended. False if that takes longer. Raises RuntimeError if a device has failed.
        """

    def last_contents(self, scheduler: Scheduler, buffer: int, failed: int) -> LastContents:
        """
        Where the contents of a buffer are after the failure of a run with a single rank, whose threads have ended. `failed`: the submission that has failed, or 0. The scheduler has not been stopped. Raises RuntimeError if that is not known.
        """

    def statistics(self) -> dict[str, Any]:
        """
        Counts, bytes and times since the start: instructions, copies, copied_bytes, sent_bytes, received_bytes, batches, allocations, memories, ...
        """

    def next_kernel(self, device: int) -> KernelCall | None:
        """
        The next kernel call for a device, as soon as it may begin: a CPU kernel after its predecessors, a GPU kernel once its stream waits for them.
        None after stop(). Blocks without the GIL.

        One thread per device.
        """

    def kernel_returned(self, ticket: int) -> None:
        """
        The kernel's function has returned; its work may still run on its lane.
        """

    def next_host_task(self) -> HostTaskCall | InitializeCall | CombineCall | None:
        """
        The next call for a host-task thread; None after stop(). Blocks without the GIL. Any number of threads may call it.
        """

    def host_task_waits(self, ticket: int) -> None:
        """
        The call waits for other ranks, and no longer keeps others from being issued where one goes at a time.
        """

    def host_task_done(self, ticket: int) -> None:
        """The call has returned."""

    def register_user_memory(self, address: int, allocated_box: tuple[int, int, int, int, int, int]) -> int:
        """
        Makes an array of the user, over this box of a buffer, known as allocation (0, result). Any thread.
        """

    def replace_user_memory(self, raw: int, address: int) -> None:
        """
        Continues with a copy of the same size. Nothing that touches it may be in flight. Any thread.
        """

    def unregister_user_memory(self, raw: int) -> None:
        """No instruction may refer to it any more. Any thread."""

class ProgramDivergence(NamedTuple):
    """
    The first rank whose program is known to differ, at or before that entry.
    """
    peer: int = ...
    entry: int = ...

class ProgramEntry(NamedTuple):
    """
    A buffer or task: the number of the line that submitted it, and (aspect, text) each.
    """
    site: int = ...
    aspects: list[Any] = ...

class ProgramLog:
    """
    The buffers and tasks of this rank in program order, as digests that the ranks compare. A Scheduler adds entries; any thread may call the methods.
    """

    def __init__(self, num_ranks: int) -> None: ...

    @property
    def latest(self) -> tuple[int, int]:
        """(number of entries, digest of all of them)"""

    @property
    def oldest(self) -> int:
        """The first entry that can still be compared."""

    def digests(self, first: int, stride: int, count: int) -> list[int]:
        """
        Digests up to the entries `first`, `first + stride`, ..., at most `count`, and none behind the latest entry.
        """

    def compare(self, peer: int, entries: int, digest: int) -> bool:
        """
        Compare with the claim of another rank. False if the programs differ. Entries that this rank has not come to yet are compared when it does.
        """

    @property
    def has_diverged(self) -> bool:
        """Whether the program of some rank is known to differ."""

    @property
    def divergence(self) -> ProgramDivergence | None: ...

    def describe(self, entry: int) -> ProgramEntry | None:
        """None if the entry is too old, or still to come."""

ACCESS_MODES: tuple = ('read', 'write', 'read_write')

REDUCTION_OPERATIONS: tuple = ...

SCALAR_TYPES: tuple = ...

SPLITS: tuple = ...

MAX_QUEUE_PRIORITY: int = 4

class BufferInfo:
    """
    A buffer before it is created. The sizes are in bytes; without `initial` it has no contents.
    """

    def __init__(self, **fields: Any) -> None: ...

    @property
    def shape(self) -> tuple: ...

    @shape.setter
    def shape(self, arg: object, /) -> None: ...

    @property
    def element_size(self) -> int: ...

    @element_size.setter
    def element_size(self, arg: int, /) -> None: ...

    @property
    def alignment(self) -> int: ...

    @alignment.setter
    def alignment(self, arg: int, /) -> None: ...

    @property
    def initial(self) -> str: ...

    @initial.setter
    def initial(self, arg: str, /) -> None: ...

    @property
    def arrays(self) -> list[tuple[Box, int, int]]:
        """
        Of this rank: (box, number of the array, the rank's device on which it lies, or -1 on the host).
        """

    @arrays.setter
    def arrays(self, arg: Sequence[tuple[Box, int, int]], /) -> None: ...

    @property
    def held_by_ranks(self) -> list[list[Box]]:
        """
        Of each rank, for initial='local': the boxes that only its arrays hold.
        """

    @held_by_ranks.setter
    def held_by_ranks(self, arg: Sequence[Sequence[Box]], /) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def type_name(self) -> str: ...

    @type_name.setter
    def type_name(self, arg: str, /) -> None: ...

    @property
    def contents_digest(self) -> int: ...

    @contents_digest.setter
    def contents_digest(self, arg: int, /) -> None: ...

    @property
    def site(self) -> int: ...

    @site.setter
    def site(self, arg: int, /) -> None: ...

class Task:
    """
    A task before its submit. A Submitter adds the accesses and the name, from the arguments of the call.
    """

    @staticmethod
    def kernel(box: Box, granularity: object | None = None, division: tuple[int, int, int, int, object, int] = (0, 1, 0, 0, None, 0), reductions: object = (), origin: tuple[int, int] = (0, 0)) -> Task:
        """
        reductions: (buffer, op, dtype name, include_current) each; for the op "callable" also (number, name, digest of code and identity).
        """

    @staticmethod
    def host_task(box: Box, on: str = 'split', unordered: bool = False, granularity: object | None = None, objects: Sequence[int] = [], origin: tuple[int, int] = (0, 0), group: str = '') -> Task:
        """
        on: 'once', 'master', or 'split', which divides the box among the ranks. objects: ids of host objects, distinct and ascending. group: of a collective host task, as the program names it.
        """

    @property
    def priority(self) -> int:
        """Of the queue that submits it."""

    @priority.setter
    def priority(self, arg: int, /) -> None: ...

    @property
    def division(self) -> tuple:
        """Equal for tasks whose index spaces are divided into the same chunks."""

class GraphLog:
    """
    The newest tasks of a scheduler, with their commands on all ranks and their instructions on this one.
    """

    def __init__(self, num_ranks: int, rank: int, first: int = 0, end: int | None = None) -> None:
        """Keeps tasks with ids from `first` to before `end`."""

    max_tasks: Final[int] = ...
    """(arg: object, /) -> int"""

    @property
    def num_ranks(self) -> int: ...

    @property
    def rank(self) -> int: ...

    @property
    def knows_all_ranks(self) -> bool:
        """Whether the commands are those of all ranks."""

    def task_numbers(self) -> list[tuple[int, int]]:
        """
        Of each kept task, its number and that of horizons up to it. Any thread.
        """

    def snapshot(self, first: int, end: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
        """
        The kept tasks from `first` to before `end`, the allocations of the others, and all buffers, as records. Any thread.
        """

class PlanningSettings:
    """
    The devices of one rank, and the settings of its planner. The defaults are rank 0 of 1 with 1 device.
    """

    def __init__(self, **fields: Any) -> None: ...

    @property
    def num_ranks(self) -> int: ...

    @num_ranks.setter
    def num_ranks(self, arg: int, /) -> None: ...

    @property
    def num_devices(self) -> int: ...

    @num_devices.setter
    def num_devices(self, arg: int, /) -> None: ...

    @property
    def device_peers(self) -> bool: ...

    @device_peers.setter
    def device_peers(self, arg: bool, /) -> None: ...

    @property
    def user_device_peers(self) -> bool: ...

    @user_device_peers.setter
    def user_device_peers(self, arg: bool, /) -> None: ...

    @property
    def messages_reach_devices(self) -> bool: ...

    @messages_reach_devices.setter
    def messages_reach_devices(self, arg: bool, /) -> None: ...

    @property
    def link_grades(self) -> list[int]: ...

    @link_grades.setter
    def link_grades(self, arg: Sequence[int], /) -> None: ...

    @property
    def direct_ranks(self) -> list[bool]: ...

    @direct_ranks.setter
    def direct_ranks(self, arg: Sequence[bool], /) -> None: ...

    @property
    def foreseeable_bytes(self) -> int: ...

    @foreseeable_bytes.setter
    def foreseeable_bytes(self, arg: int, /) -> None: ...

    @property
    def joined_bytes(self) -> int: ...

    @joined_bytes.setter
    def joined_bytes(self, arg: int, /) -> None: ...

    @property
    def gathered_bytes(self) -> int: ...

    @gathered_bytes.setter
    def gathered_bytes(self, arg: int, /) -> None: ...

    @property
    def most_horizons_ahead(self) -> int: ...

    @most_horizons_ahead.setter
    def most_horizons_ahead(self, arg: int, /) -> None: ...

    @property
    def horizon_step(self) -> int: ...

    @horizon_step.setter
    def horizon_step(self, arg: int, /) -> None: ...

    @property
    def horizon_max_parallelism(self) -> int: ...

    @horizon_max_parallelism.setter
    def horizon_max_parallelism(self, arg: int, /) -> None: ...

    @property
    def rank(self) -> int: ...

    @rank.setter
    def rank(self, arg: int, /) -> None: ...

    @property
    def lookahead(self) -> str: ...

    @lookahead.setter
    def lookahead(self, arg: str, /) -> None: ...

    @property
    def program(self) -> ProgramLog: ...

    @program.setter
    def program(self, arg: ProgramLog | None, /) -> None: ...

    @property
    def loops(self) -> bool:
        """Whether plain loops may repeat plans, if replays may."""

    @loops.setter
    def loops(self, arg: bool, /) -> None: ...

    @property
    def templates(self) -> bool:
        """Whether replays may repeat plans."""

    @templates.setter
    def templates(self, arg: bool, /) -> None: ...

class AccessViolation(NamedTuple):
    """
    A contradiction between the declared accesses of a task. Fields are 0, empty or None where they do not apply.
    """
    kind: Literal['unknown_buffer', 'misfit', 'beyond_whole', 'unwritten', 'overlap', 'reduced'] = ...
    buffer: int = ...
    access: Any = ...
    other_access: Any = ...
    misfit: MapperMisfit = ...
    chunk: Box = ...
    other_chunk: Box = ...
    where: Region = ...
    of_chunk: Region = ...
    of_parts: Region = ...
    num_parts: int = ...

class AccessPatternError(ValueError):
    """
    A task's declared accesses contradict each other. args = (AccessViolation,).
    """

class PlanningNotice(NamedTuple):
    """
    A notice of the planner. Fields are 0, empty or None where they do not apply.
    """
    kind: Literal['fault', 'unwritten_read', 'many_allocations', 'full_lookahead'] = ...
    submission: int = ...
    task: int = ...
    task_name: str = ...
    buffer: int = ...
    buffer_name: str = ...
    where: Region = ...
    device: Any = ...
    number: int = ...
    text: str = ...

class Scheduler:
    """
    Task, command and instruction graphs of this rank, generated by a native thread. One application thread submits; destroy_buffer may be called anywhere.
    """

    def __init__(self, planning: PlanningSettings, executor: Executor | None, *, run_ahead: int = 16, idle_spin_s: float = 0.0, most_kept_bytes: int = 1073741824, trace: TraceRecorder | None = None, graphs: GraphLog | None = None) -> None:
        """
        Without an executor nothing is executed, and horizons and epochs have passed as soon as they are planned. Once out of work, the thread looks for more for `idle_spin_s` before it sleeps. While more than `most_kept_bytes` of dropped buffers are kept for unfinished work, submits wait.
        """

    def start(self) -> None:
        """Start the thread."""

    def stop(self) -> None:
        """Work off the input, then end and join the thread. Idempotent."""

    def create_buffer(self, info: BufferInfo) -> int:
        """Announce a virtual buffer; returns its id."""

    def destroy_buffer(self, buffer: int, num_bytes: int) -> None:
        """
        Free the buffer, with so many bytes of elements, after its last use. Any thread; only enqueues.
        """

    def chunks_for(self, task: Task) -> list[Box]:
        """
        Everything a range mapper is asked for: the whole range first, each rank's chunk, this rank's chunks per device and part of one.
        """

    def next_submission(self) -> int:
        """The id that the next submission will get."""

    def release(self) -> None:
        """Never let a submit wait again: the run has failed. Any thread."""

    def wait_until_planned(self) -> None:
        """Block until all input so far has been planned, without the GIL."""

    def flush(self) -> None:
        """Compile the commands that lookahead holds back."""

    def announce(self, priority: int) -> None:
        """
        There is a queue of this priority. All ranks make this call before the same tasks.
        """

    @property
    def has_notices(self) -> bool:
        """Whether there are some that nobody has taken. Any thread."""

    def notices(self) -> list[PlanningNotice]:
        """The result of the next take_notices(). Any thread."""

    def take_notices(self) -> list[PlanningNotice]:
        """The notices since the last call. Any thread."""

    def plan_totals(self) -> dict[str, Any]:
        """
        Of a dry run: the instructions planned so far by kind, bytes by link, and memory in the order of the plan.
        """

    def statistics(self) -> dict[str, Any]:
        """Counts, and the seconds the thread was busy and idle."""

def install_last_words(rank: int, launchers: Sequence[int]) -> None:
    """
    From now on this process writes a line with its rank and its tasks when a signal ends it, unless one of these processes has sent SIGTERM.
    """

def remove_mpi_files() -> None:
    """
    Remove the files in /dev/shm of MPICH that this process has mapped: the run ends irregularly.
    """

def call_noter() -> Callable[[Any], None]:
    """
    A function note_call(submission): this thread calls the function of this submission until note_call(None). The last words of this process name it.
    """

class NeighbourWatch:
    """
    Until stop() a line tells at once if the process of another rank of this host ends.
    """

    def __init__(self, rank: int, watcher: int) -> None:
        """From now on the process `watcher` can notice the end of this one."""

    @property
    def path(self) -> str:
        """For `watch` of another rank."""

    def watch(self, neighbour: int, process: int, path: str) -> None:
        """From now on, once. path: that of the other rank."""

    def stop(self) -> None:
        """Idempotent."""

class StartWatch:
    """
    From now to the end of a context, this rank waits for the others to start.

    A thread of its own says for which ranks of this host it waits, and ends the process with status 1 if one of them has ended or stands still for too long.
    """

    def __init__(self, rank_variable: str, rank: int, num_ranks: int, is_one_host: bool, awaited: Set[int] = ..., *, first_report_s: float, still_limit_s: float) -> None:
        """
        `rank_variable`: of the environment, set by the launcher. `num_ranks`: 0 if it is not known. `awaited`: the ranks that have to come; empty for all. `still_limit_s`: 0 for none.
        """

    def __enter__(self) -> StartWatch: ...

    def __exit__(self, *exception: object) -> None: ...

class SubmissionRecord:
    """The attributes of a submission."""

    kind: types.MemberDescriptorType = ...

    name: types.MemberDescriptorType = ...

    function: types.MemberDescriptorType = ...

    args: types.MemberDescriptorType = ...

    box: types.MemberDescriptorType = ...

    code: types.MemberDescriptorType = ...

    lasti: types.MemberDescriptorType = ...

    future: types.MemberDescriptorType = ...

    outside: types.MemberDescriptorType = ...

    context: types.MemberDescriptorType = ...

    fused: types.MemberDescriptorType = ...

    __slots__: tuple = ...

class AccessRecord:
    """The attributes of an access."""

    buffer: types.MemberDescriptorType = ...

    mapper: types.MemberDescriptorType = ...

    port: types.MemberDescriptorType = ...

    __slots__: tuple = ('buffer', 'mapper', 'port')

class PortRecord:
    """The attributes that all ports have."""

    record: types.MemberDescriptorType = ...

    buffer_id: types.MemberDescriptorType = ...

    mode: types.MemberDescriptorType = ...

    runtime: types.MemberDescriptorType = ...

    kind: types.MemberDescriptorType = ...

    periodic: types.MemberDescriptorType = ...

    __slots__: tuple = ...

class KernelRecord:
    """The attributes that all kernels have."""

    name: types.MemberDescriptorType = ...

    memo: types.MemberDescriptorType = ...

    __slots__: tuple = ('name', 'memo', '_cpu', '_cuda')

def access_maker(access_class: type[Any]) -> Any:
    """
    A function new_access(buffer, mapper, port) that makes an access, an instance of this class.
    """

def call_inside(threads: set[int], function: Any, *args: Any) -> Any:
    """
    function(*args), while the id of this thread is in the set `threads`; no exception leaves it there.
    """

def numbers_at(places: tuple[tuple[Any, str, str | None], ...]) -> tuple[Any, ...]:
    """
    The numbers at these places: in a dictionary or cell, by name, or in an attribute of the object there. None for anything else.
    """

class ValueWatch:
    """A quick look at values from outside. Immutable."""

    def __init__(self, places: Iterable[tuple[Any, str, tuple[str, ...], int]]) -> None:
        """
        places: (root, name, attributes, id). A root is a dictionary or a cell with the first object, or a callable that gives it. The id is that of the object there, or of the code of the function there, and somebody keeps it alive.
        """

    def has_moved(self) -> bool:
        """Whether a name stands for another object, which may be an equal one."""

class SubmitMemo:
    """The memo of a kernel: the checked kinds of its calls; see Submitter."""

    def __init__(self) -> None: ...

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """A copy of a kernel begins anew."""

class RecordedTasks:
    """
    The kernels and host tasks that a function has submitted; see Submitter.record.
    """

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    @property
    def steps_of_halos(self) -> int:
        """
        From one exchange of halos to the next, as the first kernel asks that does; else 0.
        """

    def find_halos(self, submitter: Submitter) -> tuple[str, int, int, tuple[int, int, int], tuple[int, int, int], float, float, int, list[tuple[int, int, int]]]:
        """
        How far tasks that ask for it reach beyond their shares: (kind of answer, number of a task, another one or an access of the task, the farthest reach, extents of the share whose work grows most, growth, work of all, exchanges per step without, reach by step and task).
        """

    def joined(self, other: RecordedTasks, behind: Sequence[int]) -> RecordedTasks:
        """
        These tasks with those of another recording among them. behind: for each of the others, the number of the task behind which it runs. It is divided like that one.
        """

    def with_reaches(self, submitter: Submitter, reaches: Sequence[Sequence[int]], submissions: list) -> RecordedTasks:
        """
        The same tasks with the reach of each in each step. submissions: of the tasks of all steps.
        """

    def with_values(self, submitter: Submitter, changes: Sequence[tuple[int, bytes | None, int]], submissions: list) -> RecordedTasks:
        """
        The same tasks with other plain arguments, as a program of its own. changes: number of the task, bytes of the scalars of a CudaKernel, and digest of its values. submissions: of all tasks, with the new arguments.
        """

class Submitter:
    """
    Records submissions and hands them to the scheduler, in one step that no interrupt can split. With the GIL, on any thread.

    Asks the delegate about the new parts of a call, and for the words of errors. An exception of the delegate leaves everything as it was.
    """

    def __init__(self, scheduler: Scheduler, executor: Executor | None, entries: dict, is_shared: bool) -> None:
        """
        entries: number -> Submission, which is added to. is_shared: several ranks have to submit in the same order.
        """

    def set_delegate(self, delegate: object) -> None:
        """
        A SubmitDelegate, before the first kernel or host task. Its attributes are read now.
        """

    def submit_kernel(self, kernel: object | None, shape: object | None, args: tuple, name: object | None, hints: object | None, constrain: object | None, frame: object, priority: int) -> None:
        """
        Queue.parallel_for, called from this frame, of a queue with this priority.
        """

    def submit_host_task(self, priority: int, *given: Any) -> None:
        """
        Queue.host_task, of a queue with this priority, with the arguments of SubmitDelegate.plan_host_task.
        """

    def record(self, function: Any, tasks: RecordedTasks, submissions: list[Any], opened: Any) -> Any:
        """
        function(), keeping the kernels and host tasks that this thread submits meanwhile. submissions: gets Python's record of each. opened: the Recording.
        """

    def digest_values(self, kept_args: list[Any]) -> int:
        """
        Of the plain arguments among those that a submission keeps, as the ranks compare them.
        """

    @property
    def num_calls_of_others(self) -> int:
        """Submits and replays of other threads that have not returned yet."""

    @property
    def open_recording(self, /) -> Any:
        """The Recording under way, or None."""

    def replay(self, tasks: RecordedTasks, submissions: list[Any], times: int, frame: Any) -> None:
        """
        Submit recorded tasks again, `times` times, for a call from this frame. Their buffers must live until this returns.
        """

    def submit_fence(self, submission: object, buffer: int, box: Box, address: int, on_all: bool, to_device: bool, priority: int) -> None:
        """
        The copy goes to `address`, which becomes an array of the user with the number that the future gets as `raw`; nowhere if it is 0. to_device: the array lies in the memory of the first device.
        """

    def submit_object_fence(self, submission: object, object: int, on_all: bool, priority: int) -> None:
        """
        Completes when all earlier tasks with this host object are complete on this rank.
        """

    def submit_own_task(self, submission: object, task: Task, name: str) -> None:
        """
        A host task of the runtime, without accesses. Blocks as little as a fence.
        """

    def submit_epoch(self, submission: object, action: str) -> None:
        """action: 'none', 'barrier' or 'shutdown'."""

    def refuse(self) -> None:
        """From now on ask the delegate at each call whether it may go on."""

    def futures_until(self, last: int) -> list:
        """Futures of the submissions up to `last` that have not been forgotten."""

    def forget_until(self, last: int) -> None:
        """Drop the records of all submissions up to `last`."""

    def set_observer(self, observer: object) -> None:
        """
        Call observer(number, submission, perf_counter_ns() at the beginning) behind each submit.
        """

    def number_site(self, code: object, lasti: int) -> int:
        """
        The number of a line of the program and of the thread that has its turn; 0 if there are too many, and with a single rank.
        """

    def find_site(self, number: int) -> tuple[Any, int, int, int] | None:
        """
        (code, byte offset of the instruction, number of the thread, repetitions of a replay or 0) of such a line.
        """

    def set_refuser(self, refuse: object) -> None:
        """
        Call refuse(what, name of another thread) if chance decides whether this thread submits before or after that one. It raises.
        """

    def take_turn(self, what: object) -> None:
        """
        This thread makes a call whose order counts. `what`: a submission, or the call in words.
        """

    @property
    def threads(self, /) -> list[str]:
        """
        The names of the threads that have submitted, by number, if there are several ranks.
        """

    @property
    def num_submitted(self) -> int: ...

    @property
    def num_repeated(self) -> int:
        """Kernels about which the delegate was not asked."""

    @property
    def busy_ns(self) -> int:
        """Time in submits of kernels and host tasks, without the time blocked."""

    @property
    def blocked_ns(self) -> int:
        """
        Time blocked because the application was too far ahead of the execution.
        """

def keep_temporary_memory() -> None:
    """
    In the current context, take the memory of new NumPy arrays of 64 KiB and more from blocks that are kept when arrays die.

    A new page of memory costs a fault at its first write, which takes longer than the arithmetic on it. The blocks in use and the kept ones together have
    at most as many bytes as were in use at once. The setting is a context variable of NumPy (NEP 49). Any thread may call this.
    """

def release_temporary_memory() -> None:
    """
    Give the kept blocks back to the operating system. Any thread may call this.
    """

def kept_temporary_bytes() -> int:
    """The bytes of kept blocks that no array uses."""

class HolderRecord:
    """The arrays of a view or reducer."""

    __slots__: tuple = ('_array', '_base')

def release_views(arguments: list[Any]) -> list[tuple[int, Any]] | None:
    """
    Take the arrays of views and reducers away, behind the call that they were made for.

    None, or (position, array that the view or reducer was made with) for each that something besides this list and that array's owner refers to.
    """

def is_referred_to(holder: tuple, index: int) -> bool:
    """Whether something besides this tuple refers to this item of it."""
