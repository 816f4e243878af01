# SPDX-License-Identifier: MIT
"""The mistakes of docs/errors.md, each as a short program. `errors_page.py` runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from celerity_py import _native
from celerity_py.scheduler import errors

#: What each program begins with.
PRELUDE = """
import numpy as np
import celerity_py as celerity
from celerity_py import Box, Region, access, hints

queue = celerity.Queue()
u = celerity.Buffer.from_array(np.ones(8), name="u")
out = celerity.Buffer.from_array(np.zeros(8), name="out")
image = celerity.Buffer.from_array(np.ones((8, 8)), name="image")
total = celerity.Buffer((), name="total")

def step(chunk, *views):
    pass
"""


@dataclass(frozen=True)
class Misuse:
    """A program that makes one mistake."""

    title: str
    #: Of `kinds_of_errors`; an exception, if the program raises one, stands first.
    kinds: tuple[str, ...]
    program: str
    #: Variables of the environment besides those of all programs.
    variables: dict[str, str] = field(default_factory=dict)
    ranks: int = 1
    #: Runs before the program, and is not shown: it takes a resource away.
    hidden: str = ""


def kinds_of_errors() -> set[str]:
    """All kinds of errors that the code lists: exceptions, and the kinds of native records that become errors."""
    exceptions = {name for name, value in vars(errors).items() if isinstance(value, type)} - {"CelerityError"}
    records: tuple[Any, ...] = (
        _native.AccessViolation,
        _native.MapperMisfit,
        _native.PlanningNotice,
        _native.ExecutorFailure,
    )
    return exceptions | {f"{record.__name__} {kind}" for record in records for kind in record.kinds if kind != "none"}


#: Kinds that no program of the page shows, with the reason.
WITHOUT_PROGRAM = {
    "DeviceError": "a GPU has failed; the message names the kernels in flight and their lines",
    "ExecutorFailure bounds": "needs a GPU: a `CudaKernel` with `CELERITY_BOUNDS_CHECK=1`; the message is that of "
    "`OutOfBoundsAccess`",
    "ExecutorFailure device": "needs a GPU; becomes `DeviceError`",
    "ExecutorFailure fault": "the operating system refuses something to the executor; becomes `ResourceError`",
    "ExecutorFailure peer": "the memory of another rank cannot be mapped; becomes `ResourceError`, or "
    "`CommunicationError` if the process is gone",
    "InternalError": "a bug in celerity_py; no program should see it",
    "AccessViolation unknown_buffer": "calls check their buffers before; no program should see it",
    "PlanningNotice fault": "becomes `InternalError`",
}

CPU_2 = {"CELERITY_DEVICES": "cpu:2"}
CHECK = {"CELERITY_CHECK": "1"}

AT_THE_SUBMIT = [
    Misuse("A bare buffer among the arguments", ("ArgumentTypeError",), "queue.parallel_for(8, step, u)"),
    Misuse(
        "A bare host object among the arguments",
        ("ArgumentTypeError",),
        "log = celerity.HostObject([])\nqueue.host_task(print, log)",
    ),
    Misuse(
        "A host object in a kernel",
        ("ArgumentTypeError",),
        "log = celerity.HostObject([])\nqueue.parallel_for(8, step, log.side_effect())",
    ),
    Misuse(
        "A weight too few",
        ("UsageError",),
        "queue.parallel_for(8, step, hints=hints.weights((3, 2)))",
        {"CELERITY_DEVICES": "cpu:3"},
    ),
    Misuse(
        "Two hints for the division",
        ("UsageError",),
        "queue.parallel_for(8, step, hints=[hints.split_auto(), hints.cyclic(2)])",
    ),
    Misuse("Arithmetic with a buffer", ("ArgumentTypeError",), "mean = np.sum(u) / 8"),
    Misuse("A comparison with the future of a fence", ("ArgumentTypeError",), "if queue.fence(u) > 0:\n    print()"),
    Misuse("A function of an access", ("ArgumentTypeError",), "np.sum(u.read(access.all()))"),
    Misuse(
        "Arguments of a kernel by name", ("ArgumentTypeError",), "queue.parallel_for(8, step, u=u.read(access.all()))"
    ),
    Misuse("Kernel and index space in the wrong order", ("ArgumentTypeError",), "queue.parallel_for(step, 8)"),
    Misuse(
        "A kernel that does not take its arguments",
        ("ArgumentTypeError",),
        """
        def scale(chunk, u, factor):
            u[chunk.box] *= factor

        queue.parallel_for(8, scale, u.read_write(access.one_to_one()))
        """,
    ),
    Misuse("A buffer without a range mapper", ("UsageError",), "queue.parallel_for(8, step, u.read())"),
    Misuse(
        "A mapper that is not called", ("ArgumentTypeError",), "queue.parallel_for(8, step, u.read(access.one_to_one))"
    ),
    Misuse("An index space without items", ("UsageError",), "queue.parallel_for(0, step)"),
    Misuse("A word that a call does not know", ("UsageError",), 'queue.fence(u, on="mastr")'),
    Misuse("A place that a fence does not know", ("UsageError",), 'queue.fence(u, to="gpu")'),
    Misuse(
        "Boxes of two ranks that overlap",
        ("UsageError",),
        """
        start = 3 * celerity.rank()
        celerity.Buffer.from_local(8, np.float64, [(Box((start,), (start + 4,)), np.ones(4))], name="parts")
        """,
        ranks=2,
    ),
    Misuse("A buffer of Python objects", ("UsageError",), "celerity.Buffer(8, object)"),
    Misuse(
        "A `CudaKernel` on CPU devices", ("UsageError",), 'queue.parallel_for(8, celerity.CudaKernel("...", "scale"))'
    ),
    Misuse("A box of other dimensions", ("DimensionMismatch",), "queue.fence(image, Box((0,), (4,)))"),
    Misuse("A box outside of the buffer", ("OutOfBoundsAccess",), "queue.fence(u, Box((4,), (12,)))"),
    Misuse(
        "A mapper that returns no part of a buffer",
        ("MapperError",),
        "queue.parallel_for(8, step, u.read(lambda chunk: chunk.box.min[0]))",
    ),
    Misuse(
        "A mapper that raises", ("MapperError",), "queue.parallel_for(8, step, u.read(lambda chunk: chunk.shift(1)))"
    ),
    Misuse(
        "Chunks that write the same elements",
        ("OverlappingAccess", "AccessViolation overlap"),
        "queue.parallel_for(8, step, out.write(access.all()))",
        CPU_2,
    ),
    Misuse(
        "A chunk that reads what another one writes",
        ("OverlappingAccess", "AccessViolation overlap"),
        "queue.parallel_for(8, step, u.read_write(access.one_to_one()), u.read(access.neighborhood(1)))",
        CPU_2,
    ),
    Misuse(
        "A buffer that a task both reduces into and accesses",
        ("OverlappingAccess", "AccessViolation reduced"),
        'queue.parallel_for(8, step, celerity.reduction(total, "sum"), total.read())',
    ),
    Misuse(
        "A mapper that returns less for the whole index space than for its chunks",
        ("InconsistentMapper", "AccessViolation beyond_whole"),
        """
        def first_half(chunk):
            return chunk.box if chunk.box != chunk.global_box else Box((0,), (4,))

        queue.parallel_for(8, step, u.read(first_half))
        """,
        CPU_2,
    ),
    Misuse(
        "A mapper that leaves elements to nobody",
        ("InconsistentMapper", "AccessViolation unwritten"),
        """
        def inner(chunk):
            return chunk.box.shrink(1) if chunk.box != chunk.global_box else chunk.box

        queue.parallel_for(8, step, out.write(inner))
        """,
        CPU_2,
    ),
    Misuse(
        "A callable reduction without an identity",
        ("UsageError",),
        "celerity.reduction(total, np.hypot)",
    ),
    Misuse(
        "A callable that returns another dtype",
        ("TaskFailed",),
        """
        def join(a, b):
            return np.hypot(a, b).astype(np.float64)

        def count(chunk, total):
            total.array[...] = 1

        queue.parallel_for(8, count, celerity.reduction(total, join, identity=0))
        queue.fence(total).result()
        """,
        CPU_2,
    ),
    Misuse(
        "A minimum with a place, in a buffer of plain numbers", ("UsageError",), 'celerity.reduction(total, "argmin")'
    ),
    Misuse("A masked array", ("ArgumentTypeError",), "celerity.Buffer.from_array(np.ma.masked_equal([1, 0, 2], 0))"),
    Misuse(
        "A fence in a recorded function",
        ("UsageError",),
        """
        def advance():
            queue.parallel_for(8, step, u.read(access.one_to_one()))
            queue.fence(u)

        queue.record(advance)
        """,
    ),
    Misuse(
        "A loop that stops on an array",
        ("UsageError",),
        """
        for i in queue.until(lambda: queue.fence(u), every=1, at_most=4):
            queue.parallel_for(8, step, u.read(access.one_to_one()))
        """,
    ),
    Misuse("A fill with a value that the elements cannot hold", ("UsageError",), "queue.fill(u, 1j)"),
    Misuse(
        "Random numbers with a seed out of its range",
        ("UsageError",),
        "celerity.random.uniform(Box((0,), (8,)), seed=-1)",
    ),
    Misuse(
        "A communicator that has no place for this process",
        ("ConfigurationError",),
        "from mpi4py import MPI\n\nqueue.close()\ncelerity.configure(comm=MPI.COMM_NULL)",
    ),
    Misuse("A copy onto itself", ("OverlappingAccess",), "queue.copy(u, u, slice(1, 8), slice(0, 7))"),
    Misuse(
        "A result for which the host has no memory",
        ("OutOfMemory",),
        'large = celerity.Buffer(2**60, np.int8, name="large")\nqueue.fence(large)',
    ),
]

MISFITS = [
    Misuse(title, (error, "AccessViolation misfit", f"MapperMisfit {kind}"), f"queue.parallel_for({call})")
    for kind, error, title, call in (
        (
            "other_dims",
            "DimensionMismatch",
            "`one_to_one`: kernel and buffer have different numbers of dimensions",
            "8, step, image.read(access.one_to_one())",
        ),
        (
            "other_dims_than_slice",
            "DimensionMismatch",
            "`slice`: the buffer has fewer dimensions than the kernel",
            "(2, 2, 2), step, u.read(access.slice(0))",
        ),
        (
            "other_dims_than_box",
            "DimensionMismatch",
            "`fixed`: the box has fewer dimensions than the buffer",
            "8, step, image.read(access.fixed(Box((0,), (4,))))",
        ),
        (
            "other_dims_than_names",
            "DimensionMismatch",
            "`permute`: the buffer has fewer dimensions than are named",
            "(8, 8), step, u.read(access.permute(1, 0))",
        ),
        (
            "other_dims_than_widths",
            "DimensionMismatch",
            "`neighborhood`: fewer widths than dimensions",
            "(8, 8), step, image.read(access.neighborhood(1))",
        ),
        (
            "not_one_dimension",
            "DimensionMismatch",
            "`even_split`: the kernel has more than one dimension",
            "(8, 8), step, image.read(access.even_split())",
        ),
        (
            "no_kernel_dimension",
            "DimensionMismatch",
            "`permute`: the kernel has no such dimension",
            "8, step, image.read(access.permute(1, 0))",
        ),
        (
            "no_buffer_dimension",
            "DimensionMismatch",
            "`slice`: the buffer has no such dimension",
            "8, step, u.read(access.slice(2))",
        ),
        (
            "no_index",
            "OutOfBoundsAccess",
            "`slice`: the buffer has no such index",
            "8, step, image.read(access.slice(0, at=8))",
        ),
        (
            "no_element",
            "OutOfBoundsAccess",
            "`one_to_one`: items without an element",
            "9, step, u.read(access.one_to_one())",
        ),
    )
]

IN_A_TASK = [
    Misuse(
        "An index outside of the declared region",
        ("OutOfBoundsAccess",),
        """
        def smooth(chunk, out, u):
            near = chunk.box.grow(1) & u.shape_box
            out[chunk.box] = u[near].mean()

        queue.parallel_for(4, smooth, out.read_write(access.one_to_one()), u.read(access.one_to_one()))
        """,
    ),
    Misuse(
        "A halo that the access does not declare",
        ("OutOfBoundsAccess",),
        """
        def shift(chunk, out, u):
            out[chunk.box] = u.padded(chunk.box, 1, mode="wrap")[:-2]

        queue.parallel_for(4, shift, out.read_write(access.one_to_one()), u.read(access.neighborhood(1)))
        """,
    ),
    Misuse(
        "An index that NumPy would take",
        ("UnsupportedIndex",),
        """
        queue.parallel_for(8, lambda chunk, u: print(u[[1, 2]]), u.read(access.all()))
        """,
    ),
    Misuse(
        "An assignment to a read access",
        ("ReadOnlyAccess",),
        """
        def scale(chunk, u):
            u[chunk.box] *= 2

        queue.parallel_for(8, scale, u.read(access.one_to_one()))
        """,
    ),
    Misuse(
        "Arithmetic with a view",
        ("ArgumentTypeError",),
        """
        def scale(chunk, out, u):
            out[chunk.box] = 2 * u

        queue.parallel_for(8, scale, out.write(access.one_to_one()), u.read(access.one_to_one()))
        """,
    ),
    Misuse(
        "A value that the buffer cannot hold",
        ("UsageError",),
        """
        counts = celerity.Buffer(8, np.int32, name="counts")

        def count(chunk, counts):
            counts[chunk.box] = 0.5

        queue.parallel_for(8, count, counts.write(access.one_to_one()))
        """,
    ),
    Misuse(
        "A result that a kernel returns",
        ("UsageError",),
        """
        queue.parallel_for(8, lambda chunk, u: u[chunk.box] * 2, u.read(access.one_to_one()), name="double")
        """,
    ),
    Misuse(
        "An array of a view that outlives the call",
        ("KeptArray",),
        """
        parts = []
        queue.host_task(lambda part, u: parts.append(u[...]), u.read(access.all()), name="collect")
        """,
    ),
    Misuse(
        "A call of the runtime inside of a task",
        ("NestedUse",),
        """
        def refine(part, u):
            queue.fence(out)

        queue.host_task(refine, u.read(access.all()))
        """,
    ),
    Misuse(
        "An exception in a kernel",
        ("TaskFailed",),
        """
        def look_up(chunk, u):
            return {}["weights"]

        queue.parallel_for(8, look_up, u.read(access.one_to_one()))
        """,
    ),
    Misuse(
        "Buffers that need more memory than there is",
        ("OutOfMemory", "ExecutorFailure memory"),
        """
        large = celerity.Buffer(2**60, np.int8, name="large")
        queue.parallel_for(2**60, step, large.write(access.one_to_one()))
        """,
    ),
    Misuse(
        "A read of elements that nobody has written: a warning",
        ("PlanningNotice unwritten_read",),
        "queue.parallel_for(1, step, total.read())",
    ),
    Misuse(
        "A buffer that grows step by step: a warning",
        ("PlanningNotice many_allocations",),
        """
        history = celerity.Buffer((64, 8), name="history")
        for i in range(64):
            queue.parallel_for((i + 1, 8), step, history.write(access.one_to_one()))
            queue.flush()
        """,
        {"CELERITY_LOOKAHEAD": "none"},
    ),
    Misuse(
        "A buffer that grows for too long: a warning",
        ("PlanningNotice full_lookahead",),
        """
        history = celerity.Buffer((70_000, 8), name="history")
        for i in range(70_000):
            queue.parallel_for((i + 1, 8), step, history.write(access.one_to_one()))
        """,
        {"CELERITY_LOOKAHEAD": "infinite"},
    ),
]

WITH_CHECK = [
    Misuse(
        "A read of elements that nobody has written",
        ("UninitializedRead", "PlanningNotice unwritten_read"),
        "queue.parallel_for(1, step, total.read())",
        CHECK,
    ),
    Misuse(
        "A `write` access that does not write everything",
        ("IncompleteWrite",),
        """
        def set_inner(part, out):
            out[1:7] = 1

        queue.host_task(set_inner, out.write(access.all()))
        """,
        CHECK,
    ),
    Misuse(
        "Elements between the boxes of a region",
        ("OutOfBoundsAccess",),
        """
        def set_all(part, out):
            out.array[...] = 1

        ends = Region([Box((0,), (1,)), Box((7,), (8,))])
        queue.host_task(set_all, out.write(access.fixed(ends)))
        """,
        CHECK,
    ),
    Misuse(
        "A loop variable that has gone on",
        ("UsageError",),
        """
        import threading

        gate = threading.Event()
        for i in range(2):
            queue.host_task(lambda part, u: print(gate.wait() and i), u.read(access.all()), name="show")
        gate.set()
        """,
        CHECK,
    ),
]

OF_THE_RUN = [
    Misuse(
        "A result of a dry run: a warning",
        ("CelerityWarning",),
        "print(queue.fence(u).result())",
        {"CELERITY_DRY_RUN_RANKS": "2"},
    ),
    Misuse("An unknown setting", ("ConfigurationError",), "", {"CELERITY_DEVICE": "2"}),
    Misuse("A setting that comes too late", ("ConfigurationError",), 'celerity.configure(devices="cpu:4")'),
    Misuse("A submit to a closed queue", ("ClosedQueue",), "queue.close()\nqueue.parallel_for(8, step)"),
    Misuse(
        "A buffer of a runtime that has ended",
        ("ClosedQueue",),
        """
        queue.close()
        queue = celerity.Queue()
        queue.fence(u)
        """,
    ),
    Misuse(
        "A child that was forked from the program",
        ("ForkedProcess",),
        """
        import os

        if os.fork() == 0:
            queue.fence(u)
        """,
    ),
    Misuse(
        "Processes that MPI does not connect",
        ("LaunchError",),
        "",
        {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
    ),
    Misuse(
        "No threads left",
        ("ResourceError",),
        "",
        hidden="""
        import threading

        def refuse_start(self):
            raise RuntimeError("can't start new thread")

        threading.Thread.start = refuse_start
        """,
    ),
    Misuse(
        "Ranks that make different calls",
        ("DivergedPrograms",),
        """
        if celerity.rank() == 0:
            queue.parallel_for(8, step, u.read(access.all()), name="print")
        queue.barrier()
        """,
        ranks=2,
    ),
    Misuse(
        "A rank that the others wait for",
        ("Stalled",),
        """
        import time

        if celerity.rank() == 1:
            time.sleep(100)
        queue.barrier()
        """,
        {"CELERITY_STALL_S": "20"},
        ranks=2,
    ),
    Misuse(
        "A rank that ends without the others",
        ("CommunicationError",),
        """
        import os, signal

        if celerity.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        queue.barrier()
        """,
        ranks=2,
    ),
]

#: By the heading of the page.
MISUSES = {
    "At the submit": AT_THE_SUBMIT,
    "At the submit: range mappers that do not fit": MISFITS,
    "In a task": IN_A_TASK,
    "With `CELERITY_CHECK=1`": WITH_CHECK,
    "The run as a whole": OF_THE_RUN,
}
