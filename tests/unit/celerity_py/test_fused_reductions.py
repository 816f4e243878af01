# SPDX-License-Identifier: MIT
"""Fused kernels that reduce: results of several devices are those of the same function as a Python kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import UsageError

pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("only_fused")


def statistics(  # noqa: PLR0917 - a kernel
    chunk: Any, u: Any, low: Any, high: Any, total: Any, counts: Any, some: Any
) -> None:
    """With a store in between, which the sums behind it see."""
    b = chunk.box
    low.combine(u[b].min())
    high.combine(u[b].max())
    u[b] = u[b] * 2
    total.combine((u[b] * u[b]).sum())
    counts.array[0:1] += (u[b] > 1).sum()
    counts.array[1:2] += u[b].size
    some.combine((u[b] == 0).any())


def run(function: Any, array: np.ndarray[Any, Any], repetitions: int = 0) -> list[Any]:
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(array, name="u")
        low, high = (celerity.Buffer((), array.dtype, name=name) for name in ("low", "high"))
        total = celerity.Buffer.from_array(np.array([100.0], np.float64), name="total")
        counts, some = celerity.Buffer(2, np.int64, name="counts"), celerity.Buffer((1, 1), bool, name="some")

        def submit() -> None:
            queue.parallel_for(
                u.shape,
                function,
                u.read_write(access.one_to_one()),
                celerity.reduction(low, "min"),
                celerity.reduction(high, "max"),
                celerity.reduction(total, "sum", include_current=True),
                celerity.reduction(counts, "sum"),
                celerity.reduction(some, "or"),
            )

        submit()
        if repetitions:
            queue.replay(queue.record(submit), repetitions)
        return [queue.fence(one).result() for one in (u, low, high, total, counts, some)]


def numbers(shape: tuple[int, int], *special: float) -> np.ndarray[Any, Any]:
    array = np.random.default_rng(3).standard_normal(shape, dtype=np.float32)
    array.reshape(-1)[: len(special)] = special
    return array


@pytest.mark.parametrize(
    ("devices", "check", "array"),
    [
        ("cpu:1", False, numbers((90, 700))),
        ("cpu:3", False, numbers((90, 700), 0.0, np.inf)),
        ("cpu:3", False, numbers((2, 20))),
        ("cpu:2", True, numbers((7, 50), 1.0, np.nan)),
    ],
)
def test_fused_reductions_are_those_of_a_python_kernel(devices: str, check: bool, array: Any) -> None:
    celerity.configure(devices=devices, check=check)
    *exact, _, counts, some = run(celerity.fuse(statistics), array, 2)
    *expected, _, expected_counts, expected_some = run(celerity.kernel(statistics), array, 2)
    for one, other in zip(exact[:3], expected[:3], strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    assert counts.tolist() == expected_counts.tolist()
    assert some.tolist() == expected_some.tolist()


def test_sums_are_as_good_as_those_of_numpy_and_the_same_in_each_run() -> None:
    celerity.configure(devices="cpu:2")
    array = numbers((90, 700))
    found = {float(run(celerity.fuse(statistics), array)[3][0]) for _ in range(2)}
    exact = 100 + ((array * 2).astype(np.float64) ** 2).sum()
    assert len(found) == 1
    assert found.pop() == pytest.approx(exact, rel=1e-7)


def multiply(chunk: Any, q: Any, products: Any, p: Any) -> None:
    """The product with a matrix, row by row, where rows at the border are other ones, and its sums."""
    here = chunk.box
    q[here] = 4 * p[here]
    for shift in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        inside = here & p.shape_box.shift(*shift)
        q[inside] -= p[inside.shift(-shift[0], -shift[1])]
    products[...] = (p[here] * q[here]).sum(axis=1, keepdims=True)


def attract(chunk: Any, force: Any, places: Any, masses: Any) -> None:
    """All pairs, in one pass."""
    b = chunk.box
    apart = places[:][None, :, :] - places[b][:, None, :]
    squares = (apart * apart).sum(axis=-1) + 0.01
    force[b] = (apart * (masses[:] / (squares * np.sqrt(squares)))[..., None]).sum(axis=1)


def test_sums_of_rows_have_the_same_bits_in_chunks_of_any_size() -> None:
    rows, columns = 60, 3000
    draws = np.random.default_rng(5)
    array, vectors = draws.standard_normal((rows, columns)), draws.standard_normal((columns, 3))
    kernels = celerity.fuse(multiply), celerity.fuse(attract)

    def sums(devices: str) -> list[np.ndarray[Any, Any]]:
        celerity.configure(devices=devices)
        with celerity.Queue() as queue:
            p = celerity.Buffer.from_array(array)
            q, products = celerity.Buffer(array.shape, float), celerity.Buffer((rows, 1), float)
            near = p.read(access.neighborhood(1, 1, shape="axes"))
            queue.parallel_for(
                array.shape, kernels[0], q.write(access.one_to_one()), products.write(access.slice(1)), near
            )
            places, masses = celerity.Buffer.from_array(vectors, element=(3,)), celerity.Buffer.from_array(array[0])
            force = celerity.Buffer(rows, float, element=(3,))
            given = places.read(access.all()), masses.read(access.all())
            queue.parallel_for(rows, kernels[1], force.write(access.one_to_one()), *given)
            return [queue.fence(one).result() for one in (q, products, force)]

    found = sums("cpu:1")
    for devices in ("cpu:2", "cpu:3"):
        for one, other in zip(found, sums(devices), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(found[1], (array * found[0]).sum(axis=1, keepdims=True), rtol=1e-11)
    apart = vectors - vectors[:rows, None]
    squares = (apart * apart).sum(axis=-1) + 0.01
    expected = (apart * (array[0] / squares**1.5)[..., None]).sum(axis=1)
    np.testing.assert_allclose(found[2], expected, rtol=1e-10, atol=1e-10)


def test_sums_of_elements_far_from_each_other_are_taken() -> None:
    """The kernel has numbers of its own for the distance."""

    @celerity.fuse
    def correlate(chunk: Any, u: Any, out: Any) -> None:
        b = chunk.box & u.shape_box.shift(-20)
        out.combine((u[b] * u[b.shift(20)]).sum())

    array = np.arange(2000.0)
    with celerity.Queue() as queue:
        u, out = celerity.Buffer.from_array(array), celerity.Buffer((), np.float64)
        queue.parallel_for(2000, correlate, u.read(access.all()), celerity.reduction(out, "sum"))
        assert queue.fence(out).result() == (array[20:] * array[:-20]).sum()


def test_products_of_matrices_and_places_along_an_axis_are_those_of_numpy() -> None:
    def multiply_and_find(  # noqa: PLR0917 - a kernel
        chunk: Any, out: Any, places: Any, m: Any, x: Any, turn: Any
    ) -> None:
        here = chunk.box
        rows = with_all_columns(here, m.shape_box)
        out[here] = np.dot(m[rows], x[:]) + (m[rows][:, :2] @ turn)[:, 0]
        places[here] = m[rows].argmax(axis=1) * 1000 + np.argmin(m[rows] * x[:], -1)

    def with_all_columns(rows: celerity.Box, whole: celerity.Box) -> celerity.Box:
        return celerity.Box((rows.min[0], 0), (rows.max[0], whole.max[1]))

    draws = np.random.default_rng(6)
    matrix, vector, turn = draws.integers(-9, 9, (50, 300)), draws.integers(-9, 9, 300), np.array([[2, 1], [-1, 3]])
    results = []
    celerity.configure(devices="cpu:2")
    for kind in (celerity.fuse, celerity.kernel):
        with celerity.Queue() as queue:
            out, places = celerity.Buffer(50, np.int64), celerity.Buffer(50, np.int64)
            m, x = celerity.Buffer.from_array(matrix), celerity.Buffer.from_array(vector)
            writes = out.write(access.one_to_one()), places.write(access.one_to_one())
            queue.parallel_for(
                50, kind(multiply_and_find), *writes, m.read(access.slice(1)), x.read(access.all()), turn
            )
            results.append([queue.fence(one).result() for one in (out, places)])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(results[0][0], matrix @ vector + (matrix[:, :2] @ turn)[:, 0])


def test_what_a_reducer_refuses_is_refused_at_the_submit() -> None:
    @celerity.fuse
    def whole(chunk: Any, u: Any, out: Any) -> None:
        out.combine(u[chunk.box])

    @celerity.fuse
    def wide(chunk: Any, u: Any, out: Any) -> None:
        out.combine(u[chunk.box].sum())

    @celerity.fuse
    def nothing(chunk: Any, u: Any, out: Any) -> None:
        out.combine(u[1:1].max())

    with celerity.Queue() as queue:
        u, out = celerity.Buffer.from_array(np.ones(9)), celerity.Buffer((), np.int32, name="out")
        for kernel, words in ((whole, "array of shape"), (wide, "of dtype float64 into"), (nothing, "no maximum")):
            with pytest.raises(UsageError, match=words):
                queue.parallel_for(9, kernel, u.read(access.one_to_one()), celerity.reduction(out, "sum"))
