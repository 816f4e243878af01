# SPDX-License-Identifier: MIT
"""Ranges of NVTX, which name the work of the runtime in a profiler such as Nsight Systems."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from celerity_py._native import ProfilerRanges
from celerity_py.runtime.executor_delegate import RuntimeDelegate
from celerity_py.scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from celerity_py._native import CombineCall, HostTaskCall, InitializeCall, KernelCall

_log = logging.getLogger(__name__)

#: A profiler names the library there that gets the ranges of the processes that it starts.
INJECTION: Final = "NVTX_INJECTION64_PATH"
#: Libraries that export the functions of NVTX, of new and of old versions of CUDA.
_LIBRARIES: Final = ("libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1")


def start_ranges(wanted: bool | None, environ: Mapping[str, str]) -> ProfilerRanges | None:
    """Find NVTX if the settings want it, or if a profiler has started this process and they leave it open.

    Args:
        wanted: The setting NVTX; None leaves it open.
        environ: The environment of the process.

    Raises:
        ConfigurationError: If the setting asks for ranges, and no library has them.
    """
    if wanted is False or (wanted is None and not environ.get(INJECTION)):
        return None
    library = _find_library()
    if library is None:
        text = f"no library of NVTX is found ({', '.join(_LIBRARIES)}). Install it with `pip install nvidia-nvtx`"
        if wanted:
            raise ConfigurationError(f"NVTX=1: {text}, or unset NVTX.")
        _log.info("A profiler has started this process, but %s to see the names of tasks.", text)
        return None
    push, pop = (ctypes.cast(library[name], ctypes.c_void_p).value for name in ("nvtxRangePushA", "nvtxRangePop"))
    assert push is not None
    assert pop is not None
    return ProfilerRanges(push, pop)


def _find_library() -> ctypes.CDLL | None:
    for name in (*_LIBRARIES, *_installed()):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            if hasattr(library, "nvtxRangePushA") and hasattr(library, "nvtxRangePop"):
                return library
    return None


def _installed() -> Iterator[str]:
    """The libraries in packages of pip, such as nvidia/cu13/lib."""
    for folder in filter(None, sys.path):
        for name in _LIBRARIES:
            yield from map(str, sorted(Path(folder, "nvidia").glob(f"*/lib/{name}")))


class ProfiledDelegate(RuntimeDelegate):
    """Marks the calls of user functions as ranges."""

    def __init__(self, ranges: ProfilerRanges, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._ranges = ranges

    def run_kernel(self, device: int, call: KernelCall) -> None:
        """Run a device kernel on a launcher thread."""
        with self._range(f"kernel {self._submissions[call.submission].name} on D{device}"):
            super().run_kernel(device, call)

    def run_host_task(self, call: HostTaskCall | InitializeCall | CombineCall) -> None:
        """Run a part of a host task, compute initial contents, or combine partial results, on a host-task thread."""
        name = f" {self._submissions[call.submission].name}" if call.kind == "host_task" else ""
        with self._range(f"{call.kind.replace('_', ' ')}{name}"):
            super().run_host_task(call)

    @contextlib.contextmanager
    def _range(self, text: str) -> Iterator[None]:
        self._ranges.push(text)
        try:
            yield
        finally:
            self._ranges.pop()


def note_submissions(ranges: ProfilerRanges | None, *recorders: Any) -> Any:
    """The observer of submits that a timeline, graphs and a profiler need; None if there is none of them."""
    noters = [recorder.note_submission for recorder in recorders if recorder is not None]
    if ranges is None and len(noters) < 2:
        return noters[0] if noters else None

    def note(number: int, submission: Any, started_ns: int) -> None:
        if ranges is not None:
            ranges.note(number, submission.name)
        for each in noters:
            each(number, submission, started_ns)

    return note
