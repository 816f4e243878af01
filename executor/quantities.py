# SPDX-License-Identifier: MIT
"""Quantities as messages and timelines show them."""

from __future__ import annotations


def format_bytes(count: int) -> str:
    """Such as "16 KiB" or "1.5 GiB"."""
    value = float(count)
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"
