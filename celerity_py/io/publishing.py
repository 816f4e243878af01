# SPDX-License-Identifier: MIT
"""Files and folders that are whole, or not there: written under another name, and renamed at the end."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from celerity_py.formats.disk import exchange, sync
from celerity_py.scheduler.errors import ResourceError

_ENDING: Final = ".partial"


class Partial(NamedTuple):
    """A file or folder, and the number of one attempt to write it.

    Each attempt has another name: ranks of a program that is being killed write into no file of the next one.
    """

    path: Path
    attempt: int

    @property
    def place(self) -> Path:
        """Where it is written, before it gets its name."""
        return self.path.with_name(f".{self.path.name}.{self.attempt:x}{_ENDING}")

    def publish(self, *, overwrite: bool) -> None:
        """Give what was written its name.

        An older folder takes the name of the partial one, at once. Where the file system cannot do that, such as NFS,
        it is called `.NAME.replaced` for a moment, in which there is no folder of the name.

        Raises:
            FileExistsError: If the name is taken, and must not be.
        """
        path = self.path
        # Each rank has synced what it has written. Here it is what rank 0 has made, and the names.
        for each in [*self.place.rglob("*"), self.place]:
            sync(each)
        if path.exists() and not overwrite:
            raise FileExistsError(f"{path} was made by another program meanwhile")
        if path.is_dir() or (path.exists() and self.place.is_dir()):
            replaced = self.place
            if not exchange(self.place, path):
                replaced = path.with_name(f".{path.name}.replaced")
                remove(replaced)
                path.rename(replaced)
                self.place.rename(path)
            sync(path.parent)  # before the old one goes
            remove(replaced)
        else:
            self.place.replace(path)
        sync(path.parent)


class Leftovers:
    """What killed programs have left. It looks at a folder once, as that takes long in a folder of many frames."""

    def __init__(self) -> None:
        self._names: dict[Path, list[str]] = {}

    def remove_of(self, path: Path) -> None:
        """Remove what earlier attempts to write a file or folder have left."""
        folder = path.parent
        if folder not in self._names:
            self._names[folder] = [each.name for each in folder.iterdir() if each.suffix == _ENDING]
        for name in self._names[folder]:
            if name.rpartition(".")[0].rpartition(".")[0] == f".{path.name}":
                remove(folder / name)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(who: str, remedy: str, place: Path | None = None) -> Iterator[None]:
    """Tell of errors of the operating system and of libraries as this package does.

    Args:
        who: Cannot do what, as the beginning of a sentence.
        remedy: Sentences.
        place: A file or folder that is removed then, as the disk may be full.

    Raises:
        ResourceError: In the place of such an error.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py raises both
        if place is not None:
            with contextlib.suppress(OSError):
                remove(place)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ResourceError(f"{who}: {reason}. {remedy}") from error
