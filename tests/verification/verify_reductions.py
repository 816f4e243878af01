# SPDX-License-Identifier: MIT
"""Reductions in the verifier: elements may hold shares of a result; shares add up to the result, each counted once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.property.programs import Kernel
from tests.verification.elements import FlatBox
from tests.verification.verifier import Oracle, VerificationError

FIRST_SHARE = -1000
"""Versions from here down are numbers of shares."""
Transfer: TypeAlias = tuple[int, int, int]
Reduction: TypeAlias = tuple[int, int]
"""(submission, position among the kernel's reductions)"""


@dataclass(frozen=True)
class Chunk:
    """The contribution of one kernel instruction."""

    rank: int
    box: FlatBox


@dataclass(frozen=True)
class Sent:
    """The value that a rank sends for a transfer; known once that rank was replayed."""

    transfer: Transfer
    source: int
    target: int


@dataclass(frozen=True)
class Old:
    """The value from before the reduction."""

    version: int


Part: TypeAlias = Chunk | Sent | Old


class ReductionShares:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._shares: list[tuple[Reduction, tuple[Part, ...]]] = []
        self._sent: dict[Sent, int] = {}
        self._chunks: dict[Reduction, list[Chunk]] = {}
        self._obligations: list[tuple[int, int, str]] = []
        self.by_id: dict[int, Reduction] = {}
        """Reductions are numbered in program order, from 1."""
        for submission, task in oracle.tasks.items():
            if isinstance(task, Kernel):
                for position in range(len(task.reductions)):
                    self.by_id[len(self.by_id) + 1] = (submission, position)

    def _number(self, reduction: Reduction, parts: tuple[Part, ...]) -> int:
        self._shares.append((reduction, parts))
        return FIRST_SHARE - (len(self._shares) - 1)

    def _share(self, number: int) -> tuple[Reduction, tuple[Part, ...]]:
        return self._shares[FIRST_SHARE - number]

    def of_chunk(self, submission: int, position: int, rank: int, box: FlatBox) -> int:
        chunk = Chunk(rank, box)
        self._chunks.setdefault((submission, position), []).append(chunk)
        return self._number((submission, position), (chunk,))

    def sent(self, transfer: Transfer, source: int, target: int, version: int, what: str) -> None:
        key = Sent(transfer, source, target)
        if version > FIRST_SHARE or self._share(version)[0] != self.by_id[transfer[2]]:
            raise VerificationError(f"{what}\n  sends version {version} as share of reduction {transfer[2]}")
        if key in self._sent:
            raise VerificationError(f"{what}\n  sends its share twice")
        self._sent[key] = version

    def received(self, transfer: Transfer, source: int, target: int) -> int:
        return self._number(self.by_id[transfer[2]], (Sent(transfer, source, target),))

    def combine(self, reduction: int, versions: list[int], what: str) -> int:
        """The share of a reduction that a reduce instruction makes of some slots."""
        of = self.by_id[reduction]
        parts: list[Part] = []
        for version in versions:
            if version > FIRST_SHARE:
                parts.append(Old(version))
                continue
            slot_of, more = self._share(version)
            if slot_of == of:
                parts += more
            else:  # the finished result of an earlier reduction
                self.must_be_complete(version, slot_of[0], what)
                parts.append(Old(slot_of[0]))
        return self._number(of, tuple(parts))

    def must_be_complete(self, number: int, submission: int, what: str) -> None:
        self._obligations.append((number, submission, what))

    def _expand(self, number: int) -> tuple[Reduction, list[Part]]:
        reduction, parts = self._share(number)
        result: list[Part] = []
        for part in parts:
            if isinstance(part, Sent):
                if part not in self._sent:
                    raise VerificationError(
                        f"rank {part.target} waits for a share that rank {part.source} never sends: {part.transfer}"
                    )
                result += self._expand(self._sent[part])[1]
            else:
                result.append(part)
        return reduction, result

    def check_obligations(self) -> None:
        """Whoever read a share as a result must have read all of it, no part twice."""
        done: set[tuple[int, int]] = set()
        for number, submission, what in self._obligations:
            if (number, submission) not in done:
                done.add((number, submission))
                self._check(number, submission, what)

    def _check(self, number: int, submission: int, what: str) -> None:
        reduction, parts = self._expand(number)
        if reduction[0] != submission:
            raise VerificationError(f"{what}\n  reads the reduction of S{reduction[0]}, needs S{submission}")
        task = self._oracle.tasks[submission]
        assert isinstance(task, Kernel)
        argument = task.reductions[reduction[1]]
        expected: list[Part] = list(self._chunks[reduction])
        if argument.include_current:
            old = {int(version) for version in self._oracle.before(argument.buffer, submission)}
            expected.append(
                next((part for part in parts if isinstance(part, Old) and part.version in old), Old(min(old)))
            )
        if sorted(map(repr, parts)) != sorted(map(repr, expected)):
            raise VerificationError(f"{what}\n  reads {parts}, the result of S{submission} is made of {expected}")
