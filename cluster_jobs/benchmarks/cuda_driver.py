# SPDX-License-Identifier: MIT
"""The CUDA driver by its C functions, for benchmarks that compare what the native core could call: no CuPy between."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

_stream = _function = _context = c_void_p
# Without these, ctypes would pass Python integers as 32 bits.
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_context), c_int),
    "cuCtxSetCurrent": (_context,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuLaunchKernel": (_function, *(c_uint,) * 7, _stream, c_void_p, c_void_p),
}


class DriverError(RuntimeError):
    """A driver function failed."""


class Driver:
    """`driver.call("cuInit", 0)` calls the function, `driver.get(...)` also returns what it puts out first.

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
        return result.value


def count_devices() -> int:
    """The number of GPUs, 0 without a CUDA driver; makes no context."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = c_int(0)
    return count.value if library.cuInit(0) == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0
