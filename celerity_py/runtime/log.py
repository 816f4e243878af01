# SPDX-License-Identifier: MIT
"""Loggers of celerity_py: one tree below `celerity_py`, each line prefixed with the rank that wrote it."""

from __future__ import annotations

import logging

_handler: logging.Handler | None = None


def set_up(level: str, rank: int, size: int) -> None:
    """Write messages from `level` on to standard error; an application that gave the logger handlers keeps them."""
    global _handler  # noqa: PLW0603 - one logger tree per process
    logging.addLevelName(5, "TRACE")
    logging.addLevelName(logging.CRITICAL + 1, "OFF")
    logger = logging.getLogger("celerity_py")
    logger.setLevel(level.upper())
    if _handler is None:
        if logger.handlers:
            return
        _handler = logging.StreamHandler()
        logger.addHandler(_handler)
    where = f"rank {rank}: " if size > 1 else ""
    _handler.setFormatter(logging.Formatter(f"celerity_py {where}%(levelname)s: %(message)s"))
