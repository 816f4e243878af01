# SPDX-License-Identifier: MIT
"""Queues with priorities on CPU devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import celerity_py as celerity


@contextmanager
def queues(*priorities: int, devices: str = "cpu:1", **settings: Any) -> Iterator[list[celerity.Queue]]:
    celerity.configure(devices=devices, **settings)
    try:
        with ExitStack() as stack:
            yield [stack.enter_context(celerity.Queue(priority=priority)) for priority in priorities]
    finally:
        celerity.configure(devices=None, **dict.fromkeys(settings))
