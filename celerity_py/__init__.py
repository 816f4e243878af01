# SPDX-License-Identifier: MIT
"""Programs for one big device, run on all devices of all nodes: buffers, range mappers, and a runtime underneath."""

from __future__ import annotations

from celerity_py import single_import

single_import.begin()

from celerity_py import access, errors, hints, io, random
from celerity_py._native import Box, Region
from celerity_py._native import version as _version
from celerity_py.buffer import Buffer
from celerity_py.calls.views import View
from celerity_py.configuration import configure
from celerity_py.errors import (
    CelerityError,
    CelerityWarning,
    NestedUse,
    OutOfBoundsAccess,
    OverlappingAccess,
    TaskFailed,
    UsageError,
)
from celerity_py.executor.failures import uncaught_exceptions
from celerity_py.fused_functions import fuse
from celerity_py.host_objects import HostObject
from celerity_py.io.checkpoints import checkpoint
from celerity_py.io.restoring import Restored, restore
from celerity_py.io.stops import stop_requested
from celerity_py.kernels import CudaKernel, kernel
from celerity_py.loops import Loop
from celerity_py.queue import Queue
from celerity_py.recordings import Recording
from celerity_py.reductions.combinations import placed
from celerity_py.reductions.partial_results import Reducer
from celerity_py.reductions.reduction import reduction
from celerity_py.runtime.collective_groups import CollectivePart
from celerity_py.runtime.futures import Future
from celerity_py.runtime.lifecycle import is_dry_run, is_master, rank, size
from celerity_py.tools.progress_bars import progress
from celerity_py.vocabulary.accesses import Access
from celerity_py.vocabulary.parts import Chunk, MapperChunk, Part

__version__ = _version()

__all__ = [
    "Access",
    "Box",
    "Buffer",
    "CelerityError",
    "CelerityWarning",
    "Chunk",
    "CollectivePart",
    "CudaKernel",
    "Future",
    "HostObject",
    "Loop",
    "MapperChunk",
    "NestedUse",
    "OutOfBoundsAccess",
    "OverlappingAccess",
    "Part",
    "Queue",
    "Recording",
    "Reducer",
    "Region",
    "Restored",
    "TaskFailed",
    "UsageError",
    "View",
    "__version__",
    "access",
    "checkpoint",
    "configure",
    "errors",
    "fuse",
    "hints",
    "io",
    "is_dry_run",
    "is_master",
    "kernel",
    "placed",
    "progress",
    "random",
    "rank",
    "reduction",
    "restore",
    "size",
    "stop_requested",
]

uncaught_exceptions.watch_program()
single_import.end(__name__)
