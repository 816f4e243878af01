# SPDX-License-Identifier: MIT
"""Advice on how to split a kernel; results never depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from celerity_py.scheduler.errors import ArgumentTypeError, UsageError

__all__ = ["Hint", "oversubscribe", "split_1d", "split_2d"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Hint:
    """Made by the functions of this module, passed to `queue.parallel_for(..., hints=...)`."""

    kind: str
    value: int = 1

    def __repr__(self) -> str:
        return f"{self.kind}({self.value})" if self.kind == "oversubscribe" else f"{self.kind}()"


def split_1d() -> Hint:
    """Cut the index space along dimension 0 only, which is the default."""
    return Hint("split_1d")


def split_2d() -> Hint:
    """Cut the index space along dimensions 0 and 1, into chunks as square as possible."""
    return Hint("split_2d")


def oversubscribe(factor: int) -> Hint:
    """Cut the part of each device into `factor` chunks: transfers of one overlap with the computation of another.

    Args:
        factor: Chunks per device, at least 1.

    Raises:
        UsageError: If it is less than 1.
    """
    if not isinstance(factor, int) or isinstance(factor, bool) or factor < 1:
        raise UsageError(f"hints.oversubscribe() needs a positive number of chunks per device, not {factor!r}.")
    return Hint("oversubscribe", factor)


def resolve(hints: Sequence[Any] | Hint) -> tuple[bool, int]:
    """Whether to split in two dimensions, and the chunks per device.

    Raises:
        ArgumentTypeError: If something is no hint.
        UsageError: If a hint is given twice, or two contradict each other.
    """
    given: dict[str, Hint] = {}
    for hint in [hints] if isinstance(hints, Hint) else hints:
        if not isinstance(hint, Hint):
            raise ArgumentTypeError(f"hints= takes hints such as celerity.hints.split_2d(), not {hint!r}.")
        if hint.kind in given:
            raise UsageError(f"The hint {hint.kind} is given twice: {given[hint.kind]!r} and {hint!r}.")
        given[hint.kind] = hint
    if "split_1d" in given and "split_2d" in given:
        raise UsageError("The hints split_1d() and split_2d() contradict each other; give one of them.")
    oversubscription = given["oversubscribe"].value if "oversubscribe" in given else 1
    return "split_2d" in given, oversubscription
