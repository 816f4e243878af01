# SPDX-License-Identifier: MIT
"""Counts the bytes that the CUDA driver copies, by direction, as CUPTI of the CUDA toolkit reports them.

A process has one counter, from its first use of CUPTI on.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes.util import find_library
from pathlib import Path

# Numbers of `cupti_activity.h`.
_BETWEEN_MEMORIES, _BETWEEN_PEERS = 1, 22
_DIRECTIONS = {1: "to device", 2: "to host", 8: "on device", 9: "on host", 10: "to peer"}
_FLUSH_NOW = 1
_NO_MORE_RECORDS = 12
_BUFFER_BYTES = 1 << 20


class _Record(ctypes.Structure):
    """The first fields of a record of a copy, which are the same in all versions."""

    _fields_ = (
        ("activity", ctypes.c_uint32),
        ("direction", ctypes.c_uint8),
        ("other", ctypes.c_uint8 * 3),
        ("num_bytes", ctypes.c_uint64),
    )


_Request = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_Complete = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


def find_cupti() -> str | None:
    """The library, by name or path; None if it is not installed."""
    folders = [*Path("/usr/local").glob("cuda*/lib*"), *Path("/usr/local").glob("cuda*/extras/CUPTI/lib64")]
    folders += [folder for path in sys.path for folder in Path(path).glob("nvidia/*/lib")]
    found = [str(library) for folder in folders for library in folder.glob("libcupti.so*")]
    return find_library("cupti") or max(found, default=None)


class DriverCopies:
    """What the driver has copied since the last call of `take`."""

    def __init__(self) -> None:
        self._bytes: dict[str, int] = {}
        self._cupti = ctypes.CDLL(find_cupti())
        self._buffers: dict[int, ctypes.Array[ctypes.c_uint64]] = {}
        self._callbacks = _Request(self._give_buffer), _Complete(self._read_buffer)
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)
        for activity in (_BETWEEN_MEMORIES, _BETWEEN_PEERS):
            self._call("cuptiActivityEnable", activity)

    def take(self) -> dict[str, int]:
        """Bytes by direction. All copies must be complete."""
        self._call("cuptiActivityFlushAll", _FLUSH_NOW)
        taken, self._bytes = self._bytes, {}
        return taken

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cupti, name)(*arguments)
        assert status == 0, f"{name} fails with status {status}"

    def _give_buffer(self, buffer: ctypes._Pointer[ctypes.c_void_p], size: object, most_records: object) -> None:
        memory = (ctypes.c_uint64 * (_BUFFER_BYTES // 8))()
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        buffer[0] = address
        size[0] = _BUFFER_BYTES  # type: ignore[index]
        most_records[0] = 0  # type: ignore[index]

    def _read_buffer(self, context: object, stream: int, buffer: int, size: int, valid_bytes: int) -> None:
        record = ctypes.c_void_p()
        while valid_bytes > 0:
            status = self._cupti.cuptiActivityGetNextRecord(
                ctypes.c_void_p(buffer), ctypes.c_size_t(valid_bytes), ctypes.byref(record)
            )
            if status == _NO_MORE_RECORDS:
                break
            assert status == 0, f"cuptiActivityGetNextRecord fails with status {status}"
            assert record.value is not None
            copy = _Record.from_address(record.value)
            direction = _DIRECTIONS.get(copy.direction, "between other memories")
            self._bytes[direction] = self._bytes.get(direction, 0) + copy.num_bytes
        del self._buffers[buffer]
