# SPDX-License-Identifier: MIT
"""Arrays, views and reducers that a kernel or host task keeps beyond its return."""

from __future__ import annotations

import concurrent.futures
import ctypes
import functools
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py._native import BoundAccess, BoundPart, BoundReduction, Box
from celerity_py.calls.binder import Binder
from celerity_py.errors import KeptArray
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.vocabulary.accesses import READ, READ_WRITE, Port
from celerity_py.vocabulary.parts import Chunk
from celerity_py.vocabulary.submissions import Submission
from tests.support.scripts import line_of, run

SHAPE = (4, 6)


class FakeRecord:
    def __init__(self) -> None:
        self.id = 3
        self.shape = SHAPE
        self.dtype = np.dtype(np.float64)
        self.box = Box((0, 0), SHAPE)
        self.label = 'B3 "u"'
        self.runtime = None
        self.arrays: dict[Any, Any] = {}
        self.checks_values = False


RECORD: Any = FakeRecord()
MEMORY = np.arange(24, dtype=np.float64).reshape(SHAPE)


def call(function: Callable[..., Any], modes: tuple[int, ...] = (READ_WRITE,)) -> None:
    """Call a kernel with views of MEMORY, as a launcher thread does."""
    flat = RECORD.box.flat()
    binding = BoundAccess(3, (1, 9), MEMORY.__array_interface__["data"][0], flat, flat, [flat])
    ports = [Port(RECORD, mode) for mode in modes]
    submission = Submission("kernel", "step", function, ports, RECORD.box, sys._getframe())
    Binder().call(submission, Chunk(RECORD.box, RECORD.box, 0, None, np), [binding] * len(modes), ())


def call_with_parts(function: Callable[..., Any]) -> None:
    """Call a kernel with a view of a periodic access: MEMORY lies at both sides of a larger buffer."""
    record: Any = FakeRecord()
    rows, columns = SHAPE
    address = MEMORY.__array_interface__["data"][0]
    boxes = [record.box.flat(), Box((10 * rows, 0), (11 * rows, columns)).flat()]
    parts = [BoundPart((1, 9 + n), address, box, box) for n, box in enumerate(boxes)]
    whole = Box((0, 0), (11 * rows, columns))
    record.box = whole
    binding = BoundAccess(3, (1, 0), 0, boxes[0], whole.flat(), boxes, parts)
    submission = Submission("kernel", "step", function, [Port(record, READ)], whole, sys._getframe())
    Binder().call(submission, Chunk(whole, whole, 0, None, np), [binding], ())


def test_arrays_of_each_part_of_a_periodic_view_are_found() -> None:
    rows = SHAPE[0]
    seen = []
    call_with_parts(lambda chunk, u: seen.append(float(u[10 * rows, 0] + u[1, 1])))
    assert seen == [MEMORY[0, 0] + MEMORY[1, 1]]
    for first in (0, 10 * rows):
        with pytest.raises(KeptArray, match=r'array that it has taken from its view of B3 "u"'):
            call_with_parts(lambda chunk, u, first=first: KEPT.append(u[first, :]))
        KEPT.clear()
    call_with_parts(lambda chunk, u: KEPT.append(u))
    with pytest.raises(KeptArray, match="has returned"):
        _ = KEPT[0][0, :]


class Holder:
    pass


KEPT: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    KEPT.clear()


def generate(view: Any) -> Iterator[Any]:
    array = view[...]
    yield array[0]
    yield array[1]


def start(view: Any) -> Any:
    generator = generate(view)
    next(generator)
    return generator


def failed(view: Any) -> Any:
    array = view[...]
    try:
        return array[100]
    except IndexError as error:
        return error


def closure_over(array: Any) -> Any:
    return lambda: array


def in_object(view: Any) -> Any:
    holder = Holder()
    holder.array = view[...]  # type: ignore[attr-defined]
    return holder


WAYS_TO_KEEP: dict[str, Callable[[Any], Any]] = {
    "array": lambda view: view.array,
    "box": lambda view: view[Box((1, 1), (3, 3))],
    "element": lambda view: view[1, 1],
    "part of a part": lambda view: view[1:][0][2:4],
    "transposed": lambda view: view[...].T,
    "reshaped": lambda view: view[...].reshape(-1),
    "other type": lambda view: view[...].view(np.uint8),
    "real part": lambda view: view[...].real,
    "broadcast": lambda view: np.broadcast_to(view[0], (3, 6)),
    "strided": lambda view: np.lib.stride_tricks.as_strided(view[...], (2,), (8,)),
    "asarray of a view": np.asarray,
    "masked": lambda view: np.ma.array(view[...], copy=False),
    "record array": lambda view: view[...].view(np.recarray),
    "memoryview": lambda view: memoryview(view[...]),
    "array of a memoryview": lambda view: np.asarray(memoryview(view[...])),
    "dlpack capsule": lambda view: view[...].__dlpack__(),
    "from dlpack": lambda view: np.from_dlpack(view[...]),
    "array struct": lambda view: view[...].__array_struct__,
    "pointer of ctypes": lambda view: view[...].ctypes.data_as(ctypes.c_void_p),
    "from buffer": lambda view: ctypes.c_byte.from_buffer(view[...]),
    "iterator": lambda view: iter(view[...]),
    "flat": lambda view: view[...].flat,
    "nditer": lambda view: np.nditer(view[...]),
    "closure": lambda view: closure_over(view[...]),
    "partial": lambda view: functools.partial(np.sum, view[...]),
    "method": lambda view: view[...].sum,
    "dictionary": lambda view: {"a": [view[...]]},
    "object": in_object,
    "generator": start,
    "traceback": failed,
}


@pytest.mark.parametrize("keep", WAYS_TO_KEEP.values(), ids=WAYS_TO_KEEP)
@pytest.mark.parametrize("position", [0, 1])
def test_an_array_that_is_kept_is_an_error(keep: Callable[[Any], Any], position: int) -> None:
    modes = [READ_WRITE, READ_WRITE]
    with pytest.raises(KeptArray) as caught:
        call(lambda chunk, *views: KEPT.append(keep(views[position])), tuple(modes))
    expected = r'kernel "step" \(submitted at .*test_kept_arrays\.py:\d+\) keeps an array .* from its view of B3 "u": '
    assert caught.match(expected + r".*Keep a copy: view\[box\]\.copy\(\)\.")


def test_an_array_of_a_read_access_is_found_too_and_is_read_only() -> None:
    def keep(chunk: Any, view: Any) -> None:
        KEPT.append(view[...])

    with pytest.raises(KeptArray):
        call(keep, (READ,))
    assert not KEPT[0].flags.writeable


def test_an_array_that_a_thread_still_uses_is_an_error() -> None:
    release = threading.Event()

    def work(array: Any) -> None:
        assert release.wait(30)
        array.sum()

    def begin(chunk: Any, view: Any) -> None:
        KEPT.append(threading.Thread(target=work, args=(view[...],)))
        KEPT[0].start()

    with pytest.raises(KeptArray):
        call(begin)
    release.set()
    KEPT[0].join()


def in_a_cycle(view: Any) -> None:
    holder: list[Any] = [view[...]]
    holder.append(holder)


def exception_in_a_cycle(view: Any) -> None:
    array = view[...]
    try:
        array[100]
    except IndexError as error:
        kept = error  # refers to its traceback, which refers to this frame
    assert kept is not None


def finished_threads(view: Any) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(np.sum, [view[0], view[1]])) == MEMORY[:2].sum()


POOL = concurrent.futures.ThreadPoolExecutor(2)

WAYS_TO_LET_GO: dict[str, Callable[[Any], Any]] = {
    "copy": lambda view: view[...].copy(),
    "number": lambda view: view.array[1, 1],
    "result": lambda view: view[...] + 1,
    "list": lambda view: view[...].tolist(),
    "bytes": lambda view: view[...].tobytes(),
    "weak reference": lambda view: weakref.ref(view[...]),
    "cycle": in_a_cycle,
    "exception": exception_in_a_cycle,
    "threads": finished_threads,
    "threads that stay": lambda view: list(POOL.map(np.sum, [view[0], view[1]])),
    "generator at its end": lambda view: len(list(generate(view))),
    "box": lambda view: view.box,
    "dtype": lambda view: view[...].dtype,
}


@pytest.mark.parametrize("use", WAYS_TO_LET_GO.values(), ids=WAYS_TO_LET_GO)
def test_what_does_not_alias_the_memory_may_be_kept(use: Callable[[Any], Any]) -> None:
    for _ in range(20):
        call(lambda chunk, *views: KEPT.append([use(view) for view in views]), (READ_WRITE, READ_WRITE))


def test_a_cycle_is_found_to_be_garbage_although_it_is_old() -> None:
    def survive(chunk: Any, view: Any) -> None:
        in_a_cycle(view)
        holder: list[Any] = [view[...]]
        holder.append(holder)
        gc.collect()  # what is alive now is old

    call(survive)


def test_what_the_kernel_raises_comes_first() -> None:
    def fail(chunk: Any, view: Any) -> None:
        KEPT.append(view[...])
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        call(fail)


def test_a_view_that_is_kept_cannot_be_used_any_more() -> None:
    call(lambda chunk, *views: KEPT.extend(views), (READ_WRITE, READ))
    uses: list[Callable[[Any], Any]] = [
        lambda view: view[...],
        lambda view: view[Box((0, 0), (1, 1))],
        lambda view: view[1, 1],
        lambda view: view.__setitem__(..., 1),
        lambda view: view.array,
        np.asarray,
    ]
    for view in KEPT:
        for use in uses:
            with pytest.raises(KeptArray, match=r'view of B3 "u" is used although kernel "step" .* has returned'):
                use(view)
        assert "view of B3" in repr(view)


def test_a_reducer_that_is_kept_cannot_be_used_any_more() -> None:
    record: Any = FakeRecord()
    record.shape = (1,)
    partial = np.zeros(())
    function = lambda chunk, out: (out.combine(2), KEPT.append(out))  # noqa: E731
    submission = Submission("kernel", "add", function, [ReductionPort(record, "sum")], Box((), ()), sys._getframe())
    chunk = Chunk(Box((), ()), Box((), ()), 0, None, np)
    Binder().call(submission, chunk, (), [BoundReduction(partial.__array_interface__["data"][0])])
    with pytest.raises(KeptArray, match=r'reducer into B3 "u" is used although kernel "add" .* has returned'):
        KEPT[0].combine(1)
    assert partial == 2
    assert "after its kernel" in repr(KEPT[0])


@pytest.mark.parametrize("kind", ["kernel", "host task"])
@pytest.mark.parametrize("devices", ["cpu:1", "cpu:3"])
def test_a_run_in_which_an_array_is_kept_fails_and_the_array_can_be_looked_at(
    kind: str, devices: str, tmp_path: Path
) -> None:
    submit = "queue.parallel_for(u.shape, keep, u.read(access.one_to_one()))"
    if kind == "host task":
        submit = "queue.host_task(keep, u.read(access.all()))"
    result = run(
        tmp_path,
        f"""
        celerity.configure(devices="{devices}")
        kept = []

        def keep(part, u):
            kept.append(u[part.box] if part.box.ndim else u[...])

        try:
            with celerity.Queue() as queue:
                u = celerity.Buffer.from_array(np.ones(3 * 1024 * 1024), name="u")
                {submit}
                queue.wait()
                del u
                for _ in range(30):
                    other = celerity.Buffer(3 * 1024 * 1024, np.float64)
                    queue.parallel_for(other.shape, lambda chunk, v: v.array.fill(7), other.write(access.one_to_one()))
                    queue.wait()
        except errors.KeptArray as error:
            print(kept[0].max(), error)
        """,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"1.0 rank 0: task 'keep' failed: KeptArray: {kind} \"keep\"")
    assert f"(submitted at {line_of(tmp_path, submit)}) keeps an array" in result.stdout


def test_a_program_may_use_its_views_in_every_way_for_as_long_as_a_call_takes() -> None:
    @celerity.kernel
    def step(chunk: Any, out: Any, u: Any) -> None:
        rows = [u[row, :] for row in range(chunk.box.min[0], chunk.box.max[0])]
        out[chunk.box.min[0] : chunk.box.max[0]] = np.stack([memoryview(row) for row in rows]) + 1

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros((8, 4)), name="u")
        out = celerity.Buffer.from_array(np.zeros((8, 4)), name="out")
        for _ in range(50):
            queue.parallel_for(8, step, out.write(access.slice(1)), u.read(access.slice(1)))
            u, out = out, u
        assert (queue.fence(u).result() == 50).all()
