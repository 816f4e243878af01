# SPDX-License-Identifier: MIT
"""Mistakes that a submit finds: nothing is enqueued then."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import (
    ArgumentTypeError,
    DimensionMismatch,
    InconsistentMapper,
    MapperError,
    NestedUse,
    OutOfBoundsAccess,
    OverlappingAccess,
    UsageError,
)
from tests.support.kernels import scale
from tests.support.scripts import run


def nothing(chunk: Any, *views: Any) -> None:
    pass


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise LookupError


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        (-8, UsageError, r"extents of an index space are 0 or more, but \(-8,\) has a negative one"),
        (range(8), ArgumentTypeError, r"write 8 for range\(0, 8\)"),
        (range(1, 4), ArgumentTypeError, r"write Box\(\(1,\), \(4,\)\) for range\(1, 4\)"),
        ((1, 1, 1, 1), DimensionMismatch, "at most 3 dimensions"),
        ("ab", ArgumentTypeError, "not 'ab'"),
        (2.5, ArgumentTypeError, r"not 2\.5"),
        (2**64, UsageError, r"fewer than 2\*\*63 items, but \(18446744073709551616,\) has more"),
        ((2**40, 2**40), UsageError, r"fewer than 2\*\*63 items"),
        (Box((-(2**63),), (2**63 - 1,)), UsageError, r"fewer than 2\*\*63 items"),
        (True, ArgumentTypeError, "an int, a tuple of ints, or a Box, not True"),
        ((4, True), ArgumentTypeError, r"not \(4, True\)"),
        (np.True_, ArgumentTypeError, "not np.True_"),
        (1.0, ArgumentTypeError, r"not 1\.0"),
    ],
)
def test_an_impossible_index_space_is_an_error(
    queue: celerity.Queue, space: Any, error: type[Exception], message: str
) -> None:
    for _ in range(2):
        with pytest.raises(error, match=f'kernel "named".*{message}') as caught:
            queue.parallel_for(space, lambda chunk: None, name="named")
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__, "of no interest to the user"


@pytest.mark.parametrize("name", ["\ud800", "step \udfff 1"])
def test_a_name_with_half_of_a_surrogate_pair_is_refused(queue: celerity.Queue, name: str) -> None:
    target = celerity.Buffer(8).write(access.one_to_one())
    fill = celerity.kernel(nothing)
    queue.parallel_for(8, fill, target)  # the next submits could repeat it
    by_function = celerity.kernel(nothing, name=name)
    submits: list[Callable[[], None]] = [
        lambda: queue.parallel_for(8, fill, target, name=name),
        lambda: queue.parallel_for(8, by_function, target),
        lambda: queue.host_task(nothing, name=name),
    ]
    for submit in submits:
        with pytest.raises(UsageError, match=r"The name of a task has half of a surrogate pair.*ud"):
            submit()
    with pytest.raises(UsageError, match=r"The name of a buffer has half of a surrogate pair.*ud"):
        celerity.Buffer(8, name=name)
    queue.parallel_for(8, fill, target, name="\u00e9\U0001f30d")
    celerity.Buffer(8, name="\u00e9\U0001f30d")


@pytest.mark.parametrize("equal", [True, np.True_, 1.0, (1.0,), (True,)])
def test_an_index_space_that_equals_an_earlier_one_is_checked_as_well(queue: celerity.Queue, equal: Any) -> None:
    def kernel(chunk: Any) -> None: ...

    for space in (1, (1,)):
        queue.parallel_for(space, kernel)
    with pytest.raises(ArgumentTypeError, match="an index space is an int"):
        queue.parallel_for(equal, kernel)


def test_arguments_of_tasks_have_no_names(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.zeros(4), name="u")
    submit: Any = queue.parallel_for
    expected = (
        r"got c=3\. The names that it takes are name, hints, constrain\. .*write parallel_for\(shape, kernel, c\)"
    )
    with pytest.raises(ArgumentTypeError, match=expected):
        submit(4, lambda chunk, c: None, c=3)
    with pytest.raises(ArgumentTypeError, match=r"got out=<write access to B\d+ \"u\" by all\(\)>\."):
        submit(4, lambda chunk, out: None, out=u.write(access.all()))
    with pytest.raises(ArgumentTypeError, match=r"got hint=split_2d\(\)\. Did you mean hints=\?"):
        submit(4, nothing, hint=celerity.hints.split_2d())
    host_task: Any = queue.host_task
    with pytest.raises(ArgumentTypeError, match=r"takes are on, name, constrain, unordered\. .* host_task\(fn, c, d\)"):
        host_task(nothing, c=3, d=4)
    assert queue.statistics().num_submissions == 0


@pytest.mark.parametrize(
    "mapper",
    [lambda: Box((0,), (4,)), lambda a, b, c: a.box, lambda *, chunk: chunk.box, lambda chunk, *, n: chunk.box],
)
def test_a_mapper_that_cannot_be_called_with_a_chunk_is_told_by_its_signature(
    queue: celerity.Queue, mapper: Any
) -> None:
    u = celerity.Buffer.from_array(np.zeros(4), name="u")
    expected = (
        r'kernel "k" .*read access to B\d+ "u" by .* write lambda chunk: \.\.\. .*signature \(.*Nothing was submitted'
    )
    for _ in range(2):
        with pytest.raises(MapperError, match=expected) as caught:
            queue.parallel_for(4, nothing, u.read(mapper), name="k")
        assert caught.value.__cause__ is None


def choose(result: Any, chunk: Any) -> Any:
    return result


def test_slices_have_no_truth_values_as_bounds(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.zeros(4), name="u")
    wrong: Any
    for wrong in (slice(False, 2), slice(0, True), slice(0, 2, True), slice(0, 2, [])):
        with pytest.raises(ArgumentTypeError, match="one slice per dimension"):
            queue.fence(u, wrong)
        with pytest.raises(MapperError, match="one slice per dimension"):
            queue.parallel_for(4, nothing, u.read(functools.partial(choose, wrong)))
        with pytest.raises(ArgumentTypeError, match=r"access\.fixed\(\) takes"):
            access.fixed(wrong)


def test_names_and_hints_that_are_none_are_named(queue: celerity.Queue) -> None:
    wrong: Any = 3
    with pytest.raises(ArgumentTypeError, match="The name of a task is a string, not 3"):
        queue.parallel_for(8, lambda chunk: None, name=wrong)
    with pytest.raises(ArgumentTypeError, match="The name of a task is a string, not 3"):
        queue.host_task(lambda part: None, name=wrong)
    uncalled = r"<function .*>\. Call the function: celerity\.hints\.split_2d\(\.\.\.\)\."
    for hint in ("split_2d", celerity.hints.split_2d, [celerity.hints.split_2d]):
        given: Any = hint
        with pytest.raises(ArgumentTypeError, match=rf"celerity\.hints\.split_2d\(\), not ('split_2d'\.|{uncalled})$"):
            queue.parallel_for(8, lambda chunk: None, hints=given)
    for nothing_known in (0, False, "", np.zeros(2)):
        given = nothing_known
        with pytest.raises(ArgumentTypeError, match=r"hints= takes hints such as celerity\.hints\.split_2d\(\), not"):
            queue.parallel_for(8, lambda chunk: None, hints=given)


def test_a_kernel_is_submitted_and_not_called(queue: celerity.Queue) -> None:
    out = celerity.Buffer(8, name="out")
    for mapper in (access.one_to_one(), lambda chunk: chunk.box):
        with pytest.raises(ArgumentTypeError, match=r"submit it: queue\.parallel_for\(shape, scale, \.\.\.\)"):
            celerity.kernel(scale)(8, out.write(mapper))


@pytest.mark.parametrize("kernel", [scale, print, celerity.CudaKernel("", "scale")])
def test_an_index_space_in_the_place_of_the_kernel_is_recognised(queue: celerity.Queue, kernel: Any) -> None:
    message = r"index space first .* write parallel_for\(shape, (scale|print), \.\.\.\), not .*, \(8, 8\)"
    swapped: Any = (8, 8)
    for args in [(), (3,)]:
        with pytest.raises(ArgumentTypeError, match=message) as caught:
            queue.parallel_for(kernel, swapped, *args)
        assert caught.value.__context__ is None


def test_arguments_that_no_kernel_can_use_are_errors(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(4, name="u")
    for foreign, message in [
        (buffer, r'bare buffer B\d+ "u".*u\.read\(mapper\)'),
        (queue, "a task cannot use"),
        (access.all(), r"Write buffer\.read\(mapper\)"),
        (celerity.hints.split_2d(), r"hints=split_2d\(\)"),
    ]:
        for _ in range(2):
            with pytest.raises(ArgumentTypeError, match=message) as caught:
                queue.parallel_for(4, lambda chunk, x: None, foreign)
            assert isinstance(caught.value, TypeError)


def test_a_kernel_must_take_its_arguments(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match=r'kernel "scale" is called with a chunk and 1 argument.*factor'):
        queue.parallel_for(4, scale, celerity.Buffer(4).write(access.one_to_one()))
    with pytest.raises(ArgumentTypeError, match="not 5"):
        queue.parallel_for(4, 5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match='host task "<lambda>" is called with a part and 1'):
        queue.host_task(lambda part: None, 3)

    async def coroutine(chunk: celerity.Chunk) -> None: ...

    with pytest.raises(ArgumentTypeError, match="would never run"):
        queue.parallel_for(4, coroutine)


def test_a_cuda_kernel_is_refused_with_the_form_that_works(queue: celerity.Queue) -> None:
    source = celerity.CudaKernel("__global__ void f() {}", "f")
    for kernel in (source, celerity.kernel(cuda=source, name="f")):
        with pytest.raises(UsageError, match=r"kernel\(cpu=f, cuda=f\)"):
            queue.parallel_for(4, kernel)


def test_overlapping_writes_name_task_buffer_chunks_and_box() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(8), name="u")
        with pytest.raises(OverlappingAccess) as caught:
            queue.parallel_for(8, lambda chunk, out: None, buffer.write(access.all()), name="clash")
        for part in ('kernel "clash"', '"u"', "all()", "[0:4]", "[4:8]", "Nothing was submitted"):
            assert part in str(caught.value)
        reading = buffer.read(access.neighborhood(1))
        with pytest.raises(OverlappingAccess, match=r"neighborhood\(1\)"):
            queue.parallel_for(8, lambda chunk, a, b: None, buffer.read_write(access.one_to_one()), reading)
        with pytest.raises(OverlappingAccess, match="the mapper"):
            queue.parallel_for(8, lambda chunk, out: None, buffer.write(lambda chunk: Box((0,), (1,))))
        np.testing.assert_array_equal(queue.fence(buffer).result(10), np.zeros(8))
    celerity.configure(devices=None)


def test_adding_up_without_a_reduction_is_an_error_that_names_reductions() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        total = celerity.Buffer.from_array(np.zeros(()), name="total")
        with pytest.raises(OverlappingAccess, match=r"its only element.*celerity\.reduction.*combine\(\)"):
            queue.parallel_for(8, lambda chunk, out: None, total.read_write(access.all()))
    celerity.configure(devices=None)


def test_a_mapper_whose_whole_differs_from_its_parts_is_an_error() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8, name="u")

        def more_for_the_whole(chunk: Any) -> Box:
            return Box((0,), (8,)) if chunk.box == chunk.global_box else Box(chunk.box.min, (chunk.box.min[0] + 1,))

        with pytest.raises(InconsistentMapper, match=r'kernel "partial".*"u".*more_for_the_whole'):
            queue.parallel_for(8, lambda chunk, out: None, buffer.write(more_for_the_whole), name="partial")
    celerity.configure(devices=None)


def test_a_mapper_of_the_wrong_dimensions_is_an_error(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((4, 4), name="u")
    with pytest.raises(DimensionMismatch, match=r'kernel "k".*one_to_one\(\).*2 dimensions'):
        queue.parallel_for(4, lambda chunk, x: None, buffer.write(access.one_to_one()), name="k")
    with pytest.raises(DimensionMismatch, match=r'kernel "k" .*, read access to B\d+ "u".*\[0:1\]'):
        queue.parallel_for(4, lambda chunk, x: None, buffer.read(lambda chunk: Box((0,), (1,))), name="k")


def test_a_slice_at_an_index_that_the_buffer_does_not_have_is_an_error(queue: celerity.Queue) -> None:
    history = celerity.Buffer((3, 4), name="history")

    @celerity.kernel
    def write_row(chunk: Any, row: Any, step: int) -> None:
        row[step, chunk.box.min[0] : chunk.box.max[0]] = step

    def write(step: int) -> None:
        queue.parallel_for(4, write_row, history.write(access.slice(0, at=step)), step)

    for step in range(3):
        write(step)
    message = r'"write_row", write access to B\d+ "history" by slice\(0, at=3\).*in dimension 0 they go from 0 to 2'
    with pytest.raises(UsageError, match=message):  # a submit that native code would repeat
        write(3)
    assert queue.fence(history).result().tolist() == [[0] * 4, [1] * 4, [2] * 4]
    with pytest.raises(UsageError, match=r"read access .* by slice\(1, at=4\).*from 0 to 3\. Nothing was submitted"):
        queue.parallel_for(3, write_row, history.read(access.slice(1, at=4)), 0)


OVERSIZE: list[tuple[Any, tuple[int, ...], Any, str]] = [
    (12, (10,), access.one_to_one(), r"one_to_one\(\) gives .*index space is \[0:12\], .*shape \(10,\)"),
    (Box((-1,), (9,)), (10,), access.one_to_one(), r"index space is \[-1:9\]"),
    (Box((20,), (30,)), (10,), access.one_to_one(), r"index space is \[20:30\]"),
    ((4, 7), (4, 6), access.one_to_one(), r"index space is \[0:4, 0:7\], .*shape \(4, 6\)"),
    ((2, 2, 3), (2, 2, 2), access.one_to_one(), r"\[0:2, 0:2, 0:3\]"),
    ((6, 4), (4, 6), access.one_to_one(), "inside of the buffer, such as its shape"),
    (13, (10,), access.neighborhood(1), r"neighborhood\(1\) gives some items no element"),
    ((4, 9), (4, 6), access.neighborhood(5, 2, shape="axes"), r"\[0:4, 0:9\]"),
    (5, (4, 6), access.slice(1), r"slice\(1\) gives .*slice\(dim\) covers all of dimension dim.*: slice\(0\) fits"),
    (4, (4, 3), access.slice(0), r"items lie along the others: slice\(1\) fits"),
    (9, (4, 6), access.slice(0), r"whose results are clamped to the buffer\.(?! slice)"),
    (5, (4, 6), access.slice(1, at=2), r"slice\(1, at=2\) gives"),
    ((5, 9), (4, 6), access.slice(1), r"slice\(1\) gives"),
    ((4, 6), (4, 6), access.permute(1, 0), r"permute\(1, 0\) gives"),
]


@pytest.mark.parametrize("mode", ["read", "write", "read_write"])
@pytest.mark.parametrize("case", OVERSIZE)
def test_an_index_space_beyond_the_buffer_that_it_is_mapped_onto_is_an_error(
    queue: celerity.Queue, case: tuple[Any, tuple[int, ...], Any, str], mode: str
) -> None:
    space, shape, mapper, message = case
    buffer = celerity.Buffer.from_array(np.zeros(shape), name="u")
    pattern = rf'"k".*, {mode} access to B\d+ "u" by .*: .*{message}.*Nothing was submitted'
    before = queue.statistics().num_submissions
    with pytest.raises(OutOfBoundsAccess, match=pattern):
        queue.parallel_for(space, lambda chunk, view: None, getattr(buffer, mode)(mapper), name="k")
    with pytest.raises(OutOfBoundsAccess, match="host task"):
        queue.host_task(lambda part, view: None, getattr(buffer, mode)(mapper), on=space)
    assert queue.statistics().num_submissions == before


def test_an_index_space_may_reach_as_far_as_a_halo_and_ignore_what_a_mapper_ignores(queue: celerity.Queue) -> None:
    cells = celerity.Buffer.from_array(np.arange(10.0), name="cells")
    table = celerity.Buffer.from_array(np.zeros((4, 6)), name="table")
    faces = celerity.Buffer(11, np.float64, name="faces")

    def differences(chunk: Any, out: Any, near: Any) -> None:
        for face in range(chunk.box.min[0], chunk.box.max[0]):
            below, above = max(face - 1, 0), min(face, 9)
            out[face] = near[above] - near[below]

    queue.parallel_for(11, differences, faces.write(access.one_to_one()), cells.read(access.neighborhood(1)))
    assert queue.fence(faces).result().tolist() == [0.0] + [1.0] * 9 + [0.0]
    spaces: list[tuple[Any, Any]] = [
        ((4, 9), access.slice(1)),
        ((6, 4), access.permute(1, 0)),
        ((6, 4, 100), access.permute(1, 0)),
        (100, access.even_split()),
        (100, access.all()),
        (Box((2, 2), (4, 6)), access.one_to_one()),
        (100, lambda chunk: Box((chunk.box.min[0], 0), (chunk.box.max[0], 6))),
    ]
    for space, mapper in spaces:
        queue.parallel_for(space, lambda chunk, view: None, table.read(mapper))


def test_a_repeated_submit_checks_the_index_space_again(queue: celerity.Queue) -> None:
    u, shorter = (celerity.Buffer.from_array(np.zeros(extent), name="u") for extent in (12, 10))
    for _ in range(3):
        queue.parallel_for(12, scale, u.read_write(access.one_to_one()), 2.0)
    with pytest.raises(OutOfBoundsAccess, match=r"index space is \[0:12\]"):
        queue.parallel_for(12, scale, shorter.read_write(access.one_to_one()), 2.0)
    with pytest.raises(OutOfBoundsAccess, match=r"index space is \[0:13\]"):
        queue.parallel_for(13, scale, u.read_write(access.one_to_one()), 2.0)
    queue.parallel_for(10, scale, shorter.read_write(access.one_to_one()), 2.0)


def test_an_exception_in_a_mapper_leaves_nothing_behind(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.zeros(4))

    def mapper(chunk: Any) -> Any:
        raise ZeroDivisionError

    before = queue.statistics().num_submissions
    with pytest.raises(MapperError) as caught:
        queue.parallel_for(4, lambda chunk, x: None, buffer.read(mapper))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert queue.statistics().num_submissions == before
    queue.parallel_for(4, scale, buffer.read_write(access.one_to_one()), 2.0)
    assert (queue.fence(buffer).result(10) == 0).all()


def test_an_exception_in_a_mapper_that_cannot_be_printed_is_told_with_its_task(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.zeros(4), name="u")

    def mapper(chunk: Any) -> Any:
        raise UnprintableError

    with pytest.raises(MapperError, match=r'kernel "nothing".*"u".*raised UnprintableError, whose message cannot be'):
        queue.parallel_for(4, nothing, buffer.read(mapper))


FAILS_IN_A_FUNCTION = """
class UnprintableError(Exception):
    def __str__(self):
        raise LookupError
class Step:
    __name__ = 5
    def __call__(self, chunk):
        raise {raised}
def fail(box):
    raise {raised}
queue = celerity.Queue()
buffer = celerity.Buffer.from_function(4, np.float64, fail, name="u")
try:
    {call}
except celerity.TaskFailed as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("raised", "shown"), [("SystemExit(3)", "SystemExit: 3"), ("UnprintableError", "UnprintableError, whose message")]
)
def test_whatever_the_function_of_a_buffer_raises_is_told_with_the_buffer(
    raised: str, shown: str, tmp_path: Path
) -> None:
    outcome = run(tmp_path, FAILS_IN_A_FUNCTION.format(raised=raised, call="queue.fence(buffer).result()"))
    assert re.search(rf'The function of B\d+ "u" \(made at .*raised .*{shown}.* for the box \[0:4\]', outcome.stdout)


def test_a_function_whose_name_is_no_string_goes_by_its_type(tmp_path: Path) -> None:
    call = "queue.parallel_for(4, Step()); queue.wait()"
    outcome = run(tmp_path, FAILS_IN_A_FUNCTION.format(raised="ValueError", call=call))
    assert "task 'Step' failed" in outcome.stdout


def test_a_mapper_cannot_submit(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(4)

    def mapper(chunk: Any) -> Any:
        queue.wait()

    with pytest.raises(MapperError) as caught:
        queue.parallel_for(4, lambda chunk, x: None, buffer.read(mapper))
    assert isinstance(caught.value.__cause__, NestedUse)
    queue.wait()


def test_a_fence_checks_buffer_box_and_place(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((4, 4), name="u")
    with pytest.raises(ArgumentTypeError, match="takes a Buffer or a HostObject, not 3"):
        queue.fence(3)  # type: ignore[call-overload]
    with pytest.raises(OutOfBoundsAccess, match=r'"u" asks for \[0:5, 0:4\], outside of the buffer \[0:4, 0:4\]'):
        queue.fence(buffer, Box((0, 0), (5, 4)))
    with pytest.raises(DimensionMismatch, match=r"asks for \[0:4\]"):
        queue.fence(buffer, Box((0,), (4,)))
    with pytest.raises(UsageError, match="'all' or 'master', not 'some'"):
        queue.fence(buffer, on="some")  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [None, 1, "yes", []])
def test_unordered_is_a_truth_value(queue: celerity.Queue, value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="unordered= takes True or False, not"):
        queue.host_task(nothing, unordered=value)


@pytest.mark.parametrize("value", [[], {}, np.zeros(2), None])
def test_what_cannot_be_compared_is_no_choice_of_a_word(queue: celerity.Queue, value: Any) -> None:
    buffer = celerity.Buffer.from_array(np.zeros(()))
    with pytest.raises(UsageError, match="on= takes 'all' or 'master', not"):
        queue.fence(buffer, on=value)
    with pytest.raises(UsageError, match="needs one of 'sum'"):
        celerity.reduction(buffer, value)


def test_a_constraint_needs_one_positive_int_per_dimension(queue: celerity.Queue) -> None:
    for constrain, message in [
        ((2,), "one int per dimension"),
        ((2, 0), "positive ints"),
        ("ab", "one int per dim"),
        ((True, 1), r"not \(True, 1\)"),
    ]:
        with pytest.raises(UsageError, match=message):
            queue.parallel_for((4, 4), lambda chunk: None, constrain=constrain)  # type: ignore[arg-type]


def test_a_buffer_is_either_reduced_into_or_accessed(queue: celerity.Queue) -> None:
    total = celerity.Buffer.from_array(np.array(800), name="total")
    ran: list[int] = []
    for given in (total.read(access.all()), total.read_write(), total.write()):
        with pytest.raises(OverlappingAccess, match=r'"total" is the target of a reduction and is accessed through'):
            queue.parallel_for(4, lambda chunk, *_: ran.append(1), given, celerity.reduction(total, "sum"), name="k")
    with pytest.raises(OverlappingAccess, match=r'kernel "k".*"total" .* that of another reduction.*Nothing was'):
        queue.parallel_for(
            4, lambda *_: ran.append(1), celerity.reduction(total, "sum"), celerity.reduction(total, "max"), name="k"
        )
    queue.wait()
    assert not ran
    assert queue.fence(total).result(10) == 800


def test_a_host_task_takes_no_reductions_kernels_or_other_places(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match="only kernels can reduce"):
        queue.host_task(lambda part, x: None, celerity.reduction(celerity.Buffer(()), "sum"))
    with pytest.raises(UsageError, match="'once', 'master', or an index space"):
        queue.host_task(lambda part: None, on="everywhere")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="A host task is a Python function, not"):
        queue.host_task(celerity.CudaKernel("", "f"))  # type: ignore[arg-type]
