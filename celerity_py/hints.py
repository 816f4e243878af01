# SPDX-License-Identifier: MIT
"""Hints: advice on how to divide the index space of a kernel. Every rank must give the same ones.

A function of this module returns a hint for `queue.parallel_for(..., hints=...)`. Any thread may call these functions.
A submit raises `UsageError` if its hints contradict each other, or if the same one is given twice.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from celerity_py._native import SPLITS
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.integers import is_int

__all__ = [
    "Hint",
    "border_first",
    "cyclic",
    "oversubscribe",
    "recompute",
    "split_1d",
    "split_2d",
    "split_3d",
    "split_auto",
    "weights",
]


_MAX_BLOCK = 2**62
_MAX_BORDER = 2**32 - 1
_MAX_CHUNKS = 2**16  # per device
_MAX_STEPS = 64


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Hint:
    """A wish for `queue.parallel_for(..., hints=...)`, made by the functions of this module."""

    kind: str
    value: int | tuple[float, ...] = 1

    def __repr__(self) -> str:
        return f"{self.kind}()" if self.kind.startswith("split") else f"{self.kind}({self.value})"


#: The same object for the same hint, so that a repeated submit is recognised by it.
_make = functools.lru_cache(maxsize=256)(Hint)


def split_1d() -> Hint:
    """Cut the index space along dimension 0 only.

    Without a hint it is cut along dimension 0, too. If dimension 0 has fewer items than there are devices, further
    dimensions are cut as well, unless two chunks would then access an element that one of them writes, or a mapper is a
    callable. With this hint, some devices get nothing then.
    """
    return _make("split_1d")


def split_2d() -> Hint:
    """Cut the index space along dimensions 0 and 1, into chunks as square as possible."""
    return _make("split_2d")


def split_3d() -> Hint:
    """Cut the index space along all its dimensions, into chunks as close to cubes as possible."""
    return _make("split_3d")


def split_auto() -> Hint:
    """Cut the index space so that the chunks read as little as possible in common, by the mappers of the kernel.

    A stencil is cut into squares or cubes, a product of matrices into tiles, and a kernel that reads whole columns into
    columns. If every cut costs the same, it goes along dimension 0. A dimension is not cut if two chunks would then
    access an element that one of them writes. With a callable as mapper, dimension 0 alone is cut.
    """
    return _make("split_auto")


def weights(values: Sequence[float]) -> Hint:
    """Cut the index space along dimension 0, into shares proportional to weights.

    Every rank or device with a positive weight gets items, if there are enough. One with weight 0 gets none.

    Args:
        values: One weight per rank, whose devices then get equal shares; or one per device, those of rank 0 first. Not
            negative, and not all 0.

    Raises:
        UsageError: If the values are no such numbers. A submit raises it if their number is neither that of the ranks
            nor that of the devices.
    """
    given: tuple[float, ...] | None = None
    with contextlib.suppress(TypeError, ValueError):
        given = None if isinstance(values, str | bytes) else tuple(float(value) for value in values)
    if given is None:
        raise UsageError(f"hints.weights() takes a sequence of numbers, not {values!r}.")
    wrong = next((place for place, value in enumerate(given) if not 0 <= value < math.inf), None)
    if wrong is not None:
        raise UsageError(
            f"hints.weights() takes finite numbers that are not negative, but number {wrong} of {given} is "
            f"{given[wrong]}."
        )
    if not sum(given) < math.inf or not any(given):
        raise UsageError(f"hints.weights() needs a positive and finite sum; that of {given} is {sum(given)}.")
    return _make("weights", given)


def cyclic(block: int) -> Hint:
    """Deal blocks of dimension 0 to the devices in turns, each as a chunk of its own.

    This balances kernels whose cost grows or falls with the index. Blocks are counted from coordinate 0, and not from
    the beginning of the index space: a kernel over a part of a matrix finds its blocks where they are. Block b runs on
    rank b % ranks, on its device (b // ranks) % devices. A run with a single device does not cut the index space.
    In a kernel with reductions, the blocks of a device run one after the other, as they share the memory for partial
    results. These combine in the order of the blocks of each rank, and then in that of ranks.

    Args:
        block: Items of dimension 0 per block, rounded up to the multiple that `constrain=` asks for. Each block costs a
            launch. Larger blocks are taken if there would be more than 65536.

    Raises:
        UsageError: If `block` is no integer from 1 to 2**62.
    """
    if not is_int(block) or not 1 <= block <= _MAX_BLOCK:
        raise UsageError(f"hints.cyclic() needs a positive number of items per block, not {block!r}.")
    return _make("cyclic", int(block))


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
    to another share, of each dimension that is cut. Kernels with reductions ignore this
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


def recompute(steps: int) -> Hint:
    """Fetch the halos of a recording once for so many steps, and compute the borders of other shares again meanwhile.

    A step is one repetition of a recording. Before `steps` of them, each device gets halos that are so many times as
    deep. Its share grows by them, and then shrinks from step to step, so that it waits for its neighbours only once.
    The results have the same bits, provided that the result for an item depends on the elements that the item reads,
    and not on the chunk. This is so for fused kernels; for others, the hint is your promise.

    Outside of `queue.record`, kernels run as without the hint. All kernels of a recording with this hint have the same
    index space and division, and write by `one_to_one`. With a single device, the hint has no effect.

    Args:
        steps: 1 to 64. More steps exchange less often, and compute more.

    Raises:
        UsageError: If `steps` is no integer from 1 to 64. `queue.record` raises it if the halos would be too deep.
    """
    if not is_int(steps) or not 1 <= steps <= _MAX_STEPS:
        raise UsageError(f"hints.recompute() needs a number of steps from 1 to {_MAX_STEPS}, not {steps!r}.")
    return _make("recompute", int(steps))


class Division(NamedTuple):
    """The division that the hints of a kernel ask for."""

    split: int = SPLITS.index("rows")
    oversubscribe: int = 1  # chunks per device
    border: int = 0  # items; 0: no chunks of their own
    block: int = 0  # items of dimension 0, dealt out in turns
    weights: tuple[float, ...] | None = None
    recompute: int = 0  # steps between exchanges of halos; 0: not asked for

    def has_several_parts(self) -> bool:
        """Whether one device may have several chunks."""
        return self.oversubscribe > 1 or self.border > 0 or self.block > 0

    def in_parts(self, count: int) -> Division:
        """At least `count` chunks for a device that has the whole index space, where there are no borders."""
        return self if count <= 1 else self._replace(oversubscribe=max(self.oversubscribe, count), border=0)


def resolve(hints: Sequence[Any] | Hint, least_parts: int = 1, num_ranks: int = 1, num_devices: int = 1) -> Division:
    """Combine the hints of a kernel.

    Args:
        hints: As given to `parallel_for`.
        least_parts: Chunks per device without any hint.
        num_ranks: Of the run.
        num_devices: Of this rank.

    Raises:
        ArgumentTypeError: If something is no hint.
        UsageError: If a hint is given twice, two contradict each other, or there are too few or too many weights.
    """
    given: dict[str, Hint] = {}
    several: Iterable[Any] = hints if isinstance(hints, Iterable) and not isinstance(hints, str) else [hints]
    for hint in several:
        if not isinstance(hint, Hint):
            text = f"hints= takes hints such as celerity.hints.split_2d(), not {hint!r}."
            if getattr(hint, "__module__", "") == __name__:
                text += f" Call the function: celerity.hints.{hint.__name__}(...)."
            raise ArgumentTypeError(text)
        if hint.kind in given:
            raise UsageError(f"The hint {hint.kind} is given twice: {given[hint.kind]!r} and {hint!r}.")
        given[hint.kind] = hint
    splits = [hint for hint in given.values() if hint.kind in SPLITS]
    parts = [hint for hint in given.values() if hint.kind not in SPLITS and hint.kind != "recompute"]
    contradicting = next(
        (found for found in (splits, parts, [*splits, *parts] if "cyclic" in given else ()) if len(found) > 1), None
    )
    if contradicting:
        raise UsageError(f"The hints {' and '.join(map(repr, contradicting))} contradict each other; give one of them.")
    if "recompute" in given and "cyclic" in given:
        raise UsageError(
            f"The hints {given['recompute']!r} and {given['cyclic']!r} contradict each other: a block has borders on "
            f"all sides, and its device would compute blocks of others instead. Leave one of them out."
        )
    fields: dict[str, Any] = {_FIELDS[hint.kind]: hint.value for hint in given.values() if hint.kind in _FIELDS}
    if splits:
        fields["split"] = SPLITS.index(splits[0].kind)
    division = Division(**fields)
    if division.weights is not None:
        _check_number(division.weights, num_ranks, num_devices)
    return division.in_parts(least_parts)


#: The field of a `Division` that has the value of a hint.
_FIELDS = {"oversubscribe": "oversubscribe", "border_first": "border", "cyclic": "block", "weights": "weights"}
_FIELDS["recompute"] = "recompute"


def _check_number(weights: tuple[float, ...], num_ranks: int, num_devices: int) -> None:
    if len(weights) in {num_ranks, num_ranks * num_devices}:
        return
    ranks = "1 rank" if num_ranks == 1 else f"{num_ranks} ranks"
    devices = "1 device" if num_devices == 1 else f"{num_devices} devices"
    raise UsageError(
        f"hints.weights() has {len(weights)} weights, but this run has {ranks} with {devices} each. Give "
        f"{num_ranks}, one per rank, or {num_ranks * num_devices}, one per device of all ranks. celerity.size() is "
        f"the number of ranks."
    )
