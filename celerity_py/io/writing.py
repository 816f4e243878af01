# SPDX-License-Identifier: MIT
"""Host tasks that write: rank 0 begins, each rank writes its rows, rank 0 finishes. The graph orders them.

The tasks read the buffers, so a kernel that writes them later waits for their copies in host memory only. A small
buffer with an element per rank, the ticket, carries the order and the number of the attempt from rank to rank.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.access import all as all_elements
from celerity_py.access import one_to_one
from celerity_py.buffer import Buffer, check_alive, make_buffer
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.host_objects import HostObject
from celerity_py.io.progress import WritingProgress
from celerity_py.io.publishing import Leftovers
from celerity_py.queue import Queue
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.parts import MapperChunk, Part

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime

_GROUP = "celerity.io"


class Share(NamedTuple):
    """Rows of a buffer that one rank writes."""

    name: str
    box: Box
    contents: npt.NDArray[Any]


class Writer(Protocol):
    """Writes a file or folder, in host tasks."""

    #: One rank at a time.
    is_written_in_turn: bool
    #: Of the file or folder.
    name: str

    def begin(self, attempt: int) -> None:
        """On rank 0, before all ranks write. The number of the attempt is another one each time."""

    def write(self, attempt: int, rank: int, shares: Iterable[Share], objects: Mapping[str, Any]) -> None:
        """On each rank, its rows and its objects."""

    def finish(self, attempt: int) -> None:
        """On rank 0, when all ranks have written."""


class FilesOfRun:
    """What the calls of one run know of its files. The same on all ranks."""

    def __init__(self) -> None:
        self.progress = WritingProgress()
        #: Orders all tasks that write files, so that host memory holds one snapshot at a time.
        self.turns = HostObject(self.progress)
        #: Files that the program has asked for.
        self.saved: set[Path] = set()
        #: By folder of checkpoints: the last step that the program has asked for.
        self.steps: dict[Path, int] = {}
        #: Folders of which buffers read still.
        self.restored: set[Path] = set()
        #: Rank 0 alone looks at it, in host tasks that write.
        self.leftovers = Leftovers()


def files_of(runtime: Runtime) -> FilesOfRun:
    """The files of a run."""
    files: FilesOfRun | None = runtime.of_io.get(FilesOfRun)
    if files is None:
        files = runtime.of_io[FilesOfRun] = FilesOfRun()
        if runtime.live_view is not None:
            runtime.live_view.writing = files.progress
        runtime.at_stop.append(runtime.of_io.clear)
    return files


def runtime_of(queue: Any, call: str) -> Runtime:
    """The runtime of a queue, for a call that writes.

    Raises:
        ArgumentTypeError: If it is no queue.
        CelerityError: If an earlier task failed, or the call is not allowed here.
    """
    if not isinstance(queue, Queue):
        raise ArgumentTypeError(f"{call} takes a queue first, not {queue!r}.")
    runtime: Runtime = queue._runtime
    runtime.check_usable(call)
    runtime.refuse_in_recording(call)
    return runtime


def check_contents(runtime: Runtime, contents: Any, call: str, *, takes_objects: bool = False) -> None:
    """Check the things to write, by name.

    Raises:
        ArgumentTypeError: If a name or thing has another type.
        UsageError: If there is nothing, or a name is none of a file.
    """
    takes = "buffers and host objects" if takes_objects else "buffers"
    if not isinstance(contents, Mapping):
        raise ArgumentTypeError(f'{call} takes a mapping from names to {takes}, such as {{"u": u}}, not {contents!r}.')
    if not contents:
        raise UsageError(f"{call} got no {takes}.")
    for name, value in contents.items():
        if not isinstance(value, Buffer) and not (takes_objects and isinstance(value, HostObject)):
            raise ArgumentTypeError(f"{call} takes {takes}, but {name!r} is {value!r}.")
        check_alive(value.record if isinstance(value, Buffer) else value, runtime)
        if not _is_name(name):
            raise UsageError(f"{call} got the name {name!r}. Names are of letters, digits, '_', '-' and inner dots.")


def _is_name(name: Any) -> TypeGuard[str]:
    return isinstance(name, str) and all(
        part.replace("-", "_").isidentifier() or part.isalnum() for part in name.split(".")
    )


def stored(buffer: Buffer[Any]) -> StoredArray:
    """The description of a buffer for a file."""
    return StoredArray(buffer.shape, buffer.dtype, buffer.element)


def rows_of(shape: tuple[int, ...], together: int, ranks: tuple[int, int], size: int) -> Box:
    """The rows that some ranks write: as many for each as possible, in multiples. Of a single element: all.

    Args:
        shape: Of the buffer.
        together: So many rows have one writer.
        ranks: The first one, and the one behind the last.
        size: The number of ranks.
    """
    if not shape:
        return Box((), ())
    num_blocks = -(-shape[0] // together)
    first, last = (min(shape[0], num_blocks * rank // size * together) for rank in ranks)
    return Box((first, *[0] * (len(shape) - 1)), (last, *shape[1:]))


def submit_writing(  # noqa: PLR0917 - of one call
    queue: Queue,
    writer: Writer,
    contents: Mapping[str, Buffer[Any] | HostObject[Any]],
    together: Callable[[str], int],
    name: str,
    frame: FrameType,
) -> None:
    """Submit the host tasks of one file or folder.

    Args:
        queue: Where.
        writer: Does the work.
        contents: By name, checked.
        together: By name: so many rows of the buffer have one writer.
        name: Of the tasks.
        frame: The line of the program.
    """
    runtime: Runtime = queue._runtime
    size, priority = runtime.size, queue.priority
    files = files_of(runtime)
    files.progress.ask()
    turns = files.turns
    ticket = make_buffer((size,), np.int64, f"ticket of {name}", frame)
    buffers = {key: value for key, value in contents.items() if isinstance(value, Buffer)}
    objects = {key: value for key, value in contents.items() if isinstance(value, HostObject)}
    reads = [buffer.read(_rows_mapper(buffer.shape, together(key), size)) for key, buffer in buffers.items()]
    effects = [each.side_effect() for each in objects.values()]
    names = _Names(tuple(buffers), tuple(objects))
    args = (writer, names, ticket.read_write(one_to_one()), turns.side_effect(), *reads, *effects)
    submit = runtime.submit_host_task
    given = (writer, ticket.write(all_elements()), turns.side_effect())
    submit(priority, _begin, given, "master", f"{name}: begin", None, True, frame)
    if writer.is_written_in_turn and size > 1:
        _submit_collective(runtime, priority, args, name, frame)
    else:
        submit(priority, _write, args, Box((0,), (size,)), name, None, True, frame)
    given = (writer, ticket.read(all_elements()), turns.side_effect())
    submit(priority, _finish, given, "master", f"{name}: finish", None, True, frame)


def _submit_collective(runtime: Runtime, priority: int, args: Sequence[Any], name: str, frame: FrameType) -> None:
    group = runtime.groups.find(_GROUP)
    runtime.submit_host_task(priority, _write_in_turn, args, group, name, None, True, frame)
    runtime.groups.keep(group)


class _Names(NamedTuple):
    buffers: tuple[str, ...]
    objects: tuple[str, ...]


def _rows_mapper(shape: tuple[int, ...], together: int, size: int) -> Callable[[MapperChunk], Box]:
    return lambda chunk: rows_of(shape, together, (chunk.box.min[0], chunk.box.max[0]), size)


def _begin(_part: Part, writer: Writer, ticket: Any, _progress: WritingProgress) -> None:
    ticket[...] = int.from_bytes(os.urandom(7), "little")
    writer.begin(int(ticket.array[0]))


def _write(part: Any, writer: Writer, names: Any, ticket: Any, progress: WritingProgress, *given: Any) -> None:
    views = zip(names.buffers, given, strict=False)
    shares = [
        Share(name, view.box, view[view.box]) for name, view in views if (view.box if view.box.ndim else part.rank == 0)
    ]
    objects = dict(zip(names.objects, given[len(names.buffers) :], strict=True))
    counted = progress.each_of(writer.name, shares, [share.contents.nbytes for share in shares])
    writer.write(int(ticket.array[0]), part.rank, counted, objects)


def _write_in_turn(part: Any, *given: Any) -> None:
    if part.rank > 0:
        part.comm.recv(source=part.rank - 1)
    _write(part, *given)
    if part.rank < part.size - 1:
        part.comm.send(None, dest=part.rank + 1)


def _finish(_part: Part, writer: Writer, ticket: Any, _progress: WritingProgress) -> None:
    writer.finish(int(ticket.array[0]))
