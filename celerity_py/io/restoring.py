# SPDX-License-Identifier: MIT
"""`celerity.restore`: the contents of a checkpoint as buffers and host objects."""

from __future__ import annotations

import ast
import json
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal, NamedTuple, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.buffer import Buffer
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.host_objects import HostObject
from celerity_py.io.checkpoints import LAYOUT, MANIFEST, file_of, steps_in
from celerity_py.io.memory_snapshots import folder_of, none_found
from celerity_py.io.writing import files_of
from celerity_py.runtime import lifecycle
from celerity_py.runtime.initial_contents import exchange
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.integers import to_flag, to_int

_CALL: Final = "celerity.restore()"


class Restored(Mapping[str, Any]):
    """Buffers and host objects by name, from a checkpoint. Any thread of a rank may look at it.

    Attributes:
        step: The number of the checkpoint.
        attrs: Its attributes.
    """

    def __init__(self, contents: Mapping[str, Any], step: int, attrs: Mapping[str, Any]) -> None:
        self._contents = dict(contents)
        self.step = step
        self.attrs = dict(attrs)

    def __getitem__(self, name: str) -> Any:
        return self._contents[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)

    def __repr__(self) -> str:
        return f"<Restored step {self.step}, {list(self._contents)}>"


@overload
def restore(
    folder: str | os.PathLike[str], *, step: SupportsIndex | None = None, missing_ok: Literal[False] = False
) -> Restored: ...
@overload
def restore(
    folder: str | os.PathLike[str], *, step: SupportsIndex | None = None, missing_ok: bool
) -> Restored | None: ...
def restore(
    folder: str | os.PathLike[str], *, step: SupportsIndex | None = None, missing_ok: bool = False
) -> Restored | None:
    """Make the buffers and host objects of the newest complete checkpoint of a folder. Collective: the ranks meet.

    The number of ranks and devices may be another one than when it was written. Each rank reads the elements that it
    needs on a thread of the runtime, when a task needs them. The host object of a rank gets what the object of that
    rank was, or what its `state()` was; on a rank that had none, None. With another number of ranks only rank 0 may
    have had objects. Objects are unpickled: restore folders that you trust.

    Args:
        folder: With checkpoints, or "memory", as for `checkpoint`. This run does not remove the checkpoint from it.
        step: Of the checkpoint; None for the newest one.
        missing_ok: Whether to return None if there is no checkpoint.

    Returns:
        The contents of the checkpoint by name.

    Raises:
        ArgumentTypeError: If an argument has another type.
        UsageError: If there is no such checkpoint, a file of it is damaged, or ranks beyond 0 had host objects and
            their number is another one now. All ranks raise.
        NestedUse: If called inside of a kernel, host task, mapper or callback.
        CelerityError: If an earlier task failed.
    """
    frame = sys._getframe(1)
    wanted = None if step is None else to_int(step)
    may_be_missing = to_flag(missing_ok, f"{_CALL} missing_ok=")
    runtime = lifecycle.current()
    runtime.check_usable(_CALL)
    runtime.refuse_in_recording(_CALL)
    place = folder_of(folder, runtime, _CALL)
    looks = runtime.rank == 0 or runtime.is_dry
    found = _look(place, wanted, runtime.size) if looks and place is not None else None
    if runtime.size > 1 and not runtime.is_dry:
        found = exchange(runtime, found, "restore", frame)[0]
    if found is None and may_be_missing:
        return None
    if found is None or place is None:
        raise UsageError(none_found(place, wanted))
    if isinstance(found, str):
        raise UsageError(found)
    path = place / found["folder"]
    files_of(runtime).restored.add(path)
    contents = {name: _buffer_of(path, name, told, frame) for name, told in found["arrays"].items()}
    objects = {name: HostObject(_object_of(path, name, runtime.rank)) for name in found["objects"]}
    return Restored(contents | objects, found["step"], found["attrs"])


def _look(folder: Path, step: int | None, size: int) -> dict[str, Any] | str | None:
    """On one rank: the manifest, a sentence on what is wrong, or None if there is no checkpoint."""
    found = steps_in(folder)
    if step is None:
        step = max(found, default=None)
    if step is None or step not in found:
        return None
    path = found[step]
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text())
        if manifest["layout"] != LAYOUT:
            return f"{path} has the layout {manifest['layout']} of another celerity_py; this one reads {LAYOUT}."
        for name, told in manifest["arrays"].items():
            for rank, (low, high) in enumerate(told["boxes"]):
                if (box := _box_in_file(low, high, rank)) is not None:
                    _check_file(path / file_of(name, rank, "npy"), box.shape, tuple(told["element"]))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        return f"{path} is damaged ({type(error).__name__}: {error}). Restore an earlier step, or remove it."
    others = [
        path / file_of(name, rank, "pickle") for name in manifest["objects"] for rank in range(1, manifest["ranks"])
    ]
    if size != manifest["ranks"] and any(other.exists() for other in others):
        return (
            f"{path} has host objects of {manifest['ranks']} ranks, and this run has {size}. Start as many ranks, or "
            f"keep the objects on rank 0 alone."
        )
    return manifest | {"folder": path.name}


def _box_in_file(low: list[int], high: list[int], rank: int) -> Box | None:
    """The box of a file, or None if the rank has none. A single value is in that of rank 0."""
    box = Box(tuple(low), tuple(high))
    return box if (box if low else rank == 0) else None


def _check_file(path: Path, shape: tuple[int, ...], element: tuple[int, ...]) -> None:
    found = np.load(path, mmap_mode="r").shape  # refuses a file that is too short
    if found != (*shape, *element):
        raise ValueError(f"{path.name} has the shape {found} instead of {(*shape, *element)}")


def _buffer_of(path: Path, name: str, told: Mapping[str, Any], frame: FrameType) -> Buffer[Any]:
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(told["type"]))
    array = StoredArray(tuple(told["shape"]), dtype, tuple(told["element"]))
    found = ((rank, _box_in_file(low, high, rank)) for rank, (low, high) in enumerate(told["boxes"]))
    shares = [(path / file_of(name, rank, "npy"), box) for rank, box in found if box is not None]
    return Buffer._read_by(_Shares(array, shares).read, array, name, frame)


def _object_of(path: Path, name: str, rank: int) -> Any:
    file = path / file_of(name, rank, "pickle")
    return pickle.loads(file.read_bytes()) if file.exists() else None  # noqa: S301 - of a folder that the program names


class _Shares(NamedTuple):
    """An array whose boxes lie in several files."""

    array: StoredArray
    shares: list[tuple[Path, Box]]

    def read(self, box: Box) -> npt.NDArray[Any]:
        """The contents of a box, from all files that have some of it. Any thread."""
        contents = np.empty((*box.shape, *self.array.element), self.array.dtype)
        for path, held in self.shares:
            if not box.ndim or (common := box & held):
                there, here = (
                    (common.shift(*(-low for low in each.min)) for each in (held, box)) if box.ndim else (box, box)
                )
                contents[here.slices] = np.load(path, mmap_mode="r")[there.slices]
        return contents
