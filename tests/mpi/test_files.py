# SPDX-License-Identifier: MIT
"""Files and checkpoints of several ranks, and what a signal of one rank tells all of them."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mpi

VALUES = np.arange(48 * 5.0).reshape(48, 5)


@pytest.fixture
def queue() -> Iterator[celerity.Queue]:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None)


@pytest.fixture
def folder() -> Iterator[Path]:
    """The same on all ranks."""
    from mpi4py import MPI

    made = tempfile.mkdtemp() if MPI.COMM_WORLD.rank == 0 else None
    path = Path(MPI.COMM_WORLD.bcast(made))
    yield path
    MPI.COMM_WORLD.Barrier()
    if made is not None:
        shutil.rmtree(path)


@celerity.kernel
def smooth(chunk: Any, out: Any, u: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1, 0)
    out[inner] += u[inner.shift(-1, 0)] - u[inner.shift(1, 0)]


def advance(queue: celerity.Queue, states: list[celerity.Buffer[Any]]) -> None:
    out, u = states
    queue.parallel_for(
        u.shape, smooth, out.read_write(access.one_to_one()), u.read(access.neighborhood(1, 0, shape="axes"))
    )
    states.reverse()


@pytest.mark.parametrize("suffix", [".zarr", ".h5", ".npy"])
def test_all_ranks_write_one_file_that_each_reads_alone(queue: celerity.Queue, folder: Path, suffix: str) -> None:
    states = [celerity.Buffer.from_array(VALUES, name="u"), celerity.Buffer.from_array(VALUES[::-1].copy())]
    expected = []
    for step in range(2):
        advance(queue, states)
        celerity.io.save(queue, folder / f"u{step}{suffix}", {"u": states[0]})
        expected.append(queue.fence(states[0]).result())
        advance(queue, states)
    queue.barrier()
    for step in range(2):
        path = folder / f"u{step}{suffix}"
        np.testing.assert_array_equal(queue.fence(celerity.Buffer.from_file(path)).result(), expected[step])
    if suffix == ".zarr":
        import zarr

        rows = zarr.open_array(path / "u", mode="r").chunks[0]
        assert rows == -(-48 // celerity.size())  # each rank has a chunk of its own
    if suffix == ".npy":
        np.testing.assert_array_equal(np.load(path), expected[1])


def test_a_run_goes_on_from_a_checkpoint_with_the_same_bits(queue: celerity.Queue, folder: Path) -> None:
    states = [celerity.Buffer.from_array(VALUES), celerity.Buffer.from_array(VALUES[::-1].copy())]
    log = celerity.HostObject([celerity.rank()])
    for step in range(1, 6):
        advance(queue, states)
        celerity.checkpoint(queue, folder, {"a": states[0], "b": states[1], "log": log}, step=step, keep=3)
    queue.barrier()
    restored = celerity.restore(folder, step=3)
    assert (restored.step, len(list(folder.iterdir()))) == (3, 3)
    again = [restored["a"], restored["b"]]
    for _ in range(2):
        advance(queue, again)
    for known, new in zip(states, again, strict=True):
        assert queue.fence(known).result().tobytes() == queue.fence(new).result().tobytes()
    assert queue.fence(restored["log"]).result() == [celerity.rank()]


@pytest.mark.parametrize("every", [1, 8])
def test_all_ranks_stop_at_the_same_call(queue: celerity.Queue, every: int) -> None:
    from mpi4py import MPI

    stopped = None
    for call in range(200):
        if celerity.stop_requested(every=every):
            stopped = call
            break
        if call == 17 and celerity.rank() == celerity.size() - 1:
            signal.raise_signal(signal.SIGUSR1)
    assert stopped is not None
    assert 17 < stopped <= 17 + 2 * every + 1
    assert set(MPI.COMM_WORLD.allgather(stopped)) == {stopped}
    assert celerity.stop_requested(every=every)


def test_ranks_that_restore_nothing_agree(queue: celerity.Queue, folder: Path) -> None:
    assert celerity.restore(folder, missing_ok=True) is None
    with pytest.raises(celerity.UsageError, match="has no complete checkpoint"):
        celerity.restore(folder)
