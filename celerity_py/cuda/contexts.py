# SPDX-License-Identifier: MIT
"""Makes a GPU current for a thread's calls of CUDA.

At its end, `with cupy.cuda.Device(n)` sets the device that the thread had before. A thread without a device gets GPU 0
then, and with it a context: hundreds of MiB on a GPU that may belong to another rank. Therefore our threads make the
context of a GPU current, and afterwards the context that was current before, which may be none.
"""

from __future__ import annotations

from celerity_py import _native


class on_device:  # noqa: N801 - reads as a function
    """Calls of CUDA and CuPy inside of the block go to this GPU.

    Args:
        ordinal: Of the GPU, as CUDA counts them.
    """

    __slots__ = ("_ordinal", "_previous")

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._previous = 0

    def __enter__(self) -> None:
        self._previous = _native.cuda_enter(self._ordinal)

    def __exit__(self, *_: object) -> None:
        _native.cuda_leave(self._previous)
