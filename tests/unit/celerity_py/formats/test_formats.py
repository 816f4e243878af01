# SPDX-License-Identifier: MIT
"""Formats: what one writes box by box, it reads box by box, and the libraries of the formats read it alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from celerity_py import Box
from celerity_py.formats.choice import array_of, format_of
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.scheduler.errors import ResourceError, UsageError

SUFFIXES = (".zarr", ".h5", ".npy")
VALUES = np.arange(60.0).reshape(10, 3, 2)
MANY = 2**31 + 5  # elements, more than 32 bits count


def read_alone(path: Path, name: str) -> Any:
    """By the library of the format, without anything of ours."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zarr":
        return zarr.open_array(path / name, mode="r")[...]
    with h5py.File(path) as file:
        return file[name][...]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c8"])
def test_libraries_read_what_was_written_row_by_row(tmp_path: Path, suffix: str, dtype: str) -> None:
    path = tmp_path / f"u{suffix}"
    values = VALUES.astype(dtype)
    kind = format_of(path)
    array = StoredArray((10, 3), values.dtype, (2,))
    kind.create(path, {"u": array}, {}, 4)
    together = kind.rows_together(array, 4)
    for first in range(0, 10, together):
        rows = Box((first, 0), (min(10, first + together), 3))
        kind.write(path, "u", rows, values[rows.slices])
    np.testing.assert_array_equal(read_alone(path, "u"), values)
    box = Box((2, 1), (7, 3))
    read = array_of(path, None, (2,)).read(box)
    assert read.dtype == values.dtype
    np.testing.assert_array_equal(read, values[2:7, 1:3])


def test_a_folder_of_zarr_with_chunks_that_end_beyond_the_array_is_read_by_its_library_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoredArray, "chunk", lambda self, num_writers: (4, 2))
    path, values = tmp_path / "u.zarr", np.arange(35, dtype=">c8").reshape(7, 5)
    kind, array = format_of(path), StoredArray((7, 5), values.dtype)
    kind.create(path, {"u": array, "v": array}, {"t": 0.5}, 2)
    for rows in (slice(0, 4), slice(4, 7)):
        kind.write(path, "u", Box((rows.start, 0), (rows.stop, 5)), values[rows])
    group: Any = zarr.open_group(path, mode="r", use_consolidated=True)
    np.testing.assert_array_equal(group["u"][...], values)
    np.testing.assert_array_equal(group["v"][...], 0)
    assert (dict(group.attrs), group["u"].chunks, group["u"].dtype) == ({"t": 0.5}, (4, 2), np.dtype("c8"))
    assert {each.stat().st_size for each in (path / "u").glob("c.*")} == {4 * 2 * 8}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_single_values_and_empty_arrays_are_arrays_as_well(tmp_path: Path, suffix: str) -> None:
    for name, values in (("one", np.array(2.5)), ("none", np.zeros((0, 3)))):
        path = tmp_path / f"{name}{suffix}"
        kind = format_of(path)
        kind.create(path, {"u": StoredArray(values.shape, values.dtype)}, {}, 2)
        if not values.shape:
            kind.write(path, "u", Box((), ()), values)
        found = array_of(path, None, None)
        assert found.array == StoredArray(values.shape, values.dtype)
        np.testing.assert_array_equal(read_alone(path, "u"), values)
    np.testing.assert_array_equal(array_of(tmp_path / f"one{suffix}", None, None).read(Box((), ())), 2.5)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_array_of_more_elements_than_32_bits_count_is_written_and_read_at_its_end(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"u{suffix}"
    kind = format_of(path)
    array = StoredArray((MANY,), np.dtype(np.int8))
    kind.create(path, {"u": array}, {}, 2)
    last = MANY - MANY % kind.rows_together(array, 2) if suffix == ".zarr" else MANY - 3
    kind.write(path, "u", Box((last,), (MANY,)), np.arange(MANY - last).astype(np.int8) | 1)
    found = array_of(path, None, None)
    assert found.array.shape == (MANY,)
    np.testing.assert_array_equal(
        found.read(Box((MANY - 1,), (MANY,))), np.array([MANY - last - 1]).astype(np.int8) | 1
    )
    np.testing.assert_array_equal(found.read(Box((2**31 - 20_000_000,), (2**31 - 19_999_998,))), [0, 0])
    used = sum(file.stat().st_blocks for file in [path, *path.rglob("*")])
    assert used * 512 < 2**26  # the rest is a hole


def test_chunks_have_one_writer_and_bounded_size() -> None:
    for shape in [(1000, 1000, 1000), (7, 100_000, 1000), (2**33,), (3,), (0, 5)]:
        for writers in (1, 3, 8):
            array = StoredArray(shape, np.dtype(np.float64), (3,))
            chunk = array.chunk(writers)
            assert len(chunk) == len(shape) + 1
            assert np.prod(chunk, dtype=float) * 8 <= 2**24
            assert 1 <= chunk[0] <= max(1, -(-shape[0] // writers))
            assert all(1 <= c <= max(1, e) for c, e in zip(chunk, array.extents, strict=True))


def test_arrays_of_other_programs_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.asfortranarray(VALUES.astype(">f4")))
    found = array_of(tmp_path / "f.npy", None, None)
    read = found.read(Box((1, 0, 1), (3, 2, 2)))
    assert read.dtype == np.dtype("=f4")
    np.testing.assert_array_equal(read, VALUES[1:3, :2, 1:2])
    zarr.create_array(tmp_path / "bare.zarr", data=VALUES, zarr_format=2)
    np.testing.assert_array_equal(array_of(tmp_path / "bare.zarr", None, 2).read(Box((9, 2), (10, 3))), VALUES[9:, 2:])
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        file["fields/u"] = VALUES
        file["text"] = "no numbers"
    assert array_of(tmp_path / "deep.h5", "fields/u", None).array.shape == (10, 3, 2)


def test_mistakes_say_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r'u\.zarr cannot hold "u", whose elements are .*Zarr has numbers'):
        format_of(Path("u.zarr")).check(Path("u.zarr"), {"u": StoredArray((3,), np.dtype(np.longdouble))}, {})
    with pytest.raises(UsageError, match=r"u\.npz ends with '\.npz', which names no format: use \.zarr"):
        format_of(tmp_path / "u.npz")
    with pytest.raises(UsageError, match=r"There is no file or folder .*u\.npy.*queue\.barrier\(\) first"):
        array_of(tmp_path / "u.npy", None, None)
    for suffix in SUFFIXES:
        (tmp_path / f"text{suffix}").write_text("text")
        with pytest.raises(UsageError, match=rf"text\{suffix} is no "):
            array_of(tmp_path / f"text{suffix}", None, None)
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = VALUES, VALUES
    with pytest.raises(UsageError, match=r"two\.h5 has the arrays \['a', 'b'\]: name one"):
        array_of(tmp_path / "two.h5", None, None)
    with pytest.raises(UsageError, match=r"two\.h5 has no array 'c', but \['a', 'b'\]"):
        array_of(tmp_path / "two.h5", "c", None)
    with pytest.raises(UsageError, match=r"element=\(3,\), but its array has the extents \(10, 3, 2\)"):
        array_of(tmp_path / "two.h5", "a", 3)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ResourceError, match=r"two\.h5 needs h5py, .*pip install 'celerity_py\[io\]'"):
        array_of(tmp_path / "two.h5", "a", None)


def test_a_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", VALUES)
    with (tmp_path / "u.npy").open("r+b") as file:
        file.truncate(200)
    with pytest.raises(UsageError, match=r"u\.npy is no whole \.npy file"):
        array_of(tmp_path / "u.npy", None, None)
