# SPDX-License-Identifier: MIT
"""A picture of an array as a PNG file, by the standard library and NumPy alone."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_INDEXED: Final = 3  # each byte of a row is an index into the palette
#: The colours of the lowest value, of 0 and of the highest value: red, green, blue.
_COLOURS: Final = ((20, 60, 140), (245, 245, 240), (170, 40, 30))


def write_picture(path: Path, values: NDArray[np.float32]) -> None:
    """Write a PNG file with one pixel per element.

    Args:
        path: The file to write.
        values: A 2-D array of finite numbers. 0 is nearly white, positive values are red and negative ones are blue.
            The largest magnitude has the full colour.

    Raises:
        OSError: If the file cannot be written.
    """
    height, width = values.shape
    scale = 127 / (float(np.abs(values).max()) or 1.0)
    rows = np.zeros((height, 1 + width), dtype=np.uint8)  # a row begins with the number of its filter: none
    rows[:, 1:] = np.rint(128 + scale * values)
    shares = np.clip(np.arange(256) - 1, 0, 254)
    palette = np.stack([np.interp(shares, (0, 127, 254), channel) for channel in zip(*_COLOURS, strict=True)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, _INDEXED, 0, 0, 0)
    path.write_bytes(
        _SIGNATURE
        + _chunk(b"IHDR", header)
        + _chunk(b"PLTE", np.rint(palette).astype(np.uint8).tobytes())
        + _chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
