# SPDX-License-Identifier: MIT
"""Makes the stream of a lane the current one of other libraries, while a Python kernel runs.

Only libraries that the program has imported take part; nothing here imports them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

_MAX_STREAMS: Final = 256  # lanes are few, but each runtime makes its own

#: (library, ordinal of the GPU, handle) -> the library's wrapper of a stream; None if the library has no GPUs.
_wrappers: dict[tuple[str, int, int], Any] = {}


def library_scopes(ordinal: int, stream: Any) -> AbstractContextManager[Any] | None:
    """What surrounds a call of a kernel, so that the work of other libraries is ordered with that of the lane.

    Args:
        ordinal: Of the GPU, which is the current one.
        stream: CuPy's wrapper of the stream.

    Returns:
        None if no such library is imported, which is found out in a fraction of a microsecond.
    """
    if sys.modules.keys().isdisjoint(_NAMES):
        return None
    with ExitStack() as scopes:
        for name in _SCOPES:
            module = sys.modules.get(name)
            if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
                continue  # another thread may be importing it
            scope = _SCOPES[name](module, ordinal, stream)
            if scope is not None:
                scopes.enter_context(scope)
        return scopes.pop_all()


def _wrapped(library: str, ordinal: int, stream: Any, wrap: Callable[[], Any]) -> Any:
    key = library, ordinal, stream.ptr
    if key not in _wrappers:
        if len(_wrappers) >= _MAX_STREAMS:
            _wrappers.clear()
        _wrappers[key] = wrap()
    return _wrappers.get(key)


def _torch(torch: Any, ordinal: int, stream: Any) -> Any:
    def wrap() -> Any:
        is_usable = torch.cuda.is_available()
        return torch.cuda.ExternalStream(stream.ptr, device=f"cuda:{ordinal}") if is_usable else None

    wrapped = _wrapped("torch", ordinal, stream, wrap)
    return None if wrapped is None else torch.cuda.stream(wrapped)


def _warp(warp: Any, ordinal: int, stream: Any) -> Any:
    def wrap() -> Any:
        return warp.Stream(f"cuda:{ordinal}", cuda_stream=stream.ptr) if warp.is_cuda_available() else None

    wrapped = _wrapped("warp", ordinal, stream, wrap)
    # No task has used the stream that was current before, so the lane does not wait for it.
    return None if wrapped is None else warp.ScopedStream(wrapped, sync_enter=False)


@contextmanager
def _numba(_module: Any, _ordinal: int, stream: Any) -> Iterator[None]:
    """There is no current stream of numba: its default stream waits for the lane, and then the lane for it."""
    import cupy

    config = sys.modules.get("numba.core.config")
    has_own = bool(getattr(config, "CUDA_PER_THREAD_DEFAULT_STREAM", 0))
    default = cupy.cuda.Stream.ptds if has_own else cupy.cuda.Stream.null
    _follow(cupy, default, stream)
    try:
        yield
    finally:
        _follow(cupy, stream, default)


def _follow(cupy: Any, later: Any, earlier: Any) -> None:
    event = cupy.cuda.Event(disable_timing=True)
    earlier.record(event)
    later.wait_event(event)


_SCOPES: Final[dict[str, Callable[[Any, int, Any], Any]]] = {"torch": _torch, "numba.cuda": _numba, "warp": _warp}
_NAMES: Final = frozenset(_SCOPES)
