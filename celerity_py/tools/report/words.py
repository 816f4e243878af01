# SPDX-License-Identifier: MIT
"""Figures and lists as a report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: The causes of time on a critical path.
CAUSE_WORDS: Final = {
    "kernel": "kernels",
    "host task": "host tasks",
    "copy": "copies between memories",
    "transfer": "transfers between ranks",
    "allocation": "allocations",
    "planning": "planning",
    "issuing": "issuing and starting",
    "application": "waiting for the application",
    "peer": "waiting for another rank",
}


def format_time(microseconds: float) -> str:
    """With three digits: "31 µs", "1.25 ms", "2 s"."""
    value, unit = microseconds, "µs"
    for larger in ("ms", "s"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{_three_digits(value)} {unit}"


def format_rate(per_second: float) -> str:
    """Bytes per second in decimal units, as data sheets have them."""
    value, unit = per_second, "B/s"
    for larger in ("kB/s", "MB/s", "GB/s", "TB/s"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{_three_digits(value)} {unit}"


def format_percent(share: float) -> str:
    """Such as "95 %"; a digit more below ten."""
    percent = 100 * share
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def _three_digits(value: float) -> str:
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def list_words(words: Sequence[str]) -> str:
    """Such as "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
