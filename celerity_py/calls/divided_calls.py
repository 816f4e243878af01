# SPDX-License-Identifier: MIT
"""With CHECK: compares the result of a call of a kernel with that of two calls, each for a half of its chunk.

A function over a whole view, such as `np.roll(u.array, 1)`, sees only the part that its chunk accesses, and so has
another result at the border of each chunk. The two calls work on copies, before the kernel's own call. Their results
may differ by rounding, because sums over other extents round otherwise.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from celerity_py._native import Box, RangeMapper, Region
from celerity_py.calls.repeatable_functions import may_run_again
from celerity_py.calls.views import View
from celerity_py.executor.failures.failure import describe_error
from celerity_py.vocabulary.accesses import READ, Access, Port
from celerity_py.vocabulary.hidden_mistakes import forget, refuse_hidden
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.parts import Chunk
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)

#: The calls that are compared: data is often constant in the first ones.
COMPARED: Final = frozenset({1, 2, 4, 8, 16})
_MOST_BYTES: Final = 2**28  # of copies
_MOST_LINES: Final = 4096


class KnownMappers(NamedTuple):
    """Noted at the submit of a kernel: what is needed to divide its chunks further."""

    mappers: list[RangeMapper]  # of its accesses, in their order; built-in ones
    rows: int  # chunks have a multiple of so many items in dimension 0

    @classmethod
    def of(cls, accesses: Sequence[Access], granularity: Sequence[int] | None) -> KnownMappers:
        """Those of accesses with native mappers."""
        return cls([access.mapper for access in accesses], (granularity or (1,))[0])


class NativeForm(Protocol):
    """What native code would run in the place of a kernel's function."""

    def compare(self, submission: Submission, part: Chunk, bindings: Sequence[Any], binder: Any) -> None:
        """Run both on copies of what a chunk accesses, and compare the results."""


class CheckedSubmission(Submission):
    """With CHECK: the entry of a kernel. The call that submits it sets the attributes."""

    __slots__ = ("known_mappers", "native_form")

    def __init__(self, *record: Any) -> None:
        super().__init__(*record)
        #: None if its chunks cannot be divided further.
        self.known_mappers: KnownMappers | None = None
        #: None if Python alone can run it.
        self.native_form: NativeForm | None = None


class _Half(NamedTuple):
    box: Box
    regions: list[Region]  # one per access
    arrays: list[np.ndarray[Any, Any]]  # the bounding box of each region, as the call leaves it
    error: str  # of the call; empty if it returned


class DividedCalls:
    """Compares some calls of each line that submits a kernel; threads may do so at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[Any, int] = {}  # by line; a negative number: it has been warned of

    def run(self, submission: Submission, part: Any, bindings: Sequence[Any], binder: Any) -> Comparison | None:
        """Call the function of a kernel for two halves of a chunk, on copies; None if that is not possible.

        Args:
            submission: The kernel.
            part: Its chunk.
            bindings: Of its accesses.
            binder: Makes arrays over their memory.
        """
        known = submission.known_mappers if isinstance(submission, CheckedSubmission) else None
        if known is None or binder.xp is not np or not self._is_due(submission):
            return None
        halves = _halves_of(part.box, known.rows)
        ports = [arg for arg in submission.args if arg.__class__ is Port]
        if not halves or any(binding is None or binding.parts for binding in bindings):
            return None
        pairs = list(zip(known.mappers, ports, strict=True))
        regions = [[mapper.region(half, part.global_box, port.record.box) for mapper, port in pairs] for half in halves]
        sources = [binder._array_of(port.record, binding, False) for port, binding in zip(ports, bindings, strict=True)]
        copied = [(port, where) for of in regions for port, where in zip(ports, of, strict=True)]
        if _overlap(ports, *regions) or sum(_bytes(port, where) for port, where in copied) > _MOST_BYTES:
            return None
        if any(port.wraps and len(where.boxes) > 1 for port, where in copied):
            return None  # these elements would lie in separate memory
        if not may_run_again(submission.function, [arg for arg in submission.args if arg.__class__ is not Port]):
            return None
        made = [_run(submission, part, half, of, sources) for half, of in zip(halves, regions, strict=True)]
        return Comparison(self, submission, part, ports, made, sources)

    def _is_due(self, submission: Submission) -> bool:
        line = submission.code, submission.lasti
        with self._lock:
            calls = self._calls.get(line, 0) + 1
            if calls <= 0:
                return False
            if len(self._calls) >= _MOST_LINES:
                self._calls.clear()
            self._calls[line] = calls
        return calls in COMPARED

    def warn(self, submission: Submission, text: str) -> None:
        """Print a warning, once per line that submits."""
        with self._lock:
            line = submission.code, submission.lasti
            if self._calls.get(line, 0) < 0:
                return
            self._calls[line] = -(2**62)
        _log.warning("%s", text)


class Comparison(NamedTuple):
    """Two calls for the halves of a chunk, to be compared with the call for the chunk itself."""

    owner: DividedCalls
    submission: Submission
    part: Chunk
    ports: list[Port]
    halves: list[_Half]
    sources: list[tuple[np.ndarray[Any, Any], Box]]  # the memory of each access, and where it lies

    def finish(self) -> None:
        """Warn if the call for the chunk has left other values than the two."""
        for half in self.halves:
            text = self._mistake(half)
            if text:
                cut = " and ".join(show(other.box) for other in self.halves)
                self.owner.warn(
                    self.submission,
                    f"{self.submission.describe()} {text} if its chunk {show(self.part.box)} is divided into {cut}, as "
                    f"with more devices. A function over a whole view, such as np.roll(u.array, 1) or u[...].mean(), "
                    f"sees only what the chunk accesses: index boxes, as in u[chunk.box.shift(-1)], and reduce with "
                    f"celerity.reduction(). (Found by CELERITY_CHECK; said once per line.)",
                )
                return

    def _mistake(self, half: _Half) -> str:
        if half.error:
            return f"raises {half.error.rstrip('.')}"
        for port, region, array, (memory, allocated) in zip(
            self.ports, half.regions, half.arrays, self.sources, strict=True
        ):
            if port.mode == READ:
                continue
            for box in region.boxes:
                expected = memory[box.relative_slices(allocated)]
                found = array[box.relative_slices(region.bounding_box)]
                wrong = differences(expected, found, box.ndim)
                if wrong.any():
                    first = tuple(int(at) for at in np.argwhere(wrong)[0])
                    place = tuple(a + b for a, b in zip(first, box.min, strict=True))
                    return (
                        f"gives {port.record.label} other values, {int(wrong.sum())} of {wrong.size}, such as "
                        f"{found[first]} instead of {expected[first]} at {show(place)},"
                    )
        return ""


def differences(expected: np.ndarray[Any, Any], found: np.ndarray[Any, Any], ndim: int) -> np.ndarray[Any, Any]:
    """The elements that differ by more than rounding.

    Args:
        expected: Elements.
        found: As many.
        ndim: The number of dimensions before those of an element.
    """
    if expected.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            finite = np.isfinite(expected)
            scale = np.abs(expected[finite]).max(initial=0)
            tolerance = float(np.sqrt(np.finfo(expected.dtype).eps)) * scale
            same = (expected == found) | (np.isnan(expected) & np.isnan(found))
            wrong = ~same & ~(finite & (np.abs(expected - found) <= tolerance))
    else:
        wrong = np.asarray(expected != found)
    result: np.ndarray[Any, Any] = wrong.any(axis=tuple(range(ndim, wrong.ndim))) if wrong.ndim > ndim else wrong
    return result


def _halves_of(box: Box, rows: int) -> list[Box]:
    """A box, cut across dimension 0 at a multiple of so many rows; empty if that cannot be."""
    if box.ndim == 0:
        return []
    low, high = box.min[0], box.max[0]
    middle = low + (high - low) // 2 // rows * rows
    if not low < middle < high:
        return []
    return [Box(box.min, (middle, *box.max[1:])), Box((middle, *box.min[1:]), box.max)]


def _bytes(port: Port, region: Region) -> int:
    return region.bounding_box.size * int(port.record.dtype.itemsize)


def _overlap(ports: list[Port], first: list[Region], second: list[Region]) -> bool:
    """Whether one half accesses elements that the other one writes, which a submit would refuse."""
    for port, a, b in zip(ports, first, second, strict=True):
        if port.mode == READ:
            continue
        for other, c, d in zip(ports, first, second, strict=True):
            if other.record is port.record and (a & d or b & c):
                return True
    return False


def _run(
    submission: Submission,
    part: Chunk,
    half: Box,
    regions: list[Region],
    sources: list[tuple[np.ndarray[Any, Any], Box]],
) -> _Half:
    arrays = [
        np.array(memory[where.bounding_box.relative_slices(allocated)])  # also of a 0-D buffer, whose item is a scalar
        for where, (memory, allocated) in zip(regions, sources, strict=True)
    ]
    given = iter(zip(regions, arrays, strict=True))
    arguments = [_view(arg, *next(given), submission) if arg.__class__ is Port else arg for arg in submission.args]
    error = ""
    try:
        chunk = Chunk(half, part.global_box, part.device, part.stream, part.xp)
        submission.run(call_quietly, submission.function, chunk, *arguments)
        refuse_hidden(submission)
    except Exception as raised:  # noqa: BLE001 - the code of users
        forget(submission)
        error = describe_error(raised)
    return _Half(half, regions, arrays, error)


def call_quietly(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function without NumPy's warnings: the call whose results the program gets has the same."""
    with np.errstate(all="ignore"):
        function(*arguments)


def _view(port: Port, region: Region, array: np.ndarray[Any, Any], submission: Submission) -> View[Any]:
    writable = port.mode != READ
    box = region.bounding_box
    declared = region if len(region.boxes) > 1 else None
    base = array.view()
    base.flags.writeable = writable
    return View(base, box, box, declared, writable, port.record, submission)
