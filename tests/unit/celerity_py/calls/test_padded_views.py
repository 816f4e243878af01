# SPDX-License-Identifier: MIT
"""`View.padded`: arrays with a halo that leaves the buffer."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py._native import Region
from celerity_py.calls.views import View, ViewPart
from celerity_py.errors import DimensionMismatch, OutOfBoundsAccess, UnsupportedIndex, UsageError
from celerity_py.vocabulary.static_types import PaddingMode
from tests.unit.celerity_py.calls.test_views import contents, view_of

MODES: tuple[PaddingMode, ...] = ("constant", "edge", "wrap")
#: The argument `value`, where a mode takes one.
VALUES: dict[PaddingMode, Any] = {"constant": 7}


def padded_by_numpy(array: np.ndarray[Any, Any], box: Box, halo: tuple[int, ...], mode: PaddingMode) -> Any:
    """The whole buffer with a halo, without the elements far from the box."""
    options: Any = {"constant_values": 7} if mode == "constant" else {}
    whole = np.pad(array, [(width, width) for width in halo], mode=mode, **options)
    bounds = zip(box.min, box.max, halo, strict=True)
    return whole[tuple(slice(low, high + 2 * width) for low, high, width in bounds)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "box", "halo"),
    [
        ((10, 6), Box((0, 0), (10, 6)), (1, 2)),
        ((10, 6), Box((0, 4), (3, 6)), (2, 1)),
        ((10, 6), Box((4, 2), (5, 3)), (1, 0)),
        ((3, 2), Box((1, 0), (3, 2)), (8, 5)),  # wider than the buffer
        ((1,), Box((0,), (1,)), (4,)),
        ((3, 4, 5), Box((2, 0, 1), (3, 4, 5)), (1, 2, 3)),
    ],
)
def test_a_padded_array_is_that_of_numpy(
    shape: tuple[int, ...], box: Box, halo: tuple[int, ...], mode: PaddingMode
) -> None:
    whole = Box((0,) * len(shape), shape)
    result = view_of(shape, whole).padded(box, halo, mode, VALUES.get(mode))
    np.testing.assert_array_equal(result, padded_by_numpy(contents(shape), box, halo, mode), strict=True)


@pytest.mark.parametrize("mode", MODES)
def test_a_0d_buffer_has_no_halo(mode: PaddingMode) -> None:
    result = view_of((), Box((), ())).padded(Box((), ()), 1, mode, VALUES.get(mode))
    np.testing.assert_array_equal(result, contents(()), strict=True)


def test_an_integer_is_the_halo_of_all_dimensions() -> None:
    view = view_of((10, 6), Box((4, 0), (8, 6)), allocated=Box((2, 0), (10, 6)))
    result = view.padded(Box((5, 0), (7, 6)), np.int32(1))
    np.testing.assert_array_equal(result, np.pad(contents((10, 6))[4:8], [(0, 0), (1, 1)]))


@pytest.mark.parametrize(("mode", "expected"), [("constant", [0, 0, 0, 0]), ("edge", [4] * 4), ("wrap", [2, 3, 4, 0])])
def test_a_box_may_lie_beyond_the_buffer(mode: PaddingMode, expected: list[int]) -> None:
    view = view_of((5,), Box((0,), (5,)))
    np.testing.assert_array_equal(view.padded(Box((8,), (10,)), 1, mode), expected)


def test_a_padded_array_is_new_and_writable() -> None:
    view = view_of((10, 6), Box((4, 0), (8, 6)), writable=False)
    result = view.padded(view.box, 0)
    result[...] = -1
    np.testing.assert_array_equal(view.array, contents((10, 6))[4:8])


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_box_gets_no_halo(mode: PaddingMode) -> None:
    view = view_of((10, 6), Box((4, 0), (8, 6)))
    assert view.padded(view.box & Box((8, 0), (10, 6)), 2, mode).shape == (0, 0)


@pytest.mark.parametrize(
    ("mode", "taken", "remedy"),
    [
        ("constant", "[3:8, 0:6]", 'access.neighborhood() of these widths, without shape="axes"'),
        ("edge", "[3:8, 0:6]", "access.neighborhood()"),
        ("wrap", "[3:8, 5:6]", "access.neighborhood(..., wrap=True)"),
    ],
)
def test_an_element_that_the_access_does_not_declare_is_refused(mode: PaddingMode, taken: str, remedy: str) -> None:
    view = view_of((10, 6), Box((4, 0), (8, 6)))
    with pytest.raises(OutOfBoundsAccess) as caught:
        view.padded(Box((4, 0), (7, 6)), 1, mode)
    assert str(caught.value).startswith(
        f'kernel "step" (submitted at app.py:12) pads B3 "u" at [4:7, 0:6] with halo=1 and mode={mode!r}. '
        f"The array takes {taken}, outside of the declared region [4:8, 0:6]."
    )
    assert remedy in str(caught.value)


def test_the_corners_of_a_halo_must_be_declared() -> None:
    plus = Region([Box((2, 1), (3, 4)), Box((1, 2), (4, 3))])
    view = view_of((5, 5), Box((1, 1), (4, 4)), declared=plus)
    with pytest.raises(OutOfBoundsAccess, match='without shape="axes"'):
        view.padded(Box((2, 2), (3, 3)), 1)
    np.testing.assert_array_equal(view.padded(Box((2, 2), (3, 3)), (0, 1)), contents((5, 5))[2:3, 1:4])


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ((slice(4, 6), 1), UnsupportedIndex, "padded() takes the Box around which the halo lies"),
        ((Box((4,), (6,)), 1), DimensionMismatch, "has 1 dimension(s), but the buffer"),
        ((Box((4, 0), (6, 6)), -1), UsageError, "with halo=-1. The halo is an integer of at least 0"),
        ((Box((4, 0), (6, 6)), 0.5), UsageError, "with halo=0.5."),
        ((Box((4, 0), (6, 6)), True), UsageError, "with halo=True."),
        ((Box((4, 0), (6, 6)), (1,)), UsageError, "or one per dimension of [4:6, 0:6]"),
        ((Box((4, 0), (6, 6)), 0, "reflect"), UsageError, 'mode=\'reflect\'. The modes are "constant", "edge"'),
        ((Box((4, 0), (6, 6)), 0, ["wrap"]), UsageError, "mode=['wrap']."),
        ((Box((4, 0), (6, 6)), 0, "constant", 0.5), UsageError, "assigns 0.5 of type float, whose elements are int64"),
        ((Box((4, 0), (6, 6)), 0, "constant", [1, 2]), UsageError, "Pass a single value."),
        (
            (Box((4, 0), (6, 6)), 0, "edge", 0),
            UsageError,
            "mode='edge' and value=0. Only mode=\"constant\" takes a value",
        ),
    ],
)
def test_a_mistake_names_task_buffer_box_and_value(arguments: Any, kind: type[Exception], text: str) -> None:
    view: View = view_of((10, 6), Box((4, 0), (8, 6)))
    with pytest.raises(kind) as caught:
        view.padded(*arguments)
    assert 'kernel "step" (submitted at app.py:12)' in str(caught.value)
    assert 'B3 "u"' in str(caught.value)
    assert text in str(caught.value)


def periodic_view(writable: bool = True) -> View:
    """Of a 10 x 6 buffer, rows 0 to 4 and 8 to 10, in allocations of rows 0 to 5 and 8 to 10."""
    declared = Region([Box((0, 0), (4, 6)), Box((8, 0), (10, 6))])
    view = view_of((10, 6), Box((0, 0), (10, 6)), Box((0, 0), (5, 6)), declared, writable)
    far = contents((10, 6))[8:]
    far.flags.writeable = writable
    return View(
        view._base,
        Box((0, 0), (5, 6)),
        view.box,
        declared,
        writable,
        view._buffer,
        view._owner,
        (ViewPart(far, Box((8, 0), (10, 6)), "u"),),
    )


def test_a_periodic_view_finds_the_part_of_each_index() -> None:
    view, whole = periodic_view(), contents((10, 6))
    indices: list[Any] = [
        Box((8, 1), (10, 4)),
        Box((1, 1), (3, 4)),
        (slice(8, 10), slice(2, 6, 3)),
        (9, slice(None)),
        (8, 5),
        (3, ...),
        (slice(0, 4, 2), 1),
    ]
    for index in indices:
        where = index.slices if isinstance(index, Box) else index
        np.testing.assert_array_equal(view[index], whole[where], strict=True)
    view[9, 2:4] = [-1, -2]
    np.testing.assert_array_equal(view[9, :], [54, 55, -1, -2, 58, 59])
    view = periodic_view(writable=False)
    padded = view.padded(Box((0, 0), (2, 6)), (2, 1), mode="wrap")
    np.testing.assert_array_equal(padded, np.pad(whole, [(2, 2), (1, 1)], mode="wrap")[:6])


def test_elements_of_two_parts_are_no_array() -> None:
    view = periodic_view()
    with pytest.raises(UnsupportedIndex, match=r"at opposite sides .* in separate memory. Use view.padded\("):
        _ = view.array
    with pytest.raises(OutOfBoundsAccess, match="between the boxes of that region"):
        view[...]
    with pytest.raises(UnsupportedIndex, match="These elements lie at opposite sides"):
        view[0:9:8, :]
    with pytest.raises(
        OutOfBoundsAccess, match=r'not continue at the opposite side: take view\.padded\(.*mode="wrap"\)'
    ):
        view[Box((8, 0), (11, 6))]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("hint", [celerity.hints.split_1d(), celerity.hints.split_2d()], ids=repr)
def test_each_device_allocates_its_share_of_a_periodic_buffer_and_the_halo(hint: Any, check: bool) -> None:
    shape, steps = (320, 240), 4
    values = np.random.default_rng(6).integers(0, 100, shape)

    def shift(chunk: celerity.Chunk, after: celerity.View, before: celerity.View) -> None:
        near = before.padded(chunk.box, 1, mode="wrap")
        after[chunk.box] = near[2:, 1:-1] + near[1:-1, :-2] - near[:-2, :-2]

    celerity.configure(devices="cpu:4", check=check)
    try:
        with celerity.Queue() as queue:
            u, v = celerity.Buffer.from_array(values), celerity.Buffer(shape, np.int64)
            mapper = access.neighborhood(1, 1, wrap=True)
            for _ in range(steps):
                queue.parallel_for(shape, shift, v.write(access.one_to_one()), u.read(mapper), hints=hint)
                u, v = v, u
                values = np.roll(values, -1, 0) + np.roll(values, 1, 1) - np.roll(values, (1, 1), (0, 1))
            queue.wait()
            peaks = [memory["peak_bytes"] for memory in queue.statistics().executor["memories"][2:]]
            share = 2 * values.nbytes / 4
            assert len(peaks) == 4
            assert all(share <= peak <= 1.05 * share for peak in peaks), peaks
            np.testing.assert_array_equal(queue.fence(u).result(), values)
    finally:
        celerity.configure(devices=None, check=None)


@pytest.mark.parametrize("wrap", [1, None, "x"])
def test_a_neighborhood_is_periodic_or_not(wrap: Any) -> None:
    access.neighborhood(1, wrap=True)  # what is kept of it must not answer for 1
    with pytest.raises(UsageError, match=re.escape(f"neighborhood(wrap=...) takes True or False, not {wrap!r}")):
        access.neighborhood(1, wrap=wrap)


def test_a_periodic_neighborhood_is_shown_as_written() -> None:
    assert (
        str(access.neighborhood(1, 2, shape="axes", wrap=True)) == "access.neighborhood(1, 2, shape='axes', wrap=True)"
    )
    assert str(access.neighborhood(1, wrap=True)) == "access.neighborhood(1, wrap=True)"


@pytest.mark.parametrize("wrap", [(True,), (True, False, True), [], np.array([True])])
def test_a_neighborhood_has_one_flag_per_dimension(wrap: Any) -> None:
    with pytest.raises(UsageError, match=r"takes True or False, not .*, or one of them per dimension, here 2"):
        access.neighborhood(1, 1, wrap=wrap)
    with pytest.raises(UsageError, match="takes True or False, not 1"):
        access.neighborhood(1, 1, wrap=(True, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrap", [(False, True), [False, True], np.array([False, True])])
def test_a_neighborhood_may_be_periodic_in_one_dimension(wrap: Any) -> None:
    mapper = access.neighborhood(1, 2, wrap=wrap)
    assert str(mapper) == "access.neighborhood(1, 2, wrap=(False, True))"
    assert mapper != access.neighborhood(1, 2, wrap=True)
    assert str(access.neighborhood(1, 2, wrap=(True, True))) == "access.neighborhood(1, 2, wrap=True)"
    assert str(access.neighborhood(1, 2, wrap=(False, False))) == "access.neighborhood(1, 2)"


MIXED: list[tuple[PaddingMode, PaddingMode]] = [(a, b) for a in MODES for b in MODES if a != b]


@pytest.mark.parametrize("modes", MIXED)
def test_a_channel_is_padded_by_one_mode_per_dimension(queue: celerity.Queue, modes: Any) -> None:
    initial = np.random.default_rng(5).integers(0, 100, (13, 11))
    mapper = access.neighborhood(2, 1, wrap=tuple(mode == "wrap" for mode in modes))

    def padded_by_numpy(values: Any) -> Any:
        for dim in sorted(range(2), key=lambda dim: modes[dim] == "constant"):  # its value fills the corners
            options: Any = {"constant_values": 7} if modes[dim] == "constant" else {}
            width = [(0, 0), (0, 0)]
            width[dim] = ((2, 2), (1, 1))[dim]
            values = np.pad(values, width, mode=modes[dim], **options)
        return values

    def add_around(chunk: celerity.Chunk, out: celerity.View, u: celerity.View) -> None:
        near = u.padded(chunk.box, (2, 1), modes, 7 if "constant" in modes else None)
        out[chunk.box] = near[:-4, :-2] + near[4:, 1:-1] - near[2:-2, 2:]

    u = celerity.Buffer.from_array(initial, name="u")
    out = celerity.Buffer(u.shape, u.dtype, name="out")
    expected = initial
    for hint in [[], [celerity.hints.split_2d()], []]:
        queue.parallel_for(u.shape, add_around, out.write(access.one_to_one()), u.read(mapper), hints=hint)
        u, out = out, u
        near = padded_by_numpy(expected)
        expected = near[:-4, :-2] + near[4:, 1:-1] - near[2:-2, 2:]
    np.testing.assert_array_equal(queue.fence(u).result(10), expected)


@pytest.mark.parametrize("modes", [("edge",), ("edge", "wrap", "edge"), ("edge", "mirror"), ()])
def test_a_mode_per_dimension_needs_as_many_as_there_are_dimensions(modes: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"with mode={modes!r}. The modes are") + ".*each of the 2"):
        view_of((4, 4), Box((0, 0), (4, 4))).padded(Box((0, 0), (4, 4)), 1, modes)


@pytest.mark.parametrize("mode", MODES)
def test_a_stencil_with_a_padded_array_needs_no_case_for_borders(queue: celerity.Queue, mode: PaddingMode) -> None:
    initial = np.random.default_rng(5).integers(0, 100, (13, 11))
    mapper = access.neighborhood(1, 1, wrap=mode == "wrap")

    def add_around(chunk: celerity.Chunk, out: celerity.View, u: celerity.View) -> None:
        near = u.padded(chunk.box, 1, mode, VALUES.get(mode))
        out[chunk.box] = near[:-2, :-2] + near[2:, 1:-1] - near[1:-1, 2:]

    u = celerity.Buffer.from_array(initial, name="u")
    out = celerity.Buffer(u.shape, u.dtype, name="out")
    expected = initial
    for _ in range(3):
        queue.parallel_for(u.shape, add_around, out.write(access.one_to_one()), u.read(mapper))
        u, out = out, u
        options: Any = {"constant_values": 7} if mode == "constant" else {}
        near = np.pad(expected, 1, mode=mode, **options)
        expected = near[:-2, :-2] + near[2:, 1:-1] - near[1:-1, 2:]
    np.testing.assert_array_equal(queue.fence(u).result(10), expected)
