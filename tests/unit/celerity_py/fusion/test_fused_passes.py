# SPDX-License-Identifier: MIT
"""How many passes over memory, how much scratch memory and how many loads a fused function takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from celerity_py import Box
from celerity_py.fusion.kernels import FusedKernel
from celerity_py.fusion.mistakes import NotTakenError
from tests.support.fused_kernels import Access, make_kernel

BOX = Box((2, 2), (6, 7))


def _make(function: Callable[..., Any], *arguments: Any, box: Box = BOX, **options: Any) -> FusedKernel:
    fields = [Access(np.zeros((9, 10), "f4")) for _ in range(function.__code__.co_argcount - 1 - len(arguments))]
    return make_kernel(function, box, *fields, *arguments, **options)


def _items(kernel: FusedKernel) -> str:
    """The text without that of interiors, which says the same for most of the items."""
    return re.sub(r"struct \w+_inner .*?\n};\n", "", kernel.text, flags=re.DOTALL)


def _loads(kernel: FusedKernel) -> int:
    return len(re.findall(r"= (?:\*element<|w\d+\.at\()", _items(kernel)))


def _stores(kernel: FusedKernel) -> int:
    return len(re.findall(r"^[^=]*(?:\*element<.*|s\d+\.items\S*) = v", _items(kernel), re.MULTILINE))


def test_statements_at_the_same_items_are_one_pass() -> None:
    def function(chunk: Any, u: Any, v: Any, w: Any) -> None:
        b = chunk.box
        u[b] = v[b] + v[b.shift(0, 1)]
        w[b] = u[b] * v[b]
        u[b] += w[b]

    kernel = _make(function)
    assert (len(kernel.passes), kernel.scratch, _loads(kernel)) == (1, (), 2)
    assert len(kernel.lines[0]) == 3


def test_elements_that_an_item_has_stored_are_not_loaded_again() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] = v[chunk.box] * 2
        v[chunk.box] = u[chunk.box] + 1

    assert _loads(_make(function)) == 1


def test_an_exchange_needs_no_scratch_memory() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        t = u[chunk.box].copy()
        u[chunk.box] = v[chunk.box]
        v[chunk.box] = t

    kernel = _make(function)
    assert (len(kernel.passes), kernel.scratch) == (1, ())


def test_reading_what_other_items_store_takes_another_pass() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] = v[chunk.box]
        v[chunk.box] = u[chunk.box.shift(0, 1)]

    kernel = _make(function)
    assert (len(kernel.passes), kernel.scratch) == (2, ())


def test_storing_what_other_items_of_the_statement_load_takes_scratch_memory() -> None:
    def function(chunk: Any, u: Any) -> None:
        u[chunk.box] = u[chunk.box.shift(0, 1)] * 2

    kernel = _make(function)
    assert len(kernel.passes) == 2
    assert [(one.shape, one.origin, one.dtype) for one in kernel.scratch] == [((4, 5), (2, 2), np.dtype("f4"))]


def test_distant_boxes_of_one_buffer_do_not_disturb_each_other() -> None:
    def function(chunk: Any, u: Any) -> None:
        u[2:4, 2:7] = u[4:6, 2:7]

    kernel = _make(function)
    assert (len(kernel.passes), kernel.scratch) == (1, ())


def test_elements_in_turns_do_not_disturb_each_other() -> None:
    def function(chunk: Any, u: Any) -> None:
        u[2:8:2] = u[1:7:2] + u[3:9:2]

    kernel = _make(function)
    assert (len(kernel.passes), kernel.scratch) == (1, ())


def test_a_value_from_elements_that_were_overwritten_is_kept() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        old = u[chunk.box.shift(0, 1)] * 2
        u[chunk.box] = 0
        v[chunk.box] = old

    kernel = _make(function)
    assert len(kernel.passes) == 2
    assert len(kernel.scratch) == 1


def test_two_accesses_of_one_buffer_are_one_memory() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] = v[chunk.box.shift(0, 1)]

    field = np.zeros((9, 10), "f4")
    assert len(make_kernel(function, BOX, Access(field), Access(field)).passes) == 2
    assert len(make_kernel(function, BOX, Access(field), Access(field.copy())).passes) == 1


def test_statements_of_the_same_elements_store_once() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] = 4 * v[chunk.box]
        for shift in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            inside = chunk.box & chunk.box.shift(*shift)
            u[inside] -= v[inside.shift(-shift[0], -shift[1])]

    kernel = _make(function)
    assert (len(kernel.passes), _loads(kernel), _stores(kernel), _items(kernel).count("if (v")) == (1, 5, 1, 4)


def test_a_part_before_the_whole_is_no_store_of_its_own() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box.shrink(1, 1)] = v[chunk.box.shrink(1, 1)]
        u[chunk.box] *= 2

    kernel = _make(function)
    assert (len(kernel.passes), _loads(kernel), _stores(kernel)) == (1, 2, 1)


def test_statements_with_smaller_boxes_are_masked_in_the_same_pass() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] = v[chunk.box]
        v[chunk.box.shrink(1, 1)] *= 2

    kernel = _make(function)
    assert (len(kernel.passes), _loads(kernel), _items(kernel).count("if (v")) == (1, 1, 1)


def test_an_edge_that_is_repeated_takes_one_load_per_point() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        near = v.padded(chunk.box, 2, mode="edge")
        rows, columns = chunk.box.shape
        u[chunk.box] = near[:rows, :columns] + near[4:, 4:] + near[2:-2, 2:-2]

    kernel = make_kernel(
        function, Box((0, 0), (9, 10)), Access(np.zeros((9, 10), "f4")), Access(np.ones((9, 10), "f4"))
    )
    assert (_loads(kernel), _items(kernel).count("limited(")) == (3, 6)


def test_statements_far_from_each_other_are_passes_of_their_own() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[2:4, 2:7] = 0
        v[7:9, 2:7] = 1

    assert len(_make(function).passes) == 2


@pytest.mark.parametrize("shape", [(9, 10, 9), (9, 9, 10)])
def test_components_that_are_assigned_one_by_one_are_one_pass(shape: tuple[int, ...]) -> None:
    def components(chunk: Any, f: Any, g: Any, total: Any) -> None:
        values = [g[chunk.box][..., k] * 2 for k in range(9)]
        for k, value in enumerate(values):
            f[chunk.box][..., k] = value
        total[chunk.box] = sum(values)

    def layers(chunk: Any, f: Any, g: Any, total: Any) -> None:
        here = chunk.box.slices
        values = [g[k, *here] * 2 for k in range(9)]
        for k, value in enumerate(values):
            f[k, *here] = value
        total[chunk.box] = sum(values)

    function, element_ndim = (components, 1) if shape[-1] == 9 else (layers, 0)
    f, g = (Access(np.zeros(shape, "f4"), element_ndim=element_ndim) for _ in range(2))
    total = Access(np.zeros((9, 10), "f4"))
    for arguments in ((f, g, total), (f, f, total)):
        kernel = make_kernel(function, BOX, *arguments)
        assert (len(kernel.passes), kernel.scratch, _loads(kernel), _stores(kernel)) == (1, (), 9, 10)
        assert kernel.passes[0].dims == 2
        assert (kernel.passes[0].wide_bounds is not None) == (not element_ndim)


def test_components_and_then_whole_elements_are_one_pass() -> None:
    def function(chunk: Any, p: Any) -> None:
        for k in (2, 0):
            p[chunk.box][..., k] = k
        p[chunk.box] *= 2

    kernel = make_kernel(function, BOX, Access(np.zeros((9, 10, 3), "f4"), element_ndim=1))
    assert (len(kernel.passes), kernel.text.count("CELERITY_SERIAL(2")) == (1, 1)


def test_a_component_that_neighbours_load_is_stored_in_a_pass_of_its_own() -> None:
    def function(chunk: Any, p: Any, shift: Any) -> None:
        p[chunk.box][..., 0] = p[chunk.box][..., 1]
        p[chunk.box][..., 1] = p[chunk.box.shift(0, int(shift))][..., 0]

    p = Access(np.zeros((9, 10, 3), "f4"), element_ndim=1)
    assert [len(make_kernel(function, BOX, p, shift).passes) for shift in (0, 1)] == [1, 2]


@pytest.mark.parametrize("is_first", [True, False])
def test_rows_are_masked_in_the_pass_of_the_whole(is_first: bool) -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        for _ in range(is_first):
            v[2, 2:7] = 1
        u[chunk.box] = 2
        v[5, 2:7] = 3

    kernel = _make(function)
    assert (len(kernel.passes), _items(kernel).count("if (v")) == (1, 1 + is_first)


def test_a_row_and_a_column_that_cross_are_stored_one_after_the_other() -> None:
    def function(chunk: Any, u: Any, row: Any) -> None:
        u[int(row), 2:7] = 1
        u[2:7, 4] = 2

    assert [len(_make(function, row).passes) for row in (3, 8)] == [2, 1]


def test_an_element_that_was_overwritten_is_kept() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        old = u[3, 3] * 2
        u[chunk.box] = 0
        v[4, 4] = old

    kernel = _make(function)
    assert (len(kernel.passes), [one.shape for one in kernel.scratch]) == (2, [(1,)])


def test_a_chain_of_a_thousand_operations_is_no_recursion() -> None:
    def function(chunk: Any, u: Any) -> None:
        t = u[chunk.box]
        for _ in range(990):
            t = t + 1
        u[chunk.box] = t

    assert _make(function).text.count("op_add(") == 990


def test_equal_expressions_are_computed_once() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] = (v[chunk.box] + 1) * (v[chunk.box] + 1) - (v[chunk.box] + 1)

    kernel = _make(function)
    assert (_loads(kernel), kernel.text.count("op_add("), _stores(kernel)) == (1, 1, 1)


def test_what_is_overwritten_unread_is_not_stored() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] += v[chunk.box]
        u[chunk.box] *= 2
        v[chunk.box.shrink(1, 1)] = 1
        v[chunk.box] = 3

    assert _stores(_make(function)) == 2


def test_what_is_read_before_it_is_overwritten_needs_no_store() -> None:
    def function(chunk: Any, u: Any, v: Any, w: Any) -> None:
        u[chunk.box.shrink(1, 1)] = 5
        v[chunk.box] = u[chunk.box]
        u[chunk.box] = w[chunk.box]

    assert _stores(_make(function)) == 2


def test_chunks_of_one_structure_share_a_text() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        inner = chunk.box & u.shape_box.shrink(1, 1)
        u[inner] = v[inner.shift(1, 0)] - v[inner.shift(0, -1)]

    first, second = _make(function, box=Box((0, 0), (4, 10))), _make(function, box=Box((4, 0), (9, 10)))
    assert first.text == second.text
    assert (first.numbers, second.numbers) == ((1, 4, 1, 9, 1, 1, 1, 1, 9), (4, 8, 1, 9, 1, 1, 1, 1, 9))


@pytest.mark.parametrize("fixes", [True, False])
def test_distances_of_stencils_may_be_numbers_of_the_launch(fixes: bool) -> None:
    def function(chunk: Any, u: Any, v: Any, distance: Any) -> None:
        u[chunk.box] = v[chunk.box.shift(0, int(distance))]

    one, two = (_make(function, distance, fixes_distances=fixes) for distance in (1, 2))
    assert (one.text == two.text) == (not fixes)
    assert one.needed == two.needed == {2}


def test_a_condition_on_the_chunk_makes_another_structure() -> None:
    def function(chunk: Any, u: Any) -> None:
        if chunk.box.min[0] == 0:
            u[chunk.box] = 1

    assert len(_make(function, box=Box((0, 0), (2, 2))).passes) == 1
    assert len(_make(function, box=Box((2, 0), (4, 2))).passes) == 0


def test_many_partial_assignments_take_as_many_instructions() -> None:
    def function(chunk: Any, u: Any) -> None:
        t = u[chunk.box] * 1
        for _ in range(30):
            t[1:] += 1
        u[chunk.box] = t

    text = _items(_make(function))
    assert text.count("op_add(") == 30
    assert " || " not in text
    assert len(text.splitlines()) < 100


def test_what_would_be_computed_anew_too_often_is_refused() -> None:
    def function(chunk: Any, u: Any) -> None:
        t = u[0:60] * 1
        for _ in range(29):
            t = t[1:-1, 1:-1] + t[2:, 1:-1] + t[:-2, 1:-1] + t[1:-1, 2:] + t[1:-1, :-2]
        u[0:2, 0:2] = t

    with pytest.raises(NotTakenError, match="store them in a buffer"):
        make_kernel(function, BOX, Access(np.zeros((60, 60), "f4")))


def test_most_items_of_a_padded_array_need_no_conditions() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        padded = v.padded(chunk.box, 1, mode="edge")
        u[chunk.box] = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] - padded[1:-1, :-2]

    fields = [Access(np.zeros((40, 90), "f4")) for _ in range(2)]
    kernel = make_kernel(function, Box((0, 0), (40, 90)), *fields)
    (inner,) = re.findall(r"struct \w+_inner .*?\n};\n", kernel.text, flags=re.DOTALL)
    assert "limited(" in _items(kernel)
    assert "limited(" not in inner
    assert inner.count("w0.at(") == 4
    (one,) = kernel.passes
    assert one.wide_bounds is not None
    assert kernel.numbers[one.wide_bounds + 3 : one.wide_bounds + 5] == (1, 89)


@pytest.mark.parametrize(("row", "is_folded"), [(0, True), (3, True), (20, False)])
def test_a_row_in_the_middle_does_not_halve_the_interior(row: int, is_folded: bool) -> None:
    def function(chunk: Any, u: Any) -> None:
        u[chunk.box] = 2
        u[row : row + 1, :] = 3

    kernel = make_kernel(function, Box((0, 0), (40, 90)), Access(np.zeros((40, 90), "f4")))
    assert ("_inner" in kernel.text) == is_folded
