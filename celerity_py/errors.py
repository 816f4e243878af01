# SPDX-License-Identifier: MIT
"""The exceptions of celerity_py; also reachable as `celerity_py.UsageError` and so on."""

from __future__ import annotations

from celerity_py.scheduler.errors import (
    ArgumentTypeError,
    CelerityError,
    CelerityWarning,
    ClosedQueue,
    CommunicationError,
    ConfigurationError,
    DimensionMismatch,
    InconsistentMapper,
    InternalError,
    LaunchError,
    MapperError,
    NestedUse,
    NotAvailableYet,
    OutOfBoundsAccess,
    OutOfMemory,
    OverlappingAccess,
    ReadOnlyAccess,
    ResourceError,
    TaskFailed,
    UninitializedRead,
    UnsupportedIndex,
    UsageError,
)

__all__ = [
    "ArgumentTypeError",
    "CelerityError",
    "CelerityWarning",
    "ClosedQueue",
    "CommunicationError",
    "ConfigurationError",
    "DimensionMismatch",
    "InconsistentMapper",
    "InternalError",
    "LaunchError",
    "MapperError",
    "NestedUse",
    "NotAvailableYet",
    "OutOfBoundsAccess",
    "OutOfMemory",
    "OverlappingAccess",
    "ReadOnlyAccess",
    "ResourceError",
    "TaskFailed",
    "UninitializedRead",
    "UnsupportedIndex",
    "UsageError",
]
