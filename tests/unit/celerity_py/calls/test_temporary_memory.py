# SPDX-License-Identifier: MIT
"""The memory of large arrays that user functions make: it is kept for the next call, and no array notices."""

from __future__ import annotations

import contextvars
import random
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import _native, access
from tests.support.scripts import run

MIB = 1 << 20


def name_of_handler(array: Any = None) -> str:
    multiarray: Any = np._core.multiarray  # type: ignore[attr-defined]
    return str(multiarray.get_handler_name(*([] if array is None else [array])))


def keeping(function: Callable[[], Any]) -> Any:
    """The result of the function, with the setting of user functions."""

    def run() -> Any:
        _native.keep_temporary_memory()
        return function()

    return contextvars.copy_context().run(run)


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    _native.release_temporary_memory()
    yield
    _native.release_temporary_memory()


def test_arrays_of_kernels_and_host_tasks_have_it_and_those_of_the_program_do_not(queue: Any) -> None:
    seen = []

    def look(part: Any, view: Any) -> None:
        seen.append(name_of_handler(np.empty(MIB, np.uint8)))

    def program() -> str:
        u = celerity.Buffer.from_array(np.zeros(8))
        queue.parallel_for(8, look, u.read_write(access.one_to_one()))
        queue.host_task(look, u.read(access.all()))
        queue.wait()
        return name_of_handler()

    # Tests that call a binder on this thread leave the setting in its context.
    assert contextvars.Context().run(program) == "default_allocator"
    assert set(seen) == {"celerity_py"}


def test_calls_of_a_kernel_have_no_page_faults_for_their_temporaries(queue: Any) -> None:
    faults = []

    def step(chunk: Any, view: Any) -> None:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        view[chunk.box] = (view[chunk.box] + 1) * 2 - 1
        faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

    u = celerity.Buffer.from_array(np.zeros(2 * MIB))
    for _ in range(8):
        queue.parallel_for(u.shape, step, u.read_write(access.one_to_one()))
    queue.wait()
    # Without it, each call has faults. A call beside another one has some, if it is the first beside it.
    assert sorted(faults)[len(faults) * 2 // 3] < 100, faults


def test_zeros_are_zeros_in_a_block_that_had_other_numbers() -> None:
    def fill_then_ask_for_zeros() -> tuple[int, int, Any]:
        ones = np.ones(MIB)
        address = ones.ctypes.data
        del ones
        zeros = np.zeros(MIB)
        return address, zeros.ctypes.data, zeros

    first, second, zeros = keeping(fill_then_ask_for_zeros)
    assert first == second
    assert not zeros.any()


def test_kept_and_used_blocks_together_are_at_most_the_most_that_were_used_at_once() -> None:
    def use() -> None:
        for size in (10, 3, 7, 10, 1, 30, 2, 11, 29):
            arrays = [np.empty(size * MIB, np.uint8) for _ in range(2)]
            assert _native.kept_temporary_bytes() + 2 * size * MIB <= 60 * MIB
            del arrays
            assert _native.kept_temporary_bytes() <= 60 * MIB

    keeping(use)
    assert _native.kept_temporary_bytes() > 50 * MIB


def test_a_block_serves_an_array_that_is_a_little_smaller_but_not_one_of_half_its_size() -> None:
    def use() -> None:
        large = np.empty(8 * MIB, np.uint8)
        address = large.ctypes.data
        del large
        half = np.empty(3 * MIB, np.uint8)
        assert half.ctypes.data != address

    def use_again() -> None:
        large = np.empty(8 * MIB, np.uint8)
        address = large.ctypes.data
        del large
        assert np.empty(8 * MIB - 5000, np.uint8).ctypes.data == address

    keeping(use)
    keeping(use_again)


def test_the_end_of_the_last_queue_gives_kept_blocks_back_and_arrays_live_on() -> None:
    kept = []

    def step(chunk: Any, view: Any) -> None:
        kept.append(np.full(MIB, 7.0))
        view[chunk.box] = np.full(MIB, 3.0)[:8]

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(8))
        queue.parallel_for(8, step, u.read_write(access.one_to_one()))
        queue.wait()
        assert _native.kept_temporary_bytes() >= 8 * MIB
    assert _native.kept_temporary_bytes() == 0
    # Other tests may have left the setting on this thread.
    assert contextvars.Context().run(np.unique, kept[0]) == [7]
    kept.clear()
    assert _native.kept_temporary_bytes() == 0


@pytest.mark.parametrize(("before", "after"), [(MIB, 2 * MIB), (2 * MIB, MIB), (MIB, 9), (9, MIB), (60_000, 70_000)])
def test_an_array_that_is_resized_keeps_its_elements(before: int, after: int) -> None:
    def resize() -> Any:
        array = np.arange(before, dtype=np.uint16)
        array.resize(after, refcheck=False)
        return array

    array = keeping(resize)
    common = min(before, after)
    assert (array[:common] == np.arange(before, dtype=np.uint16)[:common]).all()
    assert not array[common:].any()


def test_threads_that_make_and_drop_arrays_never_share_a_block() -> None:
    mistakes: list[str] = []

    def work(seed: int) -> None:
        _native.keep_temporary_memory()
        chance = random.Random(seed)
        live: list[tuple[int, Any]] = []
        for number in range(400):
            value = seed * 1000 + number
            make = np.full if chance.random() < 0.5 else None
            size = chance.choice([100, 20_000, 70_000, 300_000])
            array = np.full(size, value) if make else np.zeros(size, int)
            if not make:
                if array.any():
                    mistakes.append(f"zeros of thread {seed} are not zero")
                array += value
            live.append((value, array))
            if len(live) > 5:
                value, array = live.pop(chance.randrange(len(live)))
                if not (array == value).all():
                    mistakes.append(f"array {value} was overwritten")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mistakes == []


def test_an_array_that_no_memory_is_left_for_raises_memory_error() -> None:
    with pytest.raises(MemoryError):
        keeping(lambda: np.empty(1 << 60, np.uint8))


def test_kept_blocks_go_if_memory_is_short(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        import resource
        def task(part, u, mebibytes):
            np.empty(mebibytes << 20, np.uint8)[::4096] = 1

        with celerity.Queue() as queue:
            u = celerity.Buffer.from_array(np.zeros(8))
            queue.host_task(task, u.read(access.all()), 1)
            queue.wait()
            space = int(open("/proc/self/statm").read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (space + (550 << 20),) * 2)
            for mebibytes in (200, 450):
                queue.host_task(task, u.read(access.all()), mebibytes)
                queue.wait()
        """,
    )
    assert result.returncode == 0, result.stderr
