# SPDX-License-Identifier: MIT
"""Hints: advice on how to divide the index space of a kernel. Every rank must give the same ones."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.integers import is_int

__all__ = ["Hint", "border_first", "oversubscribe", "split_1d", "split_2d"]


_MAX_BORDER = 2**32 - 1
_MAX_CHUNKS = 2**16  # per device


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Hint:
    """A wish for `queue.parallel_for(..., hints=...)`, made by the functions of this module."""

    kind: str
    value: int = 1

    def __repr__(self) -> str:
        return f"{self.kind}()" if self.kind.startswith("split") else f"{self.kind}({self.value})"


#: The same object for the same hint, so that a repeated submit is recognised by it.
_make = functools.lru_cache(maxsize=256)(Hint)


def split_1d() -> Hint:
    """Cut the index space along dimension 0 only. This is the default."""
    return _make("split_1d")


def split_2d() -> Hint:
    """Cut the index space along dimensions 0 and 1, into chunks as square as possible."""
    return _make("split_2d")


def oversubscribe(factor: int) -> Hint:
    """Cut the share of each device into `factor` chunks. Transfers of one chunk overlap with work of another.

    Kernels with reductions ignore this hint.

    Args:
        factor: Chunks per device, 1 to 65536. Each chunk costs a launch; 2 to 8 are enough to hide transfers.

    Raises:
        UsageError: If `factor` is no integer from 1 to 65536.
    """
    if not is_int(factor) or not 1 <= factor <= _MAX_CHUNKS:
        raise UsageError(
            f"hints.oversubscribe() needs a positive number of chunks per device, at most {_MAX_CHUNKS}, "
            f"not {factor!r}."
        )
    return _make("oversubscribe", int(factor))


def border_first(width: int = 1) -> Hint:
    """Run the outermost items of each device's share first, as chunks of their own.

    The neighbours' halos of a stencil then travel while the device computes the inside. A border lies on each side next
    to another share: of dimension 0, and with `split_2d()` of dimension 1 as well. Kernels with reductions ignore this
    hint.

    Args:
        width: Items of a border at each such side, rounded up to the multiple that `constrain=` asks for. Take the
            reach of the stencil, or a few items more if the kernel is faster with them.

    Raises:
        UsageError: If `width` is no integer from 1 to 2**32 - 1.
    """
    if not is_int(width) or not 1 <= width <= _MAX_BORDER:
        raise UsageError(
            f"hints.border_first() needs a positive number of items, at most {_MAX_BORDER}, not {width!r}."
        )
    return _make("border_first", int(width))


class Division(NamedTuple):
    """The division that the hints of a kernel ask for."""

    split_2d: bool = False
    oversubscribe: int = 1  # chunks per device
    border: int = 0  # items; 0: no chunks of their own

    def whole_shares(self) -> Division:
        """One chunk per device."""
        return Division(self.split_2d)

    def in_parts(self, count: int) -> Division:
        """At least `count` chunks for a device that has the whole index space, where there are no borders."""
        return self if count <= 1 else Division(self.split_2d, max(self.oversubscribe, count))


def resolve(hints: Sequence[Any] | Hint, least_parts: int = 1) -> Division:
    """Combine the hints of a kernel.

    Args:
        hints: As given to `parallel_for`.
        least_parts: Chunks per device without any hint.

    Raises:
        ArgumentTypeError: If something is no hint.
        UsageError: If a hint is given twice, or two contradict each other.
    """
    given: dict[str, Hint] = {}
    several: Iterable[Any] = hints if isinstance(hints, Iterable) and not isinstance(hints, str) else [hints]
    for hint in several:
        if not isinstance(hint, Hint):
            raise ArgumentTypeError(f"hints= takes hints such as celerity.hints.split_2d(), not {hint!r}.")
        if hint.kind in given:
            raise UsageError(f"The hint {hint.kind} is given twice: {given[hint.kind]!r} and {hint!r}.")
        given[hint.kind] = hint
    if "split_1d" in given and "split_2d" in given:
        raise UsageError("The hints split_1d() and split_2d() contradict each other; give one of them.")
    if "oversubscribe" in given and "border_first" in given:
        raise UsageError("The hints oversubscribe() and border_first() contradict each other; give one of them.")
    oversubscription = given["oversubscribe"].value if "oversubscribe" in given else 1
    border = given["border_first"].value if "border_first" in given else 0
    return Division("split_2d" in given, oversubscription, border).in_parts(least_parts)
