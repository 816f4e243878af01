# SPDX-License-Identifier: MIT
"""The CUDA driver by its C functions, for benchmarks that compare what the native core could call: no CuPy between."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

MAP_PEER = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
PORTABLE_AND_MAPPED = 1 | 2  # CU_MEMHOSTREGISTER_PORTABLE | DEVICEMAP, and the same bits of cuMemHostAlloc
AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ: (int32)(*address - value) >= 0
NOT_READY = 600


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle: opaque, passed by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


_stream = _event = _module = _function = _context = c_void_p
_address = c_uint64
# Without these, ctypes would pass Python integers as 32 bits.
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceCanAccessPeer": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_context), c_int),
    "cuCtxSetCurrent": (_context,),
    "cuMemAlloc_v2": (POINTER(_address), c_size_t),
    "cuMemFree_v2": (_address,),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemHostUnregister": (c_void_p,),
    "cuMemHostGetDevicePointer_v2": (POINTER(_address), c_void_p, c_uint),
    "cuMemcpyDtoH_v2": (c_void_p, _address, c_size_t),
    "cuMemcpyAsync": (_address, _address, c_size_t, _stream),
    "cuMemsetD32Async": (_address, c_uint, c_size_t, _stream),
    "cuIpcGetMemHandle": (POINTER(IpcHandle), _address),
    "cuIpcOpenMemHandle_v2": (POINTER(_address), IpcHandle, c_uint),
    "cuIpcCloseMemHandle": (_address,),
    "cuStreamCreate": (POINTER(_stream), c_uint),
    "cuStreamQuery": (_stream,),
    "cuStreamSynchronize": (_stream,),
    "cuStreamWaitValue32_v2": (_stream, _address, c_uint32, c_uint),
    "cuStreamWriteValue32_v2": (_stream, _address, c_uint32, c_uint),
    "cuEventCreate": (POINTER(_event), c_uint),
    "cuEventRecord": (_event, _stream),
    "cuEventElapsedTime": (POINTER(c_float), _event, _event),
    "cuModuleLoadData": (POINTER(_module), c_char_p),
    "cuModuleGetFunction": (POINTER(_function), _module, c_char_p),
    "cuModuleUnload": (_module,),
    "cuLaunchKernel": (_function, *(c_uint,) * 7, _stream, c_void_p, c_void_p),
}


class DriverError(RuntimeError):
    """A driver function failed."""


class Driver:
    """`driver.call("cuMemFree_v2", address)` calls the function, `driver.get(...)` also returns what it puts out first.

    Calls release the GIL.

    Raises:
        OSError: If there is no CUDA driver.
        DriverError: If there is no device of that index.
    """

    def __init__(self, device: int) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._functions: dict[str, Any] = {}
        for name, prototype in _PROTOTYPES.items():
            function = getattr(self._library, name)
            function.argtypes = prototype
            self._functions[name] = function
        self.call("cuInit", 0)
        self.device = self.get("cuDeviceGet", c_int, device)
        self.context = self.get("cuDevicePrimaryCtxRetain", _context, self.device)
        self.make_current()

    def make_current(self) -> None:
        """Bind the context to the calling thread."""
        self.call("cuCtxSetCurrent", self.context)

    def function(self, name: str) -> Any:
        """A function itself, which returns its status."""
        return self._functions[name]

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function; its status."""
        return int(self._functions[name](*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            DriverError: If it fails.
        """
        if (status := self.status(name, *arguments)) != 0:
            text = c_char_p()
            self._library.cuGetErrorName(c_int(status), ctypes.byref(text))
            raise DriverError(f"{name} failed: {(text.value or b'?').decode()} ({status})")

    def get(self, name: str, kind: Any, *arguments: Any) -> Any:
        """Call a function whose first argument points to its result, of the ctypes type `kind`.

        Raises:
            DriverError: If it fails.
        """
        result = kind()
        self.call(name, ctypes.byref(result), *arguments)
        return result if isinstance(result, ctypes.Structure) else result.value

    def allocate(self, size_bytes: int) -> int:
        """Allocate device memory."""
        return int(self.get("cuMemAlloc_v2", _address, size_bytes))

    def export(self, address: int) -> bytes:
        """A handle with which another process can map an allocation."""
        return bytes(self.get("cuIpcGetMemHandle", IpcHandle, address))

    def open(self, handle: bytes) -> int:
        """Map an allocation of another process."""
        return int(self.get("cuIpcOpenMemHandle_v2", _address, IpcHandle.from_buffer_copy(handle), MAP_PEER))

    def create_stream(self) -> int:
        """A stream that does not wait for the default stream."""
        return int(self.get("cuStreamCreate", _stream, NON_BLOCKING))

    def create_event(self) -> int:
        """An event with timing."""
        return int(self.get("cuEventCreate", _event, 0))

    def elapsed_us(self, start: int, end: int) -> float:
        """Time between two completed events."""
        return float(self.get("cuEventElapsedTime", c_float, start, end)) * 1e3

    def describe(self) -> dict[str, Any]:
        """Device and driver, for the JSON of a benchmark."""
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, self.device)
        return {"device": name.value.decode(), "cuda_driver": self.get("cuDriverGetVersion", c_int)}


def count_devices() -> int:
    """How many GPUs there are, 0 without a CUDA driver; makes no context."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = c_int(0)
    return count.value if library.cuInit(0) == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0
