# SPDX-License-Identifier: MIT
"""The folds of a pass as Python for numba. A part of the pass combines pieces of rows, and then the results of these.

Additions of a piece are in any order, so that LLVM computes several at once. Sums of the pieces keep what each addition
loses. A piece is short, so that the sum of a piece is nearly as good.

The elements of a row go into a buffer, piece by piece. A function of its own adds these up, in the same order whatever
the kernel does besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from celerity_py.fusion.folds import Fold

#: Items of a piece. To begin and end one takes as long as a few items.
PIECE: Final = 512


def before(fold: Fold, place: int, identity: str) -> list[str]:
    """What stands before the loops of a part. `place`: of the fold in its pass."""
    return [f"f{place} = {identity}", *([f"e{place} = {identity}"] if _is_sum(fold) else [])]


def in_pieces(low: str, high: str, loops: list[str], first: str, folds: dict[Fold, int]) -> list[str]:
    """A loop over the pieces of a row. `loops`: over the items from `begin_piece` to `end_piece`."""
    begins = [f"a{place} = i{place}" for place in folds.values()]
    ends = [line for fold, place in folds.items() for line in _join(fold, place)]
    return [
        f"{first}_low, {first}_high = {low}, {high}",
        f"for {first}_begin in range({first}_low, {first}_high, {PIECE}):",
        *(f"    {line}" for line in (*begins, *loops, *ends)),
    ]


def before_row(fold: Fold, place: int) -> list[str]:
    """What stands before the elements of a row."""
    return before(fold, place, f"i{place}")


def in_pieces_of_row(low: str, high: str, loops: list[str], first: str, folds: dict[Fold, int]) -> list[str]:
    """A loop over the pieces of a row. `loops` put the elements from `begin_piece` to `end_piece` into buffers."""
    ends = [
        line
        for fold, place in folds.items()
        for line in (
            f"a{place} = row_{fold.operation}(r{place}, {first}_end - {first}_begin, i{place})",
            *_join(fold, place),
        )
    ]
    return [
        f"for {first}_begin in range({low}, {high}, {PIECE}):",
        f"    {first}_end = min({first}_begin + {PIECE}, {high})",
        *(f"    {line}" for line in (*loops, *ends)),
    ]


def take(fold: Fold, place: int, value: str, mask: str | None) -> list[str]:
    """An item gives its element."""
    line = f"a{place} = fold_{fold.operation}(a{place}, {value})"
    return [line] if mask is None else [f"if {mask}:", f"    {line}"]


def result_of(fold: Fold, place: int) -> str:
    """The result of a part."""
    return f"add_(f{place}, e{place})" if _is_sum(fold) else f"f{place}"


def join(fold: Fold, first: str, second: str) -> str:
    """Two results as one."""
    return f"join_{fold.operation}({first}, {second})"


def _join(fold: Fold, place: int) -> list[str]:
    f, a, e, n = (f"{kind}{place}" for kind in "faet")  # n0 is a number of the launch
    if not _is_sum(fold):
        return [f"{f} = {join(fold, f, a)}"]
    return [f"{n} = add_({f}, {a})", f"{e} = add_({e}, lost_({f}, {a}, {n}))", f"{f} = {n}"]


def _is_sum(fold: Fold) -> bool:
    return fold.operation == "add" and fold.value.dtype.kind == "f"
