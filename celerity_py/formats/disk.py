# SPDX-License-Identifier: MIT
"""Files that the disk has when a function returns: after a power cut they have their contents, or no name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


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


def bytes_of(contents: npt.NDArray[Any]) -> memoryview:
    """The elements of an array in the order of C; no copy if they lie so."""
    return np.ascontiguousarray(contents).reshape(-1).view(np.uint8).data
