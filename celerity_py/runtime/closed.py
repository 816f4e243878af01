# SPDX-License-Identifier: MIT
"""Calls of queues that are closed."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from celerity_py.scheduler.errors import ClosedQueue


class _Closed:
    """Stands in for the runtime of a closed queue."""

    def submit_kernel(self, *_: Any) -> NoReturn:
        self.check_usable("parallel_for()")

    def submit_host_task(self, *_: Any) -> NoReturn:
        self.check_usable("host_task()")

    def check_usable(self, call: str) -> NoReturn:
        raise ClosedQueue(
            f"{call} on a queue that is closed. Submit inside of its `with` block, or make another queue."
        )

    check_readable = check_usable


CLOSED: Final[Any] = _Closed()
