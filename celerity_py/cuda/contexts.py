# SPDX-License-Identifier: MIT
"""Which GPU a thread's calls of CUDA go to.

`with cupy.cuda.Device(n)` sets, when it is left, the device that the thread had before. For a thread without one that
is GPU 0, and to set it makes a context there: hundreds of MiB on a GPU that may be another rank's. So our threads make
the context of a GPU current, and then the one that was there before, which may be none.
"""

from __future__ import annotations

from types import TracebackType

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _native.cuda_leave(self._previous)
