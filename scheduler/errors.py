# SPDX-License-Identifier: MIT
"""All mistakes of users, and all failures of the machine and of other ranks, as one tree of exceptions.

Each class also derives from the builtin that a Python programmer would catch for it. A message tells who (task,
buffer), where (rank, device), what happened, the exact values, and what to do; an error that surfaces after the submit
also tells the line that submitted the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class CelerityError(Exception):
    """Base class of every error that celerity_py raises on purpose."""

    #: IPython asks an exception for the lines to print; set by the layer that knows the frames to leave out.
    _render_traceback_: Callable[[CelerityError], list[str]]


class UsageError(CelerityError, ValueError):
    """The program asks for something that is not allowed or makes no sense."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument has a type that the call does not take, such as a bare `Buffer` among the arguments of a kernel."""


class DimensionMismatch(UsageError):  # noqa: N818 - design vocabulary: errors are named after the mistake
    """A shape, box, mapper or mapper result has the wrong number of dimensions."""


class MapperError(UsageError):
    """A range mapper raised (its exception is the `__cause__`) or returned something that is no part of a buffer."""


class OverlappingAccess(UsageError):  # noqa: N818
    """A chunk writes elements that another chunk accesses, or a task both reduces into a buffer and accesses it."""


class InconsistentMapper(UsageError):  # noqa: N818
    """The result of a mapper for the whole index space contradicts its results for the chunks."""


class UninitializedRead(UsageError):  # noqa: N818
    """A task reads elements of a buffer that nobody wrote."""


class IncompleteWrite(UsageError):  # noqa: N818
    """A kernel or host task leaves elements unwritten that its `write` access promises to overwrite."""


class OutOfBoundsAccess(UsageError, IndexError):  # noqa: N818
    """A view is indexed outside of its declared region, or a mapper or fence asks for elements that a buffer lacks."""


class UnsupportedIndex(UsageError, IndexError):  # noqa: N818
    """A view was indexed with something else than boxes, slices, integers and `...`."""


class ReadOnlyAccess(UsageError):  # noqa: N818
    """A kernel or host task writes through a view whose access was declared as `read`."""


class KeptArray(UsageError):  # noqa: N818
    """A kernel or host task keeps an array of a view beyond its return, or uses a view or reducer after it."""


class ConfigurationError(UsageError):
    """A configuration variable is unknown, malformed, or set too late."""


class ClosedQueue(UsageError, RuntimeError):  # noqa: N818
    """A queue, or a buffer, is used after the runtime that it belonged to has ended."""


class ForkedProcess(UsageError):  # noqa: N818
    """A child that was forked from a process with a runtime calls that runtime, or starts one of its own."""


class NestedUse(CelerityError, RuntimeError):  # noqa: N818
    """The runtime was called from inside a kernel, a host task, a mapper or a callback."""


class TaskFailed(CelerityError):  # noqa: N818
    """A kernel or host task, here or on another rank, failed; the runtime accepts no more work.

    The original exception, if it is one of this process, is the `__cause__`.
    """


class ResourceError(CelerityError):
    """The machine lacks threads, memory or another resource."""


class OutOfMemory(ResourceError, MemoryError):  # noqa: N818
    """An allocation failed, even after unused memory was given back."""


class DeviceError(CelerityError):
    """A GPU has failed, for instance because a kernel accessed memory that is not its own."""


class CommunicationError(CelerityError):
    """Ranks do not reach each other, or wait for each other in vain."""


class DivergedPrograms(CommunicationError):  # noqa: N818
    """Ranks do not run the same program: their calls differ, or the arguments of a call."""


class Stalled(CommunicationError):  # noqa: N818
    """Nothing has moved for `CELERITY_STALL_S` seconds, and for 20 s at least, and no rank computes."""


class LaunchError(CommunicationError, RuntimeError):
    """The processes of this job were started in a way that does not give them a working MPI."""


class InternalError(CelerityError):
    """This is a bug in celerity_py."""


class CelerityWarning(UserWarning):
    """Something looks wrong, but the program goes on."""
