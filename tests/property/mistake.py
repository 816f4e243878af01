# SPDX-License-Identifier: MIT
"""A legal program with one mistake put into it, and the register of the kinds of mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.property.draws import Draws
from tests.property.programs import (
    Kernel,
    Program,
    Step,
)
from tests.verification.elements import box_size

DIVERGED = ("DivergedPrograms",)


@dataclass(frozen=True)
class Tampering:
    """A mistake in the body of one task, which its submit does not show. `place` is that of its step."""

    place: int
    how: str


@dataclass(frozen=True)
class Illegal:
    """A program with a mistake. With `odd_steps`, one rank runs those, and all others `program`."""

    kind: str
    expected: tuple[str, ...]
    program: Program
    odd_steps: tuple[Step, ...] | None = None
    tampering: Tampering | None = None
    odd_tampering: Tampering | None = None
    needs_check: bool = False
    """Reported with `CELERITY_CHECK=1` only."""
    needs_ranks: bool = False
    """One rank alone may do so."""
    one_device: bool = False
    """One rank with one device makes the mistake as well."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that all ranks have in addition."""

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.tampering or ''}", str(self.program)]
        if self.odd_steps is not None:
            lines += ["the odd rank:", *map(str, self.odd_steps)]
        return "\n".join(lines)


Change = Callable[[Draws, Program], Illegal | None]
MISTAKES: dict[str, Change] = {}


def mistake(kind: str) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        MISTAKES[kind] = change
        return change

    return add


def large_kernels(program: Program) -> Iterator[tuple[int, Kernel]]:
    """Those with a chunk for each of four devices: one chunk alone cannot get into another one's way."""
    for n, step in enumerate(program.steps):
        if not isinstance(step, Kernel) or step.granularity is not None or not step.box:
            continue
        if step.split in {"rows", "split_1d", "split_2d"} and box_size(step.box[:1]) >= 4:
            yield n, step
