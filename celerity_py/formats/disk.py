# SPDX-License-Identifier: MIT
"""Files that the disk has when a function returns: after a power cut they have their contents, or no name."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

# From <fcntl.h> and <linux/fs.h>.
_IN_WORKING_FOLDER: Final = -100
_RENAME_EXCHANGE: Final = 2
_NOT_SUPPORTED: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})


def write_whole(path: Path, content: bytes | memoryview, head: bytes = b"", num_bytes: int = 0) -> None:
    """Write a new file, and wait until the disk has it.

    Args:
        path: Of the file.
        content: Of the file, behind `head`.
        head: Its first bytes.
        num_bytes: A shorter file is filled up with zeros.
    """
    with path.open("wb") as file:
        file.write(head)
        file.write(content)
        if num_bytes:
            file.truncate(num_bytes)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def exchange(first: Path, second: Path) -> bool:
    """Let two names of one file system change places: at each moment both are there. False if it cannot do that.

    Wraps `renameat2`, which Linux has since 3.15, glibc since 2.28, and NFS not at all.

    Raises:
        OSError: If a name is not there, or may not be changed.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_IN_WORKING_FOLDER, os.fsencode(first), _IN_WORKING_FOLDER, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def bytes_of(contents: npt.NDArray[Any]) -> memoryview:
    """The elements of an array in the order of C; no copy if they lie so."""
    return np.ascontiguousarray(contents).reshape(-1).view(np.uint8).data
