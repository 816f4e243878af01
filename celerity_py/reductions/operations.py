# SPDX-License-Identifier: MIT
"""The operations of reductions: their names in Python, NumPy and the device header, and their identities."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np


class Operation(NamedTuple):
    """One operation of `celerity.reduction`."""

    combine: np.ufunc
    #: In the namespace `celerity` of the device header.
    device_type: str
    #: None if it needs an order: the largest or smallest value of the dtype.
    identity: int | None


#: By the name that users give. The native core names them in the same order.
OPERATIONS: Final = {
    "sum": Operation(np.add, "sum", 0),
    "prod": Operation(np.multiply, "prod", 1),
    "min": Operation(np.minimum, "min", None),
    "max": Operation(np.maximum, "max", None),
    "and": Operation(np.logical_and, "logical_and", 1),
    "or": Operation(np.logical_or, "logical_or", 0),
    "xor": Operation(np.bitwise_xor, "bitwise_xor", 0),
}
#: Names of operations by their types in the device header.
BY_DEVICE_TYPE: Final = {operation.device_type: name for name, operation in OPERATIONS.items()}


def identity_of(op: str, dtype: np.dtype[Any]) -> Any:
    """The value that leaves every other one unchanged by `op`."""
    identity = OPERATIONS[op].identity
    if identity is not None:
        return dtype.type(identity)
    if dtype.kind == "f":
        return dtype.type(np.inf if op == "min" else -np.inf)
    if dtype.kind == "b":
        return dtype.type(op == "min")
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if op == "min" else limits.min)
