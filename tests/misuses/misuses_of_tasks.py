# SPDX-License-Identifier: MIT
"""Mistakes that show when a task runs, and those that concern the whole run."""

from __future__ import annotations

from tests.misuses.misuse import CHECK, Misuse

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
        "Arithmetic with a box",
        ("ArgumentTypeError",),
        """
        def shift(chunk, out, u):
            out[chunk.box] = u[chunk.box + 1]

        queue.parallel_for(7, shift, out.read_write(access.one_to_one()), u.read(access.all()))
        """,
    ),
    Misuse(
        "A loop over a box",
        ("ArgumentTypeError",),
        """
        def clear(chunk, out):
            for i in chunk.box:
                out[i] = 0

        queue.parallel_for(8, clear, out.write(access.one_to_one()))
        """,
    ),
    Misuse(
        "An assignment to the array of a reduction",
        ("UsageError",),
        """
        def largest(chunk, most, u):
            most.array = u[chunk.box].max()

        queue.parallel_for(8, largest, celerity.reduction(total, "max"), u.read(access.one_to_one()))
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
        "A value out of the range of the elements",
        ("UsageError",),
        """
        small = celerity.Buffer(8, np.int8, name="small")

        def count(chunk, small):
            small[chunk.box] = np.int64(300)

        queue.parallel_for(8, count, small.write(access.one_to_one()))
        """,
    ),
    Misuse(
        "An array of the whole buffer for the elements of a chunk",
        ("UsageError",),
        """
        weights = np.linspace(0, 1, 8)

        def set_weights(chunk, out, weights):
            out[chunk.box] = weights

        queue.parallel_for(8, set_weights, out.write(access.one_to_one()), weights, hints=hints.oversubscribe(2))
        """,
    ),
    Misuse(
        "An index outside of the target of a reduction",
        ("OutOfBoundsAccess",),
        """
        def count(chunk, out, u):
            out.combine_at(u[chunk.box].astype(int) - 2, 1)

        queue.parallel_for(8, count, celerity.reduction(out, "sum"), u.read(access.one_to_one()))
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
        "Values of an array out of the range of the elements",
        ("UsageError",),
        """
        small = celerity.Buffer(8, np.int8, name="small")

        def count(chunk, small):
            small[chunk.box] = np.arange(8)[chunk.box.slices] * 50

        queue.parallel_for(8, count, small.write(access.one_to_one()))
        """,
        CHECK | {"CELERITY_DEVICES": "cpu:1"},
    ),
    Misuse(
        "A reduction whose identity changes values",
        ("UsageError",),
        """
        def low(chunk, total):
            total.combine(-5)

        queue.parallel_for(8, low, celerity.reduction(total, np.maximum, identity=0))
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
