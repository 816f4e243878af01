# SPDX-License-Identifier: MIT
"""`celerity.io.save` and `load`, and `Buffer.from_file`: what is written when, what is read, and what mistakes say."""

from __future__ import annotations

import os
import resource
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import ArgumentTypeError, ResourceError, UsageError
from celerity_py.formats.npy import Npy
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.formats.zarr_folders import Zarr

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = np.arange(60.0).reshape(10, 6)
MATRICES = np.arange(36, dtype=np.int32).reshape(4, 3, 3)


@celerity.kernel
def double(chunk: Any, u: Any) -> None:
    u[chunk.box] *= 2


@celerity.kernel
def copy(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = u[chunk.box]


@pytest.mark.parametrize("suffix", [".zarr", "", ".h5"])
def test_a_file_has_the_state_at_its_point_of_the_program(queue: celerity.Queue, tmp_path: Path, suffix: str) -> None:
    u = celerity.Buffer.from_array(VALUES, name="u")
    v = celerity.Buffer.from_array(MATRICES, element=(3, 3))
    s = celerity.Buffer.from_array(np.array(True))
    for step in range(3):
        path = tmp_path / f"state{step}{suffix}"
        celerity.io.save(queue, path, {"u": u, "v": v, "s.0": s}, attrs={"step": step, "name": "x", "sizes": [1, 2]})
        queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()))
    queue.barrier()
    for step in range(3):
        loaded = celerity.io.load(tmp_path / f"state{step}{suffix}")
        assert list(loaded) == ["s.0", "u", "v"]
        assert loaded.attrs == {"step": step, "name": "x", "sizes": [1, 2]}
        assert loaded["v"].element == (3, 3)
        np.testing.assert_array_equal(queue.fence(loaded["u"]).result(), VALUES * 2**step)
        np.testing.assert_array_equal(queue.fence(loaded["v"]).result(), MATRICES)
        assert queue.fence(loaded["s.0"]).result()
    assert not list(tmp_path.glob(".*"))  # no partial files are left


def test_a_device_reads_the_rows_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes: list[Box] = []
    read = Npy.read

    def note(self: Npy, path: Path, name: str, box: Box) -> Any:
        boxes.append(box)
        return read(self, path, name, box)

    monkeypatch.setattr(Npy, "read", note)
    np.save(tmp_path / "u.npy", VALUES)
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_file(tmp_path / "u.npy")
        assert (u.name, u.shape, u.dtype) == ("u", (10, 6), np.dtype(np.float64))
        out = celerity.Buffer(u.shape, u.dtype)
        middle = Box((4, 0), (8, 6))
        queue.parallel_for(middle, copy, out.write(access.one_to_one()), u.read(access.one_to_one()))
        np.testing.assert_array_equal(queue.fence(out, middle).result(), VALUES[4:8])
    assert boxes
    assert all(box in middle for box in boxes)
    assert sum(box.size for box in boxes) == middle.size


def test_the_end_of_a_file_of_more_elements_than_32_bits_count_is_read(queue: celerity.Queue, tmp_path: Path) -> None:
    path, size = tmp_path / "large.npy", 3 * 10**9 + 7
    Npy().create(path, {"large": StoredArray((size,), np.dtype(np.int8))}, {}, 1)
    Npy().write(path, "large", Box((size - 3,), (size,)), np.array([1, 2, 3], np.int8))
    u = celerity.Buffer.from_file(path)
    out, end = celerity.Buffer(u.shape, u.dtype), Box((size - 4,), (size,))
    queue.parallel_for(end, copy, out.write(access.one_to_one()), u.read(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(out, end).result(), [0, 1, 2, 3])


def test_a_name_that_is_taken_is_refused_and_replaced_on_demand(queue: celerity.Queue, tmp_path: Path) -> None:
    u = celerity.Buffer.from_array(VALUES, name="u")
    for path in (tmp_path / "u.npy", tmp_path / "u.zarr"):
        celerity.io.save(queue, path, {"u": u})
        with pytest.raises(UsageError, match=rf"{path.name} is there already or is being written.*overwrite=True"):
            celerity.io.save(queue, path, {"u": u})
        queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()))
        celerity.io.save(queue, path, {"u": u}, overwrite=True)
        queue.barrier()
        expected = queue.fence(u).result()
        np.testing.assert_array_equal(queue.fence(celerity.Buffer.from_file(path)).result(), expected)
    assert not list(tmp_path.glob(".*"))


def test_what_killed_programs_left_of_a_name_is_removed_and_nothing_else(queue: celerity.Queue, tmp_path: Path) -> None:
    u = celerity.Buffer.from_array(VALUES, name="u")
    for name in (".u.1f03.partial", ".u.npy.1f03.partial", ".v.7.partial"):
        (tmp_path / name).write_bytes(b"left")
    celerity.io.save(queue, tmp_path / "u", {"u": u})
    queue.barrier()
    assert {path.name for path in tmp_path.iterdir()} == {"u", ".u.npy.1f03.partial", ".v.7.partial"}
    celerity.io.save(queue, tmp_path / "u.npy", {"u": u})
    queue.barrier()
    assert {path.name for path in tmp_path.iterdir()} == {"u", "u.npy", ".v.7.partial"}


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5"])
def test_the_disk_has_all_of_a_file_before_its_name(
    queue: celerity.Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    synced: set[Path] = set()
    unsynced: list[Path] = []
    sync, replace = os.fsync, Path.replace

    def note(number: int) -> None:
        synced.add(Path(f"/proc/self/fd/{number}").readlink())
        sync(number)

    def look(path: Path, target: Path) -> Path:
        if tmp_path in path.parents:  # libraries have files elsewhere
            unsynced.extend(each for each in (path, *path.rglob("*")) if each not in synced)
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "replace", look)
    celerity.io.save(queue, tmp_path / f"u{suffix}", {"u": celerity.Buffer.from_array(VALUES, name="u")})
    queue.barrier()
    assert tmp_path in synced
    assert not unsynced


@pytest.mark.parametrize("name", ["results", "u.npy"])
def test_a_folder_that_is_none_of_zarr_is_not_replaced(queue: celerity.Queue, tmp_path: Path, name: str) -> None:
    (tmp_path / name / "thesis").mkdir(parents=True)
    with pytest.raises(UsageError, match=rf"{name} is a folder, but none of Zarr: it is not replaced"):
        celerity.io.save(queue, tmp_path / name, {"u": celerity.Buffer.from_array(VALUES)}, overwrite=True)
    assert (tmp_path / name / "thesis").is_dir()


@contextmanager
def file_limit(num_bytes: int) -> Iterator[None]:
    """As if the disk were full behind so many bytes of a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("suffix", [".npy", ".zarr", ".h5"])
def test_a_full_disk_is_an_error_and_the_old_file_stays(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"u{suffix}"
    with celerity.Queue() as queue:
        celerity.io.save(queue, path, {"u": celerity.Buffer.from_array(VALUES, name="u")})
    large = np.ones(10**6)
    queue = celerity.Queue()
    with file_limit(10**6):
        celerity.io.save(queue, path, {"u": celerity.Buffer.from_array(large)}, overwrite=True)
        with pytest.raises(ResourceError, match="rank 0 cannot ") as caught:
            queue.wait()
    assert f"No file of the name {path} was made or changed" in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]  # the room on the disk is free again
    assert "test_files.py" in str(caught.value)
    with celerity.Queue() as queue:
        np.testing.assert_array_equal(queue.fence(celerity.Buffer.from_file(path)).result(), VALUES)
        celerity.io.save(queue, path, {"u": celerity.Buffer.from_array(large)}, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]  # what the failed attempt had left is gone


def test_mistakes_of_save_and_load(queue: celerity.Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    u = celerity.Buffer.from_array(VALUES, name="u")
    odd = celerity.Buffer.from_array(np.zeros(3, [("a", "f4")]), name="odd")
    save = celerity.io.save
    for contents, message in (
        (u, "takes a mapping from names to buffers"),
        ({}, "got no buffers"),
        ({"u": VALUES}, "takes buffers, but 'u' is array"),
        ({"../u": u}, r"got the name '\.\./u'"),
        ({"": u}, "got the name ''"),
        ({"odd": odd}, 'cannot hold "odd", whose elements are .*Zarr has numbers'),
    ):
        with pytest.raises(UsageError, match=message):
            save(queue, tmp_path / "u.zarr", contents)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="takes a queue first"):
        save({"u": u}, tmp_path / "u.zarr", queue)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"There is no folder .*/deep for u\.zarr"):
        save(queue, tmp_path / "deep/u.zarr", {"u": u})
    with pytest.raises(UsageError, match=r"got 2 buffers, but a \.npy file holds one array alone"):
        save(queue, tmp_path / "u.npy", {"u": u, "v": u})
    with pytest.raises(UsageError, match=r"got the attributes \['t'\], but a \.npy file"):
        save(queue, tmp_path / "u.npy", {"u": u}, attrs={"t": 1})
    with pytest.raises(UsageError, match="which JSON cannot hold"):
        save(queue, tmp_path / "u.zarr", {"u": u}, attrs={"t": u.shape, "x": object()})
    with pytest.raises(UsageError, match=r"cannot hold the attribute t=\{'a': 1\}"):
        save(queue, tmp_path / "u.h5", {"u": u}, attrs={"t": {"a": 1}})
    with pytest.raises(UsageError, match="record"):
        queue.record(lambda: save(queue, tmp_path / "u.zarr", {"u": u}))
    for library, name in {"zarr": "u.zarr", "h5py": "u.h5"}.items():
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ResourceError, match=rf"{name} needs {library}, .*pip install 'celerity_py\[io\]'"):
            save(queue, tmp_path / name, {"u": u})
    queue.wait()
    assert not list(tmp_path.iterdir())


def test_files_are_written_beside_the_next_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write, write = threading.Event(), Npy.write

    def write_later(*given: Any) -> None:
        assert may_write.wait(30)
        write(*given)

    monkeypatch.setattr(Npy, "write", write_later)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(VALUES, name="u")
        celerity.io.save(queue, tmp_path / "u.npy", {"u": u})
        queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()))
        np.testing.assert_array_equal(queue.fence(u).result(), VALUES * 2)  # while the file is not written yet
        may_write.set()
    np.testing.assert_array_equal(np.load(tmp_path / "u.npy"), VALUES)


def test_the_live_view_tells_how_far_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write = {name: threading.Event() for name in ("u", "v")}
    begun, write = Queue[str](), Zarr.write

    def write_later(self: Zarr, path: Path, name: str, box: Box, contents: Any) -> None:
        begun.put(name)
        assert may_write[name].wait(30)
        write(self, path, name, box, contents)

    monkeypatch.setattr(Zarr, "write", write_later)
    celerity.configure(live=True)
    with celerity.Queue() as queue:
        live_view = queue._runtime.live_view
        assert live_view is not None
        u = celerity.Buffer.from_array(np.ones((1 << 10, 1 << 7)), name="u")
        contents = {"u": u, "v": celerity.Buffer.from_array(MATRICES.astype(np.float64), name="v")}
        for number in range(3):
            celerity.io.save(queue, tmp_path / f"frame{number}.zarr", contents)
        told = []
        for name, event in may_write.items():
            assert begun.get(timeout=30) == name
            assert live_view.writing is not None
            told.append(live_view.writing.tell())
            event.set()
        queue.wait()
        assert told == ["frame0.zarr, 0 B of 1 MiB, and 2 more", "frame0.zarr, 1 MiB of 1 MiB, and 2 more"]
        assert live_view.writing is not None
        assert not live_view.writing.tell()
