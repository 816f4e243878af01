# SPDX-License-Identifier: MIT
"""Finds out whether all ranks run the same program, and where two programs differ first.

Each rank keeps a running digest of its buffers and tasks (`_native.ProgramLog`). A *claim* is a rank's number of
entries and their digest. Claims travel with pilots, twice a second to the next rank, to everybody at the end of a
program, and with each question of a rank that has waited for 2 s. A rank whose own digest is another one asks the peer
for the first difference: both send digests of fewer and fewer entries, until one describes the entry to the other.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Final

from celerity_py.executor.failures.failure import Failure
from celerity_py.executor.network.communicator import NOTICE_CLAIM, NOTICE_DIGESTS, NOTICE_ENTRY, NOTICE_LIMIT_BYTES
from celerity_py.scheduler.errors import DivergedPrograms

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py._native import ProgramLog
    from celerity_py.executor.network.communicator import Communicator

_CLAIM: Final = struct.Struct("<QQ")
_RANGE: Final = struct.Struct("<QQ")  # first entry, stride
_MOST_DIGESTS: Final = (NOTICE_LIMIT_BYTES - _RANGE.size) // 8
_LONGEST_ASPECT: Final = 300  # characters
_SHORT_ASPECT: Final = 60  # where a character takes six bytes in JSON, and so an entry more than a notice may have
_CLAIM_INTERVAL_S: Final = 0.5
_PATIENCE_S: Final = 3.0  # for a peer that is asked for the first difference
#: By the aspect that differs; follows the advice for all of them.
_REMEDIES: Final = {
    "initial contents": " The numbers are digests of the contents. Buffer.from_array() takes the same array on every "
    "rank, so give random numbers a seed; Buffer.from_local() takes what each rank has of its own.",
    "group": " All ranks take part in the tasks of each group. For some of the ranks alone, divide the communicator in "
    "the task: part.comm.Split(colour).",
    "plain arguments": " The numbers are digests of all arguments but accesses: print these arguments on each rank. "
    "Values of celerity.rank(), of a clock, or of random numbers without a seed differ. An address of memory goes to a "
    "CudaKernel as ctypes.c_void_p(address), which is not compared.",
}
_REMEDY_FOR_THREADS: Final = (
    " Several threads have submitted, and chance may decide which one is first: submit from one thread, or join() each "
    "thread before the next one starts."
)
#: Part of the site of a replay.
_REPLAY: Final = " repetition(s) of a recording"
_MISSING: Final = "nothing: its program has not come so far"

Aspects = list[tuple[str, str]]


class ProgramComparison:
    """The exchange with the other ranks. Executor thread only; times are those of one monotonic clock, in seconds.

    Args:
        log: Of this rank's program.
        communicator: Of the run.
        describe_site: Makes "file:line" of the number of a line, or an empty string.
    """

    def __init__(self, log: ProgramLog, communicator: Communicator, describe_site: Callable[[int], str]) -> None:
        self._log = log
        self._communicator = communicator
        self._describe_site = describe_site
        self._claimed_entries = 0
        self._next_claim_s = 0.0
        self._asked_since_s: float | None = None

    def claim(self) -> bytes:
        """The claim of this rank for its program so far."""
        return _CLAIM.pack(*self._log.latest)

    def take_claim(self, source_rank: int, content: bytes) -> bytes:
        """Compare with a claim, and return the rest of the notice behind it."""
        self._log.compare(source_rank, *_CLAIM.unpack_from(content))
        return content[_CLAIM.size :]

    @property
    def has_diverged(self) -> bool:
        """Whether some rank is known to run another program."""
        return self._log.has_diverged

    def check(self, now_s: float, *, is_leaving: bool = False) -> Failure | None:
        """Send a claim now and then; return the failure if a peer that differs does not say where.

        Args:
            now_s: The time.
            is_leaving: This rank's program has ended, and everybody has been sent its last claim.
        """
        divergence = self._log.divergence if self._log.has_diverged else None
        if divergence is None:
            if not is_leaving:
                self._send_claim(now_s)
            return None
        peer, entry = divergence
        if self._asked_since_s is None:
            self._asked_since_s = now_s
            self._send_digests(peer, self._log.oldest, entry)
        elif now_s - self._asked_since_s > _PATIENCE_S:
            return self._diverge(peer, entry, [], is_exact=False)
        return None

    def take_digests(self, source_rank: int, content: bytes) -> None:
        """Answer a peer's digests with digests of fewer entries, or with this rank's first entry that differs."""
        first, stride = _RANGE.unpack_from(content)
        oldest = self._log.oldest
        if first < oldest:
            self._send_digests(source_rank, oldest, self._log.latest[0])
            return
        theirs = struct.unpack_from(f"<{(len(content) - _RANGE.size) // 8}Q", content, _RANGE.size)
        ours = self._log.digests(first, stride, len(theirs))
        position = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), len(ours))
        entry = first + position * stride
        if position == 0 and first == oldest > 1:
            self._send_entry(source_rank, first, is_exact=False)
        elif stride == 1:
            self._send_entry(source_rank, entry, is_exact=True)
        else:
            self._send_digests(source_rank, max(first, entry - stride + 1), entry)

    def take_entry(self, source_rank: int, content: bytes) -> Failure:
        """The failure that a peer's description of its entry completes."""
        entry, is_exact, site, aspects = json.loads(content)
        shown = [("kind", _MISSING)] if aspects is None else [(str(name), str(text)) for name, text in aspects]
        return self._diverge(source_rank, entry, shown, site, is_exact=is_exact)

    def _send_claim(self, now_s: float) -> None:
        if now_s < self._next_claim_s:
            return
        self._next_claim_s = now_s + _CLAIM_INTERVAL_S
        entries, _ = self._log.latest
        if entries != self._claimed_entries:
            self._claimed_entries = entries
            right = (self._communicator.rank + 1) % self._communicator.size
            self._communicator.send_notice(right, NOTICE_CLAIM, self.claim())

    def _send_digests(self, peer: int, first: int, last: int) -> None:
        stride = max(1, -(-(last - first + 1) // _MOST_DIGESTS))
        digests = self._log.digests(first, stride, _MOST_DIGESTS)
        content = _RANGE.pack(first, stride) + struct.pack(f"<{len(digests)}Q", *digests)
        self._communicator.send_notice(peer, NOTICE_DIGESTS, content)

    def _send_entry(self, peer: int, entry: int, *, is_exact: bool) -> None:
        site, aspects = self._find(entry)
        content = b""
        for most in (_LONGEST_ASPECT, _SHORT_ASPECT):
            shown = None if aspects is None else [(name, text[:most]) for name, text in aspects]
            content = json.dumps([entry, is_exact, site[-most:], shown]).encode("ascii")
            if len(content) <= NOTICE_LIMIT_BYTES:
                break
        self._communicator.send_notice(peer, NOTICE_ENTRY, content)

    def _find(self, entry: int) -> tuple[str, Aspects | None]:
        """A line and a description. The program may have left a replay sooner than that of another rank."""
        found = self._log.describe(entry)
        if found is None:
            return "", None
        site, aspects = found
        before = self._log.describe(entry - 1) if entry > 1 else None
        here = self._describe_site(site)
        if here and before is not None and before[0] != site:
            there = self._describe_site(before[0])
            if _REPLAY in there:
                here = f"{here}, behind {there.rpartition(', ')[2]}"
        return here, aspects

    def _diverge(self, peer: int, entry: int, theirs: Aspects, their_site: str = "", *, is_exact: bool) -> Failure:
        rank = self._communicator.rank
        our_site, found = self._find(entry)
        ours = found if found is not None else [("kind", _MISSING)]
        differing = _differing_aspects(ours, theirs)
        position = f"Call {entry} is the first that differs" if is_exact else f"They differ at call {entry} or before"
        if differing:
            position += f", in its {' and '.join(differing)}"
        sides = sorted([(rank, ours, our_site), (peer, theirs, their_site)])
        text = (
            f"rank {sides[0][0]} and rank {sides[1][0]} do not run the same program. {position}. "
            + " ".join(_describe(*side, differing) for side in sides)
            + " All ranks must make the same calls with the same arguments, in the same order."
            + "".join(_REMEDIES.get(name, "") for name in differing)
            + (_REMEDY_FOR_THREADS if " by thread " in our_site + their_site else "")
        )
        return Failure(rank, f"DivergedPrograms: {text}", site=our_site, error=DivergedPrograms(text))


def _differing_aspects(ours: Aspects, theirs: Aspects) -> list[str]:
    """The names of the aspects that differ; none if these are different calls altogether, or one side is unknown."""
    here, there = dict(ours), dict(theirs)
    if here.keys() != there.keys() or here.get("kind") != there.get("kind"):
        return []
    # A long text may have come shortened.
    return [name for name in here if here[name][: max(len(there[name]), _SHORT_ASPECT)] != there[name]]


def _describe(rank: int, aspects: Aspects, site: str, differing: list[str]) -> str:
    """Describe a call of a rank: the call itself, the aspects that differ, and the line."""
    shown = dict(aspects)
    call = " ".join(filter(None, (shown.pop("kind", "something that it does not say"), shown.pop("name", ""))))
    details = [f"{name} {text or 'none'}" for name, text in shown.items() if name in differing]
    line = f" (submitted at {site})" if site else ""
    return f"Rank {rank}: {', '.join([call, *details])}{line}."
