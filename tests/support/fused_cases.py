# SPDX-License-Identifier: MIT
"""Functions with the text of NumPy, and arguments for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from celerity_py import Box, random
from tests.support.fused_kernels import Access

SHAPE = (9, 11)
BOX = Box((2, 3), (7, 9))
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def _numbers(dtype: str = "f4", shape: tuple[int, ...] = SHAPE, seed: int = 1) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 8).astype(dtype)


def case(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = function, arguments
        return function

    return keep


U, V = Access(_numbers()), Access(_numbers(seed=2))


@case(U, V, np.float32(0.25))
def wave(chunk: Any, u_next: Any, u: Any, c2: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1, 1)
    u_next[inner] = (
        2 * u[inner]
        - u_next[inner]
        + c2
        * (u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)] - 4 * u[inner])
    )


@case(U)
def a_reference_sees_what_is_stored_later(chunk: Any, u: Any) -> None:
    t = u[chunk.box]
    u[chunk.box] = 0
    u[chunk.box.shift(0, 1)] = t + 1


@case(U, V)
def a_copy_keeps_what_was_there(chunk: Any, u: Any, v: Any) -> None:
    t = u[chunk.box].copy()
    u[chunk.box] = v[chunk.box]
    v[chunk.box] = t


@case(U, V)
def an_expression_keeps_what_was_there(chunk: Any, u: Any, v: Any) -> None:
    old = u[chunk.box] * 2
    u[chunk.box.shift(1, 0)] = 7
    v[chunk.box] = old


@case(U)
def updates_through_a_reference_write_into_the_buffer(chunk: Any, u: Any) -> None:
    t = u[chunk.box]
    t += 1
    w = t[1:]
    w *= t[:-1]


@case(U, V)
def an_element_by_integers_is_a_number(chunk: Any, u: Any, v: Any) -> None:
    t = u[chunk.box]
    number = t[1, 2]
    t[1, 2] = 9
    row = (number * 2).astype("f4").copy()
    row += v[chunk.box][0]
    number += 1
    v[chunk.box] = row + number
    element = t[1, 2, ...]
    element *= 2


@case(U, V)
def names_of_one_value_share_it(chunk: Any, u: Any, v: Any) -> None:
    t = u[chunk.box] + 0
    w = t
    w += 1
    row = t[0]
    row[...] = -1
    v[chunk.box] = t


@case(U)
def the_right_side_comes_first(chunk: Any, u: Any) -> None:
    u[chunk.box] = u[chunk.box.shift(-1, 0)] + u[chunk.box.shift(1, 0)]


@case(U)
def an_update_from_neighbours_comes_first(chunk: Any, u: Any) -> None:
    t = u[chunk.box]
    t[1:] += t[:-1]
    t[:, ::-1] -= t


@case(U, U, Access(U.array))
def accesses_of_one_buffer_are_one_memory(chunk: Any, a: Any, b: Any, c: Any) -> None:
    a[chunk.box] = b[chunk.box.shift(0, 1)] + c[chunk.box.shift(0, -1)]
    b[chunk.box] += a[chunk.box.shift(1, 0)]


@case(U)
def a_checkerboard_is_updated_color_by_color(chunk: Any, u: Any) -> None:
    rows, columns = chunk.box.slices
    for color in (0, 1):
        here = (slice(rows.start + color, rows.stop, 2), columns)
        above = (slice(rows.start + color - 1, rows.stop - 1, 2), columns)
        u[here] = u[above] * 0.5


@case(U)
def rows_columns_and_elements(chunk: Any, u: Any) -> None:
    low, high = chunk.box.min, chunk.box.max
    u[low[0]] = u[low[0]] * 2
    u[low[0] : high[0], low[1]] = u[low[0] : high[0], high[1] - 1]
    u[low[0], low[1]] = 3


@case(U, V)
def transposed_reversed_and_broadcast(chunk: Any, u: Any, v: Any) -> None:
    t = v[Box((2, 3), (7, 8))]
    u[Box((2, 3), (7, 8))] = t.T[::-1] + t[:, :1] - t[None, 0] * np.expand_dims(t[0], 1)


@case(U, V)
def arrays_that_the_function_makes(chunk: Any, u: Any, v: Any) -> None:
    t = chunk.xp.zeros(chunk.box.shape, dtype=u.dtype)
    t[1:-1, 1:] = v[chunk.box][1:-1, :-1]
    t[0] = chunk.xp.arange(chunk.box.shape[1])
    s = np.full_like(t, 2)
    s[..., -1] = 5
    u[chunk.box] = (t * s)[::-1]


@case(U, V)
def coordinates_of_items(chunk: Any, u: Any, v: Any) -> None:
    i, j = chunk.index(0), chunk.index(1)
    u[chunk.box] = np.where((i + j) % 2 == 0, v[chunk.box], i * 1000 + j)
    v[chunk.box.shift(0, 1)] = chunk.index(1, chunk.box.shift(0, 1))


@case(U, V)
def padded_views(chunk: Any, u: Any, v: Any) -> None:
    box = chunk.box
    constant = v.padded(box, 1, value=2)
    edge = v.padded(box.shift(2, 2), (1, 0), mode="edge")
    wrap = v.padded(box, (3, 0), mode=("wrap", "constant"))
    u[box] = constant[2:, 1:-1] + constant[:-2, 1:-1] + edge[2:] - wrap[6:] * wrap[:-6]


@case(U, V)
def conditions_and_selections(chunk: Any, u: Any, v: Any) -> None:
    a, b = u[chunk.box], v[chunk.box]
    inside = (a > 0) & (b < 1) | ~(a >= b)
    u[chunk.box] = np.select([inside, a > b], [a, b * 2], 0.5) + np.clip(b, -1, 1) + abs(a) ** 2


@case(Access(_numbers("f4", (*SHAPE, 3)), element_ndim=1), Access(_numbers("f4", (*SHAPE, 3), 4), element_ndim=1), U)
def elements_and_their_components(chunk: Any, p: Any, q: Any, weight: Any) -> None:
    box = chunk.box
    p[box] = p[box] + q[box.shift(0, 1)] * weight[box][..., None]
    p[box][..., 0] = q[box][..., 2] - q[box][..., 1]
    weight[box] = (q[box] * p[box])[..., 1]


@case(Access(np.arange(9 * 11 * 4).reshape(9, 11, 2, 2).astype("i4"), element_ndim=2), Access(np.zeros(SHAPE, "i8")))
def sums_over_components(chunk: Any, m: Any, total: Any) -> None:
    total[chunk.box] = m[chunk.box].sum(axis=(-1, -2)) - np.sum(m[chunk.box].transpose(0, 1, 3, 2)[..., 0], axis=2)


@case(Access(_numbers("F")), Access(_numbers("D", seed=4)), U)
def complex_sums_and_parts(chunk: Any, z: Any, w: Any, u: Any) -> None:
    z[chunk.box] = z[chunk.box] + np.conj(w[chunk.box]) - u[chunk.box]
    u[chunk.box] = z[chunk.box].real - w[chunk.box].imag


@case(Access(_numbers("f8", (3, 9, 11))), Access(_numbers("f2", SHAPE)))
def a_history_of_rows(chunk: Any, history: Any, u: Any) -> None:
    for row in range(3):
        history[row, chunk.box.slices[0], chunk.box.slices[1]] += u[chunk.box] / (row + 1)


@case(U, V, 3, 0.5, np.float64(1e-3))
def scalars_are_parameters(chunk: Any, u: Any, v: Any, count: Any, factor: Any, step: Any) -> None:  # noqa: PLR0917 - a kernel has as many arguments as it has data
    ratio = factor / count
    u[chunk.box] = v[chunk.box] * ratio + count
    if count > 2:
        u[chunk.box] -= v[chunk.box] * step


@case(U, Access(np.zeros(SHAPE, "i1")), Access(np.zeros(SHAPE, "u2")))
def powers(chunk: Any, u: Any, signed: Any, unsigned: Any) -> None:
    box = chunk.box
    signed[box] = (u[box] > 0) ** 2 + chunk.index(0).astype("i1") ** 5
    unsigned[box] = chunk.index(1).astype("u2") ** chunk.index(0).astype("u2")
    u[box] = u[box] ** 2 + abs(u[box]) ** 0.5 + u[box] ** -1


@case(U, V)
def a_part_that_lies_far_from_what_is_overwritten(chunk: Any, u: Any, v: Any) -> None:
    box = chunk.box
    old = u[box] + 0
    padded = u.padded(box, 2, mode="edge")[4:, 2:-2]
    u[box] = v[box]
    u[box.shift(1, 0)] = old[:1] * 3
    v[box] = padded + old


@case(U, V)
def parts_are_stored_after_the_whole(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = v[chunk.box]
    u[chunk.box.shrink(1, 1)] *= 2


@case(U, V, Access(U.array))
def parts_are_stored_by_another_access(chunk: Any, u: Any, v: Any, same: Any) -> None:
    u[chunk.box] = v[chunk.box]
    same[chunk.box.shrink(1, 1)] *= 2


@case(U, V)
def parts_of_parts_and_what_was_there(chunk: Any, u: Any, v: Any) -> None:
    box, inner = chunk.box, chunk.box.shrink(1, 2)
    u[inner] *= 3
    u[box] += v[box]
    u[inner.shift(0, 1)] -= v[inner]
    u[inner] = u[inner] * 0.5
    v[box] = u[box] + 1


@case(U)
def an_empty_box_stores_nothing(chunk: Any, u: Any) -> None:
    empty = chunk.box & chunk.box.shift(6, 0)
    u[empty] = u[empty.shift(1, 0)] + 1


@case(U, V)
def an_element_that_three_parts_need(chunk: Any, u: Any, v: Any) -> None:
    first, _ = chunk.box.min
    for row in range(first, first + 3):
        v[row : row + 3, chunk.box.slices[1]] = u[row : row + 3, chunk.box.slices[1]] * row


LAYERS = Access(_numbers("f4", (5, *SHAPE)))
COMPONENTS = Access(_numbers("f4", (*SHAPE, 5), 7), element_ndim=1)


@case(LAYERS, COMPONENTS, U)
def layers_and_components_one_by_one(chunk: Any, f: Any, g: Any, total: Any) -> None:
    box, here = chunk.box, chunk.box.slices
    layers = [f[k, *here] + g[box][..., k] for k in range(5)]
    for k in range(5):
        f[k, *here] = layers[(k + 1) % 5] * 0.5 + f[k, *here]
        g[box][..., k] = f[k, *here] - layers[k]
    total[box] = f[3, *here] + g[box][..., 0]


@case(LAYERS, U)
def layers_from_neighbours(chunk: Any, f: Any, u: Any) -> None:
    box, (rows, columns) = chunk.box, chunk.box.slices
    for k in range(5):
        f[k, rows, columns] = f[(k + 2) % 5, rows.start - 1 : rows.stop - 1, columns] + u[box.shift(0, k - 2)]
        u[box.shift(1, 0)] += f[k, rows, columns]


@case(U, V)
def rows_and_columns_that_cross(chunk: Any, u: Any, v: Any) -> None:
    (top, left), (bottom, right) = chunk.box.min, chunk.box.max
    u[top, left:right] = v[top, left:right] * 2
    u[top:bottom, left] = v[top:bottom, left] + 1
    u[bottom - 1, left:right] = u[top, left:right]
    u[top:bottom, right - 1] -= u[top:bottom, left]


@case(U, V)
def an_element_is_kept(chunk: Any, u: Any, v: Any) -> None:
    old = u[3, 4] * 2
    u[chunk.box] = v[chunk.box]
    v[6, 4] = old


@case(U, Access(_numbers("f8")), Access(np.zeros((*SHAPE, 4), np.uint32), element_ndim=1), 7)
def random_numbers_of_a_step(chunk: Any, u: Any, v: Any, words: Any, step: int) -> None:
    b = chunk.box
    u[b] = random.uniform(chunk, 1, step) - random.normal(b.shift(0, 1), 1, step)
    v[b] = random.uniform(chunk, 2, stream=step + 1, dtype=float) - random.normal(chunk, 2, step, dtype="f8")
    words[b] = random.bits(chunk, 2**32 - 1, step * step)


LONG = Access(_numbers("f8", (9, 100)))


@case(Access(np.zeros(SHAPE)), LONG, Access(_numbers("f4", (100,))), Access(np.zeros(SHAPE, "i8")))
def rows_that_are_combined(chunk: Any, out: Any, u: Any, p: Any, counts: Any) -> None:
    """With a store in the same pass, a column that is combined, and vectors of few components."""
    rows, columns = chunk.box.slices
    u[rows] *= 2.0
    products = u[rows] * p[:]
    out[rows, 0] = products.max(axis=1)
    out[rows, 1:2] = np.floor(products).min(axis=1, keepdims=True)
    counts[rows, columns] = (u[rows, 3:90] > 1).sum(axis=1)[:, None]
    pairs = np.floor(p[:][:, None, None] + u[rows, :2])
    counts[rows, 0:2] = pairs.sum(axis=0).astype("i8")
    counts[rows, 2] = (u[rows].T > 3).sum(axis=(0,))
    out[0, 3:5] = (pairs > 1).any(axis=(0, 1))


@case(U, Access(_numbers("i8")), np.array([1.5, -0.0, 3.0]), _numbers("f4", (2, 4)))
def arrays_among_the_arguments(chunk: Any, u: Any, places: Any, weights: Any, table: Any) -> None:
    b = chunk.box
    u[b] = u[b] * weights[1] + table[places[b] % 2, chunk.index(1) % 4] - weights[places[b] % 3 - 3]
    for weight in weights:
        u[b] += table[-1:, :1] * weight
    u[b] += (u[b][:, None, None, :] * table[None, :, :, None]).max(axis=(1, 2))


@case(U, Access(np.array(3.0)), Access(np.array([1.0, 2.0, 4.0]), element_ndim=1), Access(np.zeros((), "i4")))
def buffers_without_dimensions(chunk: Any, u: Any, total: Any, pair: Any, count: Any) -> None:
    b = chunk.box
    u[b] = u[b] * total[()] + pair[()][2]
    pair[()][0] = total[()]
    total[()] = np.floor(u[b]).max() + u[2, 3]
    count[...] = (u[b] > pair[()][1]).sum()
    pair[()][1:] = u[4, 3:5]
    u[b.shift(1, 0)] -= pair[()][:1]
