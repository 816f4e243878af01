# SPDX-License-Identifier: MIT
"""`celerity.io.save`: buffers into a file or folder that others read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celerity_py.formats.choice import format_of, to_path
from celerity_py.formats.stored_arrays import Format, StoredArray
from celerity_py.formats.zarr_folders import ZARR_MARKS
from celerity_py.io.publishing import Leftovers, Partial, explained
from celerity_py.io.writing import Share, check_contents, files_of, runtime_of, stored, submit_writing
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.integers import to_flag

if TYPE_CHECKING:
    from celerity_py.buffer import Buffer
    from celerity_py.queue import Queue

_CALL = "celerity.io.save()"


def save(
    queue: Queue,
    path: str | os.PathLike[str],
    buffers: Mapping[str, Buffer[Any]],
    *,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Write buffers as they are at this point of the program, behind its back. Collective.

    Host tasks write, while later kernels run. A kernel that writes a buffer waits until the host has its copy. Each
    rank needs host memory for its share of the buffers. The file or folder gets its name when the disk has all of it.
    Until then it is called `.NAME.NUMBER.partial`, and the first call with this name in a later run removes what a
    killed program has left there.

    Args:
        queue: Whose priority the tasks have.
        path: Its suffix names the format: `.zarr` or none for a folder of Zarr, `.h5` or `.hdf5` for a file of HDF5,
            `.npy` for one array. All ranks need to see it. The folder around it exists.
        buffers: By the name of the array in the file. Dimensions of an element stand behind those of the shape.
        attrs: Attributes of the file, of values that JSON has. HDF5 takes numbers, lists of numbers and strings.
        overwrite: Whether a file or folder of Zarr of this name may be replaced, as soon as the new one is whole.

    Raises:
        ArgumentTypeError: If an argument has another type.
        ResourceError: If the library of the format is not installed. A disk that is full, or another error of the
            operating system, is a failure of the host task, which later calls raise; no file of this name appears.
        UsageError: If the name is taken, the suffix names no format, or the format cannot hold the arrays.
        NestedUse: If called inside of a kernel, host task, mapper or callback.
        CelerityError: If an earlier task failed.
    """
    runtime = runtime_of(queue, _CALL)
    check_contents(runtime, buffers, _CALL)
    attrs = check_attrs(attrs, _CALL)
    target = to_path(path, _CALL)
    kind = format_of(target)
    arrays = {name: stored(buffer) for name, buffer in buffers.items()}
    kind.check(target, arrays, attrs)
    may_replace = to_flag(overwrite, f"{_CALL} overwrite=")
    files = files_of(runtime)
    _check_target(target, files.saved, may_replace=may_replace)
    files.saved.add(target)
    writer = _FileWriter(target, kind, arrays, attrs, runtime.size, leftovers=files.leftovers, may_replace=may_replace)
    submit_writing(
        queue,
        writer,
        buffers,
        lambda name: kind.rows_together(arrays[name], runtime.size),
        f"save {target.name}",
        sys._getframe(1),
    )


def check_attrs(attrs: Any, call: str) -> dict[str, Any]:
    """The attributes, which JSON can hold.

    Raises:
        UsageError: If it cannot.
    """
    try:
        given = dict(attrs or {})
        restored: dict[str, Any] = json.loads(json.dumps(given))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{call} got attrs={attrs!r}, which JSON cannot hold: {error}. It holds numbers, strings, lists and "
            f"dictionaries of Python."
        ) from error
    if restored.keys() != given.keys():
        raise UsageError(f"{call} got attrs={attrs!r}, whose keys are not all strings.")
    return restored


def _check_target(target: Path, saved: set[Path], *, may_replace: bool) -> None:
    if not target.parent.is_dir():
        raise UsageError(
            f"There is no folder {target.parent} for {target.name}. Make it first, on a disk of all ranks."
        )
    if may_replace:
        if target.is_dir() and not any((target / name).exists() for name in ZARR_MARKS):
            raise UsageError(f"{target} is a folder, but none of Zarr: it is not replaced. Choose another name.")
        return
    if target in saved or target.exists():
        raise UsageError(
            f"{target} is there already{' or is being written' if target in saved else ''}. Choose another name, or "
            f"pass overwrite=True."
        )


class _FileWriter:
    """See `Writer`."""

    def __init__(
        self,
        path: Path,
        kind: Format,
        arrays: dict[str, StoredArray],
        attrs: dict[str, Any],
        size: int,
        *,
        leftovers: Leftovers,
        may_replace: bool,
    ) -> None:
        self.is_written_in_turn = kind.is_written_in_turn
        self.name = path.name
        self._path, self._kind, self._arrays, self._attrs = path, kind, arrays, attrs
        self._size, self._leftovers, self._may_replace = size, leftovers, may_replace
        self._remedy = f"No file of the name {path} was made or changed. Look at its disk, and save it again."

    def begin(self, attempt: int) -> None:
        """See `Writer`."""
        place = Partial(self._path, attempt).place
        with explained(f"rank 0 cannot make {self._path}", self._remedy, place):
            self._leftovers.remove_of(self._path)
            self._kind.create(place, self._arrays, self._attrs, self._size)

    def write(self, attempt: int, rank: int, shares: Iterable[Share], objects: Mapping[str, Any]) -> None:
        """See `Writer`."""
        place = Partial(self._path, attempt).place
        removed = place if self._size == 1 else None  # other ranks may be writing
        for name, box, contents in shares:
            rows = f"rows {box.min[0]} to {box.max[0]} of " if box.ndim else ""
            with explained(f'rank {rank} cannot write {rows}"{name}" to {self._path}', self._remedy, removed):
                self._kind.write(place, name, box, contents)

    def finish(self, attempt: int) -> None:
        """See `Writer`."""
        partial = Partial(self._path, attempt)
        with explained(f"rank 0 cannot finish {self._path}", self._remedy, partial.place):
            partial.publish(overwrite=self._may_replace)
