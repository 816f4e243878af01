# SPDX-License-Identifier: MIT
"""`hints.recompute`: results with the same bits, what is refused, and the check of the promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access, hints
from celerity_py.errors import CelerityWarning, UsageError

ONE = access.one_to_one()
CROSS = access.neighborhood(1, 1, shape="axes")
SHAPE = (96, 12)
START = np.random.default_rng(4).random(SHAPE, np.float32)
REPLAYS = (3, 1, 7, 1, 1, 16)


def wave(chunk: Any, u_next: Any, u: Any, c2: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1, 1)
    around = u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)]
    u_next[inner] = 2 * u[inner] - u_next[inner] + c2 * (around - 4 * u[inner])


def total(chunk: Any, u: Any, out: Any) -> None:
    out.combine(u[chunk.box].sum(dtype=np.float64))


def run_wave(kernel: Callable[..., Any], *given: hints.Hint, with_sum: bool = False) -> list[Any]:
    """The contents after each of some replays, with other tasks among them."""
    results: list[Any] = []
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer.from_array(START) for _ in range(2))
        energy = celerity.Buffer((), np.float64)

        def step(c2: Any) -> None:
            for new, old in ((v, u), (u, v)):
                queue.parallel_for(SHAPE, kernel, new.read_write(ONE), old.read(CROSS), c2, hints=given)
            if with_sum:
                queue.parallel_for(SHAPE, total, u.read(ONE), celerity.reduction(energy, "sum"))

        recorded = queue.record(step, c2=np.float32(0.25))
        for number, times in enumerate(REPLAYS):
            queue.replay(recorded, times, **({"c2": np.float32(0.125)} if number == 2 else {}))
            results.append(queue.fence(u).result(60))
            if number == 3:
                queue.fill(v, 0.5)  # begins a new period
        if with_sum:
            results.append(queue.fence(energy).result(60))
        has_halos = any(hint.kind == "recompute" for hint in given) and queue.statistics().num_devices > 1
        assert (recorded.halos is not None) == has_halos
    return results


@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("make", [celerity.kernel, celerity.fuse])
@pytest.mark.parametrize("check", [False, True])
def test_halos_of_several_repetitions_change_no_bit(devices: int, make: Any, check: bool) -> None:
    celerity.configure(devices=f"cpu:{devices}", check=check)
    kernel = make(wave)
    expected = run_wave(kernel)
    for given in ([hints.recompute(3)], [hints.recompute(4), hints.oversubscribe(2)]):
        for found, wanted in zip(run_wave(kernel, *given), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_tiles_have_halos_of_several_repetitions() -> None:
    celerity.configure(devices="cpu:4")
    expected = run_wave(wave, hints.split_2d())
    for found, wanted in zip(run_wave(wave, hints.split_2d(), hints.recompute(1)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_reduction_without_the_hint_may_be_among_the_kernels() -> None:
    celerity.configure(devices="cpu:2")
    for found, wanted in zip(
        run_wave(wave, hints.recompute(4), with_sum=True), run_wave(wave, with_sum=True), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_what_is_saved_and_what_it_costs_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    celerity.configure(devices="cpu:2", log_level="info")
    run_wave(wave, hints.recompute(4))
    told = [record.getMessage() for record in caplog.records if "halos are exchanged" in record.getMessage()]
    assert len(told) == 1
    assert "before one of 4 repetitions, instead of 2 times in each repetition, for 7.3 % more work" in told[0]


def test_no_allocation_grows_if_the_replay_follows_at_once() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer.from_array(START) for _ in range(2))

        def step() -> None:
            for new, old in ((v, u), (u, v)):
                queue.parallel_for(SHAPE, wave, new.read_write(ONE), old.read(CROSS), 0.25, hints=hints.recompute(4))

        queue.replay(queue.record(step), 8)
        queue.wait()
        counts = queue.statistics().executor
    assert counts["copies"]["resize"] == 0
    assert max(counts["allocations_by_buffer"].values()) == 1


def submit_one(queue: celerity.Queue, kernel: Any, *args: Any, shape: Any = SHAPE, given: Any = None) -> None:
    queue.parallel_for(shape, kernel, *args, hints=hints.recompute(2) if given is None else given)


def test_kernels_that_cannot_have_deep_halos_are_refused_at_the_submit() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer.from_array(START) for _ in range(2))
        energy = celerity.Buffer((), np.float64)
        cases: list[tuple[str, Any]] = [
            ("a callable as mapper", (wave, v.read_write(ONE), u.read(lambda chunk: chunk.box), 1)),
            ("count twice", (total, u.read(ONE), celerity.reduction(energy, "sum"))),
        ]
        for words, (kernel, *args) in cases:
            with pytest.raises(UsageError, match=words):
                submit_one(queue, kernel, *args)
        with pytest.raises(UsageError, match=r"recompute\(2\) and cyclic\(4\) contradict each other"):
            submit_one(queue, wave, v.read_write(ONE), u.read(CROSS), 1, given=[hints.recompute(2), hints.cyclic(4)])
    for wrong in (0, 65, 1.5, True):
        with pytest.raises(UsageError, match="a number of steps from 1 to 64"):
            hints.recompute(wrong)  # type: ignore[arg-type]


def test_recordings_whose_halos_contradict_or_are_too_deep_are_refused() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer.from_array(START) for _ in range(2))
        deep = hints.recompute(16)
        wrapped = access.neighborhood(1, 1, wrap=True)
        cases: list[tuple[str, list[tuple[Any, Any, Any]]]] = [
            (
                r"up to \(31, 0\) items .*share of 48x12 items then grows to 1\.65 times as much, and 1\.5 is the most",
                [(SHAPE, CROSS, deep), (SHAPE, CROSS, deep)],
            ),
            ("different numbers of steps", [(SHAPE, CROSS, hints.recompute(2)), (SHAPE, CROSS, hints.recompute(3))]),
            ("but different index spaces", [(SHAPE, CROSS, deep), ((90, 12), CROSS, deep)]),
            ("around a periodic dimension", [(SHAPE, wrapped, hints.recompute(2))] * 2),
        ]
        for words, kernels in cases:

            def step(kernels: Any = kernels) -> None:
                for (shape, mapper, hint), (new, old) in zip(kernels, ((v, u), (u, v)), strict=True):
                    queue.parallel_for(shape, wave, new.read_write(ONE), old.read(mapper), 0.25, hints=hint)

            with pytest.raises(UsageError, match=words) as caught:
                queue.record(step)
            assert __file__ in str(caught.value)


def test_a_recording_that_reads_everything_it_writes_warns_that_nothing_is_saved() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer.from_array(START) for _ in range(2))

        def step() -> None:
            for new, old in ((v, u), (u, v)):
                submit_one(queue, wave, new.read_write(ONE), old.read(access.all()), 0.25)

        with pytest.warns(CelerityWarning, match=r"hints\.recompute\(2\) has no effect"):
            recorded = queue.record(step)
        assert recorded.halos is None
        queue.replay(recorded, 3)


def test_a_kernel_whose_result_depends_on_the_chunk_is_found_by_the_check() -> None:
    celerity.configure(devices="cpu:2", check=True)

    def shaped(chunk: Any, new: Any, old: Any) -> None:
        low = chunk.box.min[0] if chunk.box.shape[0] > 48 else 0
        new[chunk.box] = old[chunk.box] + np.float32(low)

    words = (
        r'kernel "shaped" .* has hints\.recompute\(2\), and rank 0 computes [\d.]+ in element \[\d+, 0\] of B\d+ "v", '
        r"where the owner of the element computes"
    )

    def run() -> None:
        with celerity.Queue() as queue:
            u, v = (celerity.Buffer.from_array(np.zeros(SHAPE, np.float32), name=name) for name in "uv")

            def step() -> None:
                for new, old in ((v, u), (u, v)):
                    submit_one(queue, shaped, new.write(ONE), old.read(CROSS))

            queue.replay(queue.record(step), 4)

    with pytest.raises(UsageError, match=words):
        run()
