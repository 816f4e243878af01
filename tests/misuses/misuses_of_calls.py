# SPDX-License-Identifier: MIT
"""Mistakes that a call finds."""

from __future__ import annotations

from tests.misuses.misuse import CPU_2, Misuse

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
    Misuse(
        "A kernel that is called",
        ("ArgumentTypeError",),
        """
        @celerity.kernel
        def double(chunk, u):
            u[chunk.box] *= 2

        double(8, u)
        """,
    ),
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
        ("UsageError",),
        """
        def join(a, b):
            return np.hypot(a, b).astype(np.float64)

        celerity.reduction(total, join, identity=0)
        """,
    ),
    Misuse(
        "An identity that is none",
        ("UsageError",),
        "celerity.reduction(total, np.add, identity=1)",
    ),
    Misuse(
        "A function of one array in a reduction",
        ("UsageError",),
        "celerity.reduction(out, sum, identity=0)",
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
    Misuse(
        "A loop that stops on a float",
        ("UsageError",),
        """
        one = celerity.Buffer.from_array(np.array(0.5))
        for i in queue.until(lambda: queue.fence(one), every=10, at_most=40):
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
