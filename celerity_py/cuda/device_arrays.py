# SPDX-License-Identifier: MIT
"""Arrays of CuPy that the user owns: destinations of fences, and initial contents of buffers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from celerity_py.cuda.contexts import on_device

_CUDA: Final = frozenset({2, 13})  # kDLCUDA and kDLCUDAManaged of DLPack


def is_cupy_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether CuPy has arrays of these elements: booleans and numbers of up to 16 bytes, in native order."""
    number = dtype.base
    return number.kind in "biufc" and number.isnative and number.char not in "gG"


def new_device_array(ordinal: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, int]:
    """A new array of CuPy on a GPU, and its address. Nothing on the GPU uses its memory any more.

    Raises:
        MemoryError: If the GPU has too little memory.
    """
    import cupy

    with on_device(ordinal):
        array = cupy.empty((*shape, *dtype.shape), dtype.base)
        # The pool of CuPy hands memory over in the order of this stream. The runtime writes on streams of its own.
        cupy.cuda.get_current_stream().synchronize()
        return array, array.data.ptr


def ordinal_of(array: Any) -> int:
    """The number of the GPU on which an array of another library lies; -1 if it lies on none, or does not tell."""
    if hasattr(array, "__dlpack_device__"):
        kind, ordinal = array.__dlpack_device__()
        return int(ordinal) if kind in _CUDA else -1
    device = getattr(getattr(array, "device", None), "id", -1)  # as numba tells it
    return device if isinstance(device, int) else -1


def contiguous_on_device(array: Any, ordinal: int, *, copy: bool) -> tuple[Any, bool]:
    """A C-contiguous array of CuPy with the contents of an array on this GPU, which nothing on the GPU writes any more.

    Args:
        array: Of any library, with DLPack or `__cuda_array_interface__`. Work of the streams that these protocols name
            comes before, and that of the current stream of CuPy.
        ordinal: The GPU.
        copy: Whether the result must be a copy.

    Returns:
        The array, and whether it lies in the memory of the given one.
    """
    import cupy

    with on_device(ordinal):
        # DLPack names the stream that the other library uses; the interface of torch does not.
        is_exchanged = hasattr(array, "__dlpack__") and not isinstance(array, cupy.ndarray)
        given = cupy.from_dlpack(array) if is_exchanged else cupy.asarray(array)
        # cupy.ascontiguousarray would add a dimension to an array that has none.
        result = cupy.array(given, order="C", copy=True) if copy else cupy.asarray(given, order="C")
        cupy.cuda.get_current_stream().synchronize()
        return result, result.data.ptr == given.data.ptr


def converted_on_device(array: Any, dtype: np.dtype[Any], ordinal: int) -> Any:
    """A copy of an array of CuPy in another element type, on its GPU; complete."""
    import cupy

    with on_device(ordinal):
        converted = array.astype(dtype, order="C")
        cupy.cuda.get_current_stream().synchronize()
        return converted


def copy_on_device(array: Any) -> Any:
    """A copy of an array of CuPy on its GPU; complete."""
    return contiguous_on_device(array, array.device.id, copy=True)[0]
