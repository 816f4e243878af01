# SPDX-License-Identifier: MIT
"""Whole programs on however many ranks there are, with one and with several devices each, against NumPy."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access

if TYPE_CHECKING:
    import numpy.typing as npt

pytestmark = pytest.mark.mpi


def random_array(*shape: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(7).integers(0, 100, shape).astype(np.float64)


@celerity.kernel
def wave_step(chunk: Any, u_next: Any, u: Any, c2: float) -> None:
    inner = chunk.box & u.shape_box.shrink(1, 1)
    u_next[inner] = (
        2 * u[inner]
        - u_next[inner]
        + c2
        * (u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)] - 4 * u[inner])
    )


def reference_wave(initial: npt.NDArray[np.float64], steps: int) -> npt.NDArray[np.float64]:
    u, u_next = initial.copy(), initial.copy()
    for _ in range(steps):
        laplacian = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        u_next[1:-1, 1:-1] = 2 * u[1:-1, 1:-1] - u_next[1:-1, 1:-1] + 0.25 * laplacian
        u, u_next = u_next, u
    return u


def test_a_periodic_stencil_exchanges_its_opposite_rims(queue: celerity.Queue) -> None:
    mapper = access.neighborhood(1, 1, wrap=True)
    alive = (random_array(31, 23) < 30).astype(np.int8)

    def live(chunk: celerity.Chunk, after: celerity.View, before: celerity.View) -> None:
        near = before.padded(chunk.box, 1, mode="wrap")
        rows = near[:-2] + near[1:-1] + near[2:]
        around = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - near[1:-1, 1:-1]
        after[chunk.box] = (around == 3) | ((around == 2) & (near[1:-1, 1:-1] == 1))

    before = celerity.Buffer.from_array(alive, name="before")
    after = celerity.Buffer(before.shape, before.dtype, name="after")
    for _ in range(12):
        queue.parallel_for(before.shape, live, after.write(access.one_to_one()), before.read(mapper))
        before, after = after, before
        shifts = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if (row, column) != (0, 0)]
        around = sum(np.roll(alive, shift, axis=(0, 1)) for shift in shifts)
        alive = ((around == 3) | ((around == 2) & (alive == 1))).astype(np.int8)
    np.testing.assert_array_equal(queue.fence(before).result(), alive)


def test_a_mesh_exchanges_the_nodes_that_neighbours_list(queue: celerity.Queue) -> None:
    """Nodes of a ring with numbers far apart: those of a rank have few neighbours on other ranks."""
    size, steps = 240, 6
    ring = np.random.default_rng(3).permutation(size // 8)
    order = np.concatenate([np.arange(8 * block, 8 * block + 8) for block in ring])
    neighbours = np.empty((size, 2), np.int64)
    neighbours[order] = np.stack([np.roll(order, 1), np.roll(order, -1)], axis=1)

    def average(chunk: celerity.Chunk, after: celerity.View, before: celerity.View) -> None:
        listed = neighbours[chunk.box.slices[0]] - before.box.min[0]
        after[...] = before.array[listed].sum(axis=1) % 1000

    values = random_array(size, 3)
    before = celerity.Buffer.from_array(values, name="before")
    after = celerity.Buffer(values.shape, np.float64, name="after")
    mapper = access.gather(neighbours, gap=0)
    queue.parallel_for(size, lambda chunk, u: None, before.read_write(access.slice(1)))
    for _ in range(steps):
        queue.parallel_for(size, average, after.write(access.slice(1)), before.read(mapper))
        before, after = after, before
        values = values[neighbours].sum(axis=1) % 1000
    queue.wait()
    sent = sum(queue.statistics().executor["sent_bytes"].values())
    owners = np.searchsorted(
        [size * rank // celerity.size() for rank in range(1, celerity.size())], range(size), "right"
    )
    pairs = {(int(node), int(rank)) for near, rank in zip(neighbours, owners, strict=True) for node in near}
    own = sum(1 for node, rank in pairs if owners[node] == celerity.rank() != rank)
    assert sent == own * 3 * 8 * steps
    np.testing.assert_array_equal(queue.fence(before).result(), values)


@pytest.mark.parametrize(
    "hint", ["split_1d", "split_2d", "oversubscribe", "border_first", "split_auto", "weights", "cyclic"]
)
def test_a_stencil_exchanges_its_halos(queue: celerity.Queue, hint: str) -> None:
    hints = {
        "split_1d": celerity.hints.split_1d(),
        "split_2d": celerity.hints.split_2d(),
        "oversubscribe": celerity.hints.oversubscribe(3),
        "border_first": celerity.hints.border_first(),
        "split_auto": celerity.hints.split_auto(),
        "weights": celerity.hints.weights([rank % 3 for rank in range(1, celerity.size() + 1)]),
        "cyclic": celerity.hints.cyclic(7),
    }
    initial = random_array(61, 47)
    u = celerity.Buffer.from_array(initial, name="u")
    u_next = celerity.Buffer.from_array(initial, name="u_next")
    for _ in range(25):
        queue.parallel_for(
            u.shape,
            wave_step,
            u_next.read_write(access.one_to_one()),
            u.read(access.neighborhood(1, 1, shape="axes")),
            0.25,
            hints=(hints[hint],),
        )
        u, u_next = u_next, u
    np.testing.assert_array_equal(queue.fence(u).result(), reference_wave(initial, 25))


@pytest.mark.parametrize("hint", ["none", "split_3d", "split_auto", "cyclic"])
def test_a_short_cube_is_shared_by_all_ranks(queue: celerity.Queue, hint: str) -> None:
    hints = (
        [] if hint == "none" else [celerity.hints.cyclic(1) if hint == "cyclic" else getattr(celerity.hints, hint)()]
    )
    initial = np.random.default_rng(5).random((2, 9, 11))
    u, v = celerity.Buffer.from_array(initial), celerity.Buffer(initial.shape, np.float64)

    def shifted(chunk: celerity.Chunk, out: celerity.View, values: celerity.View) -> None:
        out[chunk.box] = values[chunk.box]
        inner = chunk.box & values.shape_box.shrink(0, 1, 1)
        out[inner] += values[inner.shift(0, 1, 0)] + values[inner.shift(0, 0, -1)]

    expected = initial
    for _ in range(5):
        queue.parallel_for(
            u.shape,
            shifted,
            v.write(access.one_to_one()),
            u.read(access.neighborhood(0, 1, 1)),
            hints=hints,
        )
        u, v = v, u
        following = expected.copy()
        following[:, 1:-1, 1:-1] += expected[:, 2:, 1:-1] + expected[:, 1:-1, :-2]
        expected = following
    np.testing.assert_array_equal(queue.fence(u).result(), expected)


def test_reductions_follow_hints_that_leave_out_devices_and_ranks(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.arange(40.0))
    weights = [1] + [0] * (celerity.size() - 2) + [3] * (celerity.size() > 1)
    for hint in (celerity.hints.cyclic(3), celerity.hints.weights(weights)):
        total = celerity.Buffer((), np.float64)

        def add(chunk: celerity.Chunk, sum_of: celerity.Reducer, part: celerity.View) -> None:
            sum_of.combine(part[...].sum())

        queue.parallel_for(40, add, celerity.reduction(total, "sum"), values.read(access.one_to_one()), hints=hint)
        assert queue.fence(total).result() == 780


@pytest.mark.parametrize("waits", [True, False], ids=["a wait after each step", "no wait in between"])
def test_a_wave_resizes_nothing_after_its_second_step_and_allocates_nothing_after_its_third(
    queue: celerity.Queue, waits: bool
) -> None:
    initial = random_array(61, 47)
    u = celerity.Buffer.from_array(initial, name="u")
    u_next = celerity.Buffer.from_array(initial, name="u_next")

    def memory_after(steps: int) -> dict[str, Any]:
        nonlocal u, u_next
        for _ in range(steps):
            halo = access.neighborhood(1, 1, shape="axes")
            queue.parallel_for(u.shape, wave_step, u_next.read_write(access.one_to_one()), u.read(halo), 0.25)
            u, u_next = u_next, u
            if waits:
                queue.wait()
        queue.wait()
        executor = queue.statistics().executor
        kinds = {kind: executor["instructions"][kind] for kind in ("alloc", "free")}
        return {"resizes": executor["copies"]["resize"], "memories": executor["memories"], **kinds}

    after_two = memory_after(2)
    assert waits or after_two["resizes"] == 0
    after_three = memory_after(1)  # the first step read what every rank had, so only now both buffers have been sent
    assert after_three["resizes"] == after_two["resizes"]
    assert memory_after(22) == after_three
    np.testing.assert_array_equal(queue.fence(u).result(), reference_wave(initial, 25))


@pytest.mark.direct
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_a_wave_with_direct_transfers_sends_nothing_through_the_host(devices: int) -> None:
    celerity.configure(devices=f"cpu:{devices}", transport="direct")
    try:
        with celerity.Queue() as queue:
            initial = random_array(61, 47)
            u = celerity.Buffer.from_array(initial, name="u")
            u_next = celerity.Buffer.from_array(initial, name="u_next")
            sent = []
            for step in range(25):
                halo = access.neighborhood(1, 1, shape="axes")
                queue.parallel_for(u.shape, wave_step, u_next.read_write(access.one_to_one()), u.read(halo), 0.25)
                u, u_next = u_next, u
                if step in (1, 24):
                    queue.wait()
                    sent.append(queue.statistics().executor["sent_bytes"])
            assert sent[1]["host"] == sent[0]["host"]
            assert queue.statistics().size == 1 or sent[1]["direct"] > sent[0]["direct"]
            np.testing.assert_array_equal(queue.fence(u).result(), reference_wave(initial, 25))
            del u, u_next
    finally:
        celerity.configure(devices=None, transport=None)


@celerity.kernel
def multiply(chunk: Any, c: Any, a: Any, b: Any) -> None:
    rows, columns = chunk.box.slices
    c[chunk.box] = a[rows, :] @ b[:, columns]


def test_matrices_are_multiplied_by_slices_again_and_again(queue: celerity.Queue) -> None:
    a_values, b_values = random_array(24, 36), random_array(36, 36) % 3
    a, b = celerity.Buffer.from_array(a_values), celerity.Buffer.from_array(b_values)
    c = celerity.Buffer(a.shape, np.float64)
    for _ in range(4):
        queue.parallel_for(
            c.shape, multiply, c.write(access.one_to_one()), a.read(access.slice(1)), b.read(access.slice(0))
        )
        a, c = c, a
    expected = a_values
    for _ in range(4):
        expected = expected @ b_values
    np.testing.assert_array_equal(queue.fence(a).result(), expected)


@celerity.kernel
def add_up(chunk: Any, total: Any, values: Any) -> None:
    total.combine(values[chunk.box].sum())


@celerity.kernel
def subtract(chunk: Any, values: Any, total: Any) -> None:
    values[chunk.box] -= total[...]


def test_a_reduction_is_the_same_on_all_ranks_and_feeds_later_kernels(queue: celerity.Queue) -> None:
    initial = random_array(100)
    values = celerity.Buffer.from_array(initial)
    total = celerity.Buffer((), np.float64)
    expected = initial
    for _ in range(5):
        queue.parallel_for(values.shape, add_up, celerity.reduction(total, "sum"), values.read(access.one_to_one()))
        queue.parallel_for(values.shape, subtract, values.read_write(access.one_to_one()), total.read())
        expected = expected - expected.sum()
    np.testing.assert_array_equal(queue.fence(values).result(), expected)


@celerity.kernel
def transpose(chunk: Any, out: Any, values: Any) -> None:
    rows, columns = chunk.box.slices
    out[chunk.box] = values[columns, rows].T


def test_a_transposition_sends_blocks_that_lie_strided_in_memory(queue: celerity.Queue) -> None:
    initial = random_array(40, 30)
    values = celerity.Buffer.from_array(initial)
    turned = celerity.Buffer((30, 40), np.float64)
    queue.parallel_for(turned.shape, transpose, turned.write(access.one_to_one()), values.read(access.permute(1, 0)))
    queue.parallel_for(values.shape, transpose, values.write(access.one_to_one()), turned.read(access.permute(1, 0)))
    queue.parallel_for(turned.shape, transpose, turned.write(access.one_to_one()), values.read(access.permute(1, 0)))
    np.testing.assert_array_equal(queue.fence(turned).result(), initial.T)


@celerity.kernel
def increment(chunk: Any, values: Any) -> None:
    values[chunk.box] += 1


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3, 5)])
def test_buffers_smaller_than_the_machine_work(queue: celerity.Queue, shape: tuple[int, ...]) -> None:
    values = celerity.Buffer.from_array(np.zeros(shape))
    for _ in range(3):
        queue.parallel_for(shape, increment, values.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(values).result(), np.full(shape, 3.0))


def test_contents_from_a_function_are_computed_where_they_are_needed(queue: celerity.Queue) -> None:
    asked: list[Box] = []

    def rows_and_columns(box: Box) -> npt.NDArray[np.float64]:
        asked.append(box)
        rows, columns = box.slices
        return np.arange(rows.start, rows.stop)[:, None] * 100.0 + np.arange(columns.start, columns.stop)[None, :]

    values = celerity.Buffer.from_function((64, 8), np.float64, rows_and_columns)
    queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
    result = queue.fence(values).result()
    np.testing.assert_array_equal(result, np.arange(64)[:, None] * 100.0 + np.arange(8)[None, :] + 1)
    assert sum(box.size for box in asked) <= -(-64 // celerity.size()) * 8


def test_host_tasks_see_what_kernels_wrote_and_the_other_way_round(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros(50))
    sums: list[float] = []

    def add_rank(part: Any, view: Any) -> None:
        view[part.box] += 10

    queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
    queue.host_task(add_rank, values.read_write(access.one_to_one()), on=values.shape)
    queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
    queue.host_task(lambda part, view: sums.append(view[...].sum()), values.read(access.all()), on="master")
    queue.wait()
    assert sums == ([12.0 * 50] if celerity.is_master() else [])


def test_a_fence_on_the_master_gives_nothing_to_the_others(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.arange(30.0))
    queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
    part = queue.fence(values, Box((5,), (25,)), on="master").result()
    if celerity.is_master():
        np.testing.assert_array_equal(part, np.arange(5.0, 25.0) + 1)
    else:
        assert part is None


def test_a_megabyte_goes_to_everyone_every_step(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros((64, 2048)))
    mixed = celerity.Buffer(values.shape, np.float64)

    @celerity.kernel
    def average(chunk: Any, out: Any, everything: Any) -> None:
        out[chunk.box] = everything[...].mean() + 1

    for _ in range(6):
        queue.parallel_for(values.shape, average, mixed.write(access.one_to_one()), values.read(access.all()))
        values, mixed = mixed, values
    assert (queue.fence(values).result() == 6).all()


def test_barriers_and_waits_between_steps_do_not_disturb(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros(20))
    for step in range(12):
        queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
        if step % 3 == 0:
            queue.barrier()
        if step % 4 == 0:
            queue.wait()
    assert (queue.fence(values).result() == 12).all()


def test_buffers_that_die_while_they_are_sent_do_not_disturb(queue: celerity.Queue) -> None:
    total = celerity.Buffer.from_array(np.zeros(64))

    @celerity.kernel
    def accumulate(chunk: Any, out: Any, values: Any) -> None:
        out[chunk.box] += values[...].sum()

    for step in range(20):
        values = celerity.Buffer((64,), np.float64)
        queue.parallel_for(
            values.shape, lambda chunk, out, s=step: out.__setitem__(chunk.box, s), values.write(access.one_to_one())
        )
        queue.parallel_for(total.shape, accumulate, total.read_write(access.one_to_one()), values.read(access.all()))
        del values
        gc.collect(0)
    assert (queue.fence(total).result() == 64 * sum(range(20))).all()


def test_one_runtime_after_another_in_the_same_process() -> None:
    for round_number in range(5):
        with celerity.Queue() as queue:
            values = celerity.Buffer.from_array(np.full(17, float(round_number)))
            queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
            assert (queue.fence(values).result() == round_number + 1).all()


def test_what_no_device_reads_arrives_for_later_kernels(queue: celerity.Queue) -> None:
    """A chunk reads every other element, backwards, and its mapper returns their bounding box."""
    items = 4 * celerity.size()
    u = celerity.Buffer(2 * items, np.float64, name="u")
    picked = celerity.Buffer(items, np.float64, name="picked")
    total = celerity.Buffer(items, np.float64, name="total")

    def backwards(chunk: Any) -> Box:
        (low,), (high,) = chunk.box.min, chunk.box.max
        return Box((2 * (items - high),), (2 * (items - low) - 1,))

    @celerity.kernel
    def fill(chunk: Any, u: Any, step: int) -> None:
        u[chunk.box] = np.arange(chunk.box.min[0], chunk.box.max[0]) + 1000 * step

    @celerity.kernel
    def pick(chunk: Any, picked: Any, u: Any) -> None:
        picked[chunk.box] = u[...][::-2]

    @celerity.kernel
    def add(chunk: Any, total: Any, u: Any) -> None:
        total[chunk.box] = u[...].sum()

    for step in range(3):
        queue.parallel_for(2 * items, fill, u.write(access.one_to_one()), step)
        queue.parallel_for(items, pick, picked.write(access.one_to_one()), u.read(backwards))
        queue.parallel_for(items, add, total.write(access.one_to_one()), u.read(access.all()))
    everything = np.arange(2 * items) + 2000.0
    np.testing.assert_array_equal(queue.fence(u).result(), everything)
    np.testing.assert_array_equal(queue.fence(picked).result(), everything[-2::-2])
    np.testing.assert_array_equal(queue.fence(total).result(), np.full(items, everything.sum()))


@pytest.mark.filterwarnings("ignore:.*outside of the buffer")
@pytest.mark.parametrize("mode", ["write", "read_write"])
def test_a_write_outside_of_the_buffer_leaves_a_reduction_alone(queue: celerity.Queue, mode: str) -> None:
    total = celerity.Buffer.from_array(np.array([1000.0]), name="total")

    @celerity.kernel
    def add(chunk: Any, out: Any) -> None:
        out.combine(float(chunk.box.size))

    queue.parallel_for(12, add, celerity.reduction(total, "sum", include_current=True))
    queue.parallel_for(
        Box((5,), (9,)), lambda chunk, outside: None, getattr(total, mode)(lambda chunk: chunk.box), name="outside"
    )
    assert queue.fence(total).result() == 1012


def test_host_tasks_on_one_rank_append_to_a_file_in_program_order(
    queue: celerity.Queue, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("order") / "log"
    values = celerity.Buffer.from_array(np.zeros(12))

    def append(part: Any, number: int, view: Any) -> None:
        time.sleep(0.003 if number % 3 == 0 else 0)
        with path.open("a") as file:
            file.write(f"{number} {view[...].sum():g}\n")

    for number in range(12):
        queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
        queue.host_task(append, number, values.read(access.all()), on="master" if number % 2 else "once")
    queue.barrier()
    if celerity.is_master():
        assert path.read_text() == "".join(f"{number} {12 * (number + 1)}\n" for number in range(12))


def test_a_maximum_of_nothing_is_warned_of_where_it_is_read(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    nothing, something = celerity.Buffer((), np.uint16, name="nothing"), celerity.Buffer((), np.uint16)

    def find(chunk: Any, none: Any, some: Any) -> None:
        if 0 in range(chunk.box.min[0], chunk.box.max[0]):
            some.combine(3)

    queue.parallel_for(40, find, celerity.reduction(nothing, "max"), celerity.reduction(something, "max"), name="find")
    assert queue.fence(nothing).result() == 0
    assert queue.fence(something).result() == 3
    queue.barrier()
    (told,) = [record.getMessage() for record in caplog.records if "combined" in record.getMessage()]
    assert 'kernel "find"' in told
    assert '"nothing"' in told
