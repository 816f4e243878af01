# SPDX-License-Identifier: MIT
"""Arrays of other libraries, such as torch and JAX: taken as arrays of NumPy through the protocols that they offer."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from celerity_py.scheduler.errors import ArgumentTypeError

_HOST: Final = frozenset({1, 3, 11})  # kDLCPU, kDLCUDAHost, kDLROCMHost of DLPack


def is_foreign(kind: type) -> bool:
    """Whether objects of this type are arrays of another library. Tables and quantities with units are none."""
    is_array = hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__")
    return is_array and not issubclass(kind, np.ndarray)


def lies_on_gpu(array: Any) -> bool:
    """Whether the host cannot read the memory of a foreign array."""
    return not hasattr(array, "__dlpack_device__") or array.__dlpack_device__()[0] not in _HOST


def to_numpy(value: Any, use: str) -> np.ndarray[Any, Any]:
    """An array of NumPy with the contents of a value, in the same memory if the host can read that.

    Args:
        value: An array of any library that offers `__array__` or DLPack, or another value of which NumPy makes an
            array. An array on a GPU is copied.
        use: Who got the value from where, as the beginning of a sentence.

    Raises:
        ArgumentTypeError: If NumPy cannot make an array of it.
    """
    if not is_foreign(value.__class__):
        try:
            return np.asarray(value)
        except ValueError as error:
            raise ArgumentTypeError(
                f"{use} a {type(value).__name__}, of which NumPy cannot make an array: {str(error).rstrip('.')}. "
                f"Nested sequences need equal lengths."
            ) from error
    try:
        if lies_on_gpu(value):
            return _copy_from_gpu(value)
        return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except ArgumentTypeError:  # of a buffer or another object of ours
        raise
    except Exception as error:
        raise untakable(value, use, error, "NumPy", "cupy.asnumpy(array) or tensor.detach().cpu().numpy()") from error


def untakable(value: Any, use: str, error: Exception, taker: str, remedy: str) -> ArgumentTypeError:
    """The error of an array of another library that NumPy or CuPy refuses."""
    kind = type(value)
    return ArgumentTypeError(
        f"{use} an object of type {kind.__module__}.{kind.__qualname__}, of which {taker} cannot make an array: "
        f"{str(error).rstrip('.')}. Convert it, for instance with {remedy}."
    )


def _copy_from_gpu(array: Any) -> np.ndarray[Any, Any]:
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return np.from_dlpack(array, device="cpu", copy=True)
    return cupy.asnumpy(cupy.asarray(array))  # type: ignore[no-any-return]
