# SPDX-License-Identifier: MIT
"""Objects of the host that tasks change by side effects."""

from __future__ import annotations

from typing import Any

from celerity_py.scheduler.errors import NotAvailableYet


class HostObject:
    """An object that host tasks use one after the other.

    Raises:
        NotAvailableYet: Always, in this version.
    """

    def __init__(self, obj: Any = None) -> None:
        raise NotAvailableYet(
            f"HostObject({type(obj).__name__}) is not available yet in this version of celerity_py. "
            f"Let host tasks access a common buffer by read_write() to have them run one after the other."
        )
