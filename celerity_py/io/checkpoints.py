# SPDX-License-Identifier: MIT
"""`celerity.checkpoint`: the state of a program, from which it goes on later on any number of ranks.

A folder of checkpoints has a folder per step. That has a file of NumPy per buffer and rank, a pickled object per host
object and rank, and a manifest, which is written last. The folder gets the name of its step when the disk has it all.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

import numpy as np

from celerity_py._native import Box
from celerity_py.buffer import Buffer
from celerity_py.formats.disk import write_whole
from celerity_py.formats.npy import write_npy
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.io.memory_snapshots import SHARED_MEMORY, folder_of, is_memory, warn_of_none
from celerity_py.io.publishing import Partial, explained, remove
from celerity_py.io.saving import check_attrs
from celerity_py.io.writing import (
    FilesOfRun,
    Share,
    check_contents,
    files_of,
    rows_of,
    runtime_of,
    stored,
    submit_writing,
)
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.integers import to_int

if TYPE_CHECKING:
    from celerity_py.host_objects import HostObject
    from celerity_py.queue import Queue

MANIFEST: Final = "manifest.json"
LAYOUT: Final = 1
_CALL: Final = "celerity.checkpoint()"
_STEP_NAME = re.compile(r"step-(\d+)")


def checkpoint(
    queue: Queue,
    to: str | os.PathLike[str],
    contents: Mapping[str, Buffer[Any] | HostObject[Any]],
    *,
    step: SupportsIndex,
    attrs: Mapping[str, Any] | None = None,
    keep: SupportsIndex | None = None,
) -> None:
    """Write the state of the program at this point behind its back, for `restore`. Collective.

    Host tasks write, on threads of the runtime, while later kernels run. A kernel that writes a buffer waits until the
    host has its copy. Each rank needs host memory for its share of the buffers. A checkpoint is complete, or not there:
    an interrupted one is left out by `restore`, and the next call removes it. Older checkpoints of the folder stay
    until this one is complete.

    Args:
        queue: Whose priority the tasks have.
        to: A folder for the checkpoints of this program alone; made if it is not there. All ranks need to see it. Or
            "memory": host memory that `celerity-py run --restarts` keeps until its end, also when ranks fail or are
            killed. Without that command nothing is written, with a warning. All ranks are on one host then.
        contents: Buffers and host objects by name. The object of each rank is pickled, or what its method `state()`
            returns if it has one.
        step: The number of the checkpoint, larger than those in the folder.
        attrs: Values that JSON has, the same on all ranks.
        keep: So many of the newest checkpoints stay. By default 2 in a folder, and 1 in memory.

    Raises:
        ArgumentTypeError: If an argument has another type.
        UsageError: If the folder has this step or a later one, `keep` is below 1, there is nothing to write, or ranks
            on several hosts name memory. A disk that is full, or another error of the operating system, is a failure
            of the host task, which later calls raise; earlier checkpoints stay.
        NestedUse: If called inside of a kernel, host task, mapper or callback.
        CelerityError: If an earlier task failed.
    """
    runtime = runtime_of(queue, _CALL)
    check_contents(runtime, contents, _CALL, takes_objects=True)
    number = _to_number(step, "step")
    kept = (1 if is_memory(to) else 2) if keep is None else _to_number(keep, "keep")
    if number < 0 or kept < 1:
        raise UsageError(f"{_CALL} takes a step from 0 on and keep= from 1 on, not step={number} and keep={kept}.")
    place, told_attrs = folder_of(to, runtime, _CALL), check_attrs(attrs, _CALL)
    if place is None:
        warn_of_none(runtime, _CALL)
        return
    files = files_of(runtime)
    _check_step(place, number, files)
    files.steps[place] = number
    arrays = {name: stored(value) for name, value in contents.items() if isinstance(value, Buffer)}
    objects = [name for name in contents if name not in arrays]
    told = {"step": number, "ranks": runtime.size, "attrs": told_attrs, "objects": objects}
    writer = CheckpointWriter(place, arrays, told, kept, files.restored)
    submit_writing(queue, writer, contents, lambda _: 1, f"checkpoint {number}", sys._getframe(1))


def steps_in(folder: Path) -> dict[int, Path]:
    """The complete checkpoints of a folder by step, ascending."""
    try:
        found = [(match, path) for path in folder.iterdir() if (match := _STEP_NAME.fullmatch(path.name))]
    except FileNotFoundError:
        return {}
    return dict(sorted((int(match[1]), path) for match, path in found if (path / MANIFEST).is_file()))


def file_of(name: str, rank: int, ending: str) -> str:
    """The name of the file with a share of a buffer, or with a host object."""
    return f"{name}.{rank}.{ending}"


def _to_number(value: Any, what: str) -> int:
    try:
        return to_int(value)
    except TypeError:
        raise ArgumentTypeError(f"{_CALL} takes an int as {what}=, not {value!r}.") from None


def _check_step(folder: Path, step: int, files: FilesOfRun) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder. {_CALL} makes a folder per step in a folder.")
    last = files.steps.get(folder)
    if last is None:
        last = max(steps_in(folder), default=-1)
    if step <= last:
        raise UsageError(
            f"{_CALL} got step={step}, but {folder} has a checkpoint of step {last}. Steps of a folder ascend: go "
            f"on from celerity.restore(folder), or remove the checkpoints of another run."
        )


class CheckpointWriter:
    """See `Writer`."""

    is_written_in_turn = False

    def __init__(
        self, folder: Path, arrays: Mapping[str, StoredArray], told: Mapping[str, Any], keep: int, restored: set[Path]
    ) -> None:
        """Note what to write.

        Args:
            folder: Of all checkpoints.
            arrays: By name.
            told: The rest of the manifest.
            keep: So many checkpoints stay, and those of `restored`.
            restored: Checkpoints of which buffers read still.
        """
        self._folder, self._arrays, self._told, self._keep, self._restored = folder, arrays, told, keep, restored
        self._path = folder / f"step-{told['step']:012}"
        self.name = self._path.name
        self._remedy = f"Earlier checkpoints in {folder} are whole. Look at its disk, and go on from the last one."
        if folder.is_relative_to(SHARED_MEMORY):
            self._remedy = f"Snapshots need room in {SHARED_MEMORY}: see df -h {SHARED_MEMORY}, or name a folder."

    def begin(self, attempt: int) -> None:
        """See `Writer`."""
        with explained(f"rank 0 cannot make {self._path}", self._remedy):
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(".step-*"):
                remove(left)
            Partial(self._path, attempt).place.mkdir()

    def write(self, attempt: int, rank: int, shares: Iterable[Share], objects: Mapping[str, Any]) -> None:
        """See `Writer`."""
        place = Partial(self._path, attempt).place
        for name, _, contents in shares:
            file = place / file_of(name, rank, "npy")
            with explained(f'rank {rank} cannot write its share of "{name}" to {self._path}', self._remedy, file):
                write_npy(file, contents)
        for name, value in objects.items():
            state = value.state() if callable(getattr(value, "state", None)) else value
            with explained(f'rank {rank} cannot write "{name}" to {self._path}', self._remedy):
                if state is not None:
                    write_whole(place / file_of(name, rank, "pickle"), pickle.dumps(state))

    def finish(self, attempt: int) -> None:
        """See `Writer`."""
        partial = Partial(self._path, attempt)
        manifest = {"layout": LAYOUT, **self._told, "arrays": self._describe()}
        with explained(f"rank 0 cannot finish {self._path}", self._remedy):
            write_whole(partial.place / MANIFEST, json.dumps(manifest, indent=1).encode())
            partial.publish(overwrite=False)
            self._remove_old()

    def _describe(self) -> dict[str, Any]:
        size = self._told["ranks"]
        return {
            name: {
                "shape": array.shape,
                "element": array.element,
                "type": repr(np.lib.format.dtype_to_descr(array.dtype)),
                "boxes": [_corners(rows_of(array.shape, 1, (rank, rank + 1), size)) for rank in range(size)],
            }
            for name, array in self._arrays.items()
        }

    def _remove_old(self) -> None:
        for path in list(steps_in(self._folder).values())[: -self._keep]:
            if path not in self._restored:
                removed = Partial(path, 0).place  # without its name first: no part of it is taken for a checkpoint
                path.rename(removed)
                remove(removed)


def _corners(box: Box) -> list[tuple[int, ...]]:
    return [box.min, box.max]
