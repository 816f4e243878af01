# SPDX-License-Identifier: MIT
"""Initial contents that the ranks hold together: `Buffer.from_local`, on one rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import ArgumentTypeError, DimensionMismatch, NestedUse, UsageError
from tests.support.kernels import scale

LOW, HIGH = Box((0, 0), (2, 3)), Box((2, 0), (4, 3))
VALUES = np.arange(12.0).reshape(4, 3)


def test_boxes_make_up_a_buffer(queue: celerity.Queue) -> None:
    given = VALUES[:2].copy()
    u = celerity.Buffer.from_local((4, 3), np.float64, {HIGH: VALUES[2:].astype("f4"), LOW: given}, name="u")
    given[...] = -1
    assert u.dtype == np.float64
    queue.parallel_for(u.shape, scale, u.read_write(access.one_to_one()), 2.0)
    np.testing.assert_array_equal(queue.fence(u).result(10), 2 * VALUES)


def test_pairs_of_any_order_and_layout_are_taken(queue: celerity.Queue) -> None:
    columns = [(Box((0, c), (4, c + 1)), VALUES[:, c : c + 1]) for c in (2, 0, 1)]
    u = celerity.Buffer.from_local((4, 3), float, [*columns, (Box((1, 1), (1, 2)), np.empty((0, 1)))])
    np.testing.assert_array_equal(queue.fence(u).result(10), VALUES)
    scalar = celerity.Buffer.from_local((), int, [(Box((), ()), np.array(7))])
    assert queue.fence(scalar).result(10) == 7


def test_a_borrowed_array_is_copied_by_the_wait(queue: celerity.Queue) -> None:
    given = VALUES.copy()
    u = celerity.Buffer.from_local((4, 3), float, [(LOW, given[:2]), (HIGH, given[2:])], copy=False)
    given[0, 0] = 100  # before any task: it is borrowed
    queue.wait()
    given[...] = -1
    result = queue.fence(u).result(10)
    assert result[0, 0] == 100
    np.testing.assert_array_equal(result.reshape(-1)[1:], VALUES.reshape(-1)[1:])


def test_elements_outside_of_all_boxes_have_no_contents(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    u = celerity.Buffer.from_local((4, 3), float, [(LOW, VALUES[:2])], name="u")
    np.testing.assert_array_equal(queue.fence(u, LOW).result(10), VALUES[:2])
    assert not caplog.records
    queue.fence(u).result(10)
    assert 'reads buffer B1 "u" [2:4, 0:3], but nothing has written it' in caplog.text


@pytest.mark.parametrize(
    ("parts", "error", "text"),
    [
        ({LOW: VALUES}, UsageError, r'"u" got an array of shape \(4, 3\) for the box \[0:2, 0:3\] of shape \(2, 3\)'),
        ([(Box((0,), (2,)), VALUES)], DimensionMismatch, r"but the buffer has 2 dimension\(s\)"),
        ([(Box((3, 0), (5, 3)), VALUES[:2])], UsageError, r"\[3:5, 0:3\], which leaves the buffer \[0:4, 0:3\]"),
        (
            {LOW: VALUES[:2] * 1j},
            UsageError,
            r"got an array of complex128 .* for the box .* elements are float64, which cannot hold it",
        ),
        (
            [(LOW, VALUES[:2]), (Box((1, 1), (3, 3)), VALUES[:2, :2])],
            UsageError,
            r"box 1, \[0:2, 0:3\], and box 2, \[1:3, 1:3\], overlap in \[1:2, 1:3\]\. Pass each element once",
        ),
        ([LOW, VALUES[:2]], ArgumentTypeError, r"a mapping from boxes to arrays, or pairs \(Box, array\), not Box"),
        (None, ArgumentTypeError, "not None. A rank without contents passes"),
        ({(0, 0): VALUES}, ArgumentTypeError, r"not \(\(0, 0\), array"),
        ({LOW: np.ma.array(VALUES[:2])}, ArgumentTypeError, "masked"),
        (np.array(2), ArgumentTypeError, "takes a mapping from boxes to arrays"),
    ],
)
def test_wrong_parts_are_refused(queue: celerity.Queue, parts: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        celerity.Buffer.from_local((4, 3), np.float64, parts, name="u")


def test_it_is_no_call_for_tasks_and_recordings(queue: celerity.Queue) -> None:
    errors: list[Exception] = []

    def kernel(chunk: celerity.Chunk) -> None:
        try:
            celerity.Buffer.from_local((4, 3), float, [])
        except NestedUse as error:
            errors.append(error)

    queue.parallel_for(1, kernel)
    queue.wait()
    assert len(errors) >= 1
    with pytest.raises(UsageError, match=r"Buffer\.from_local\(\)"):
        queue.record(lambda: celerity.Buffer.from_local((4, 3), float, []))
