# SPDX-License-Identifier: MIT
"""Kernels of the applications, launched by hand: the same source, compiled by the same call, with the same options.

Their parameters are laid out as the device header of celerity_py declares them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from celerity_py.cuda import compilation, launches
from celerity_py.kernels import CudaKernel, Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


def chunk(low: Sequence[int], high: Sequence[int], space: Sequence[int]) -> NDArray[np.int64]:
    """A `celerity::chunk` from one corner to the other, of an index space that begins at 0."""
    return np.array([*low, *high, *(0 for _ in space), *space], np.int64)


def accessor(array: Any, first_row: int = 0) -> NDArray[np.int64]:
    """A `celerity::accessor` to a buffer whose rows from `first_row` on are in a CuPy array."""
    strides = [size // array.itemsize for size in array.strides[:-1]] or [1]
    return np.array([array.data.ptr - first_row * array.strides[0], *strides], np.int64)


class Launch:
    """A launch with fixed arguments, prepared once: a call of it is a call of the driver.

    Args:
        kernel: A `CudaKernel`, or a `celerity.kernel` that has one. Without a grid of its own it is launched over the
            chunk that is its first value.
        device: The GPU.
        values: Of the parameters; CuPy arrays stand for their addresses.
    """

    def __init__(self, kernel: CudaKernel | Kernel, device: int, *values: Any) -> None:
        import cupy

        implementation = kernel.cuda if isinstance(kernel, Kernel) else kernel
        assert isinstance(implementation, CudaKernel)
        kernel = implementation
        (function,) = compilation.load(launches.program_of(kernel), (device,))
        if kernel.shared_bytes > launches.FREE_SHARED_BYTES:
            compilation.allow_shared_bytes(function, device, kernel.shared_bytes)
        addresses = [np.uint64(value.data.ptr) if isinstance(value, cupy.ndarray) else value for value in values]
        packed = [np.ascontiguousarray(value) for value in addresses]
        self._parameters = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in packed))
        self._kept = (values, packed)
        block = kernel.block or launches.DEFAULT_BLOCKS[len(packed[0]) // 4]
        grid = kernel.grid or _grid_over(packed[0], block, kernel.items or (1,) * len(block))
        shape = (*_from_x(grid), *_from_x(block), kernel.shared_bytes)
        self._function, self._shape, self._address = function, shape, ctypes.addressof(self._parameters)
        self._launch = cupy.cuda.driver.launchKernel

    def __call__(self, stream: Any) -> None:
        """Enqueue it on a stream of the current GPU."""
        self._launch(self._function, *self._shape, stream.ptr, self._address, 0)


def _grid_over(of: NDArray[np.int64], block: Sequence[int], items: Sequence[int]) -> tuple[int, ...]:
    """The blocks that cover a chunk."""
    dims = len(block)
    extents = of[dims : 2 * dims] - of[:dims]
    return tuple(-(-int(n) // (b * i)) for n, b, i in zip(extents, block, items, strict=True))


def _from_x(extents: Sequence[int]) -> tuple[int, ...]:
    """The extents of a grid or block with x first, as the driver takes them."""
    return (*reversed(extents), 1, 1)[:3]
