# SPDX-License-Identifier: MIT
"""The checks of CELERITY_CHECK around each call of a user's function: unwritten elements, and elements outside.

Before the call, a pattern fills the elements of `write` accesses; afterwards it must be gone. An access to a region of
several boxes gets a copy of its bounding box, with a pattern between the boxes. The pattern shows writes between the
boxes, and results that are computed from there. On GPUs, whose arrays cannot be read-only, the elements of `read`
accesses are compared with their values before the call. `divided_calls` compares some calls with calls for halves of
their chunks, and a `NativeForm` others with what native code would compute.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from celerity_py._native import Box, Region, box_from_flat
from celerity_py.calls.divided_calls import CheckedSubmission, DividedCalls
from celerity_py.calls.fill_patterns import UNWRITTEN, fill_of, outside, position_of
from celerity_py.calls.outer_variables import compare_values
from celerity_py.calls.views import address_of
from celerity_py.scheduler.errors import IncompleteWrite, OutOfBoundsAccess, ReadOnlyAccess
from celerity_py.vocabulary.accesses import READ, WRITE, Port
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.submissions import Submission

#: Down to this probability, agreement with random patterns counts as chance.
_CREDIBLE: Final = 1e-9
_MOST_SUSPICIONS: Final = 1024
_MOST_BYTES: Final = 1 << 26  # of their positions

_copies = itertools.count(1)


class _Patch(NamedTuple):
    """A box of elements with a pattern, which may be the values that they had before the call."""

    port: Port
    box: Box
    words: Any  # where the elements lie, as an array of words with one dimension more
    pattern: Any  # of the same shape, or one word


class _Suspicion(NamedTuple):
    """Elements that had their pattern in each of the last calls, as positions among all that the access fills."""

    positions: Any
    calls: int


class CallChecks:
    """Checks calls of kernels and host tasks; threads may do so at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._suspicions: dict[Any, _Suspicion] = {}
        self._divided_calls = DividedCalls()
        #: Of random patterns; has a lock of its own.
        self.generator = np.random.Generator(np.random.SFC64())

    @contextmanager
    def around(
        self, submission: Submission, part: Any, bindings: Sequence[Any], binder: Any
    ) -> Iterator[Sequence[Any]]:
        """Fill elements that must be overwritten, let the caller call, and look for the pattern afterwards.

        Args:
            submission: The task whose function is called.
            part: The first argument of its function.
            bindings: The bindings of its accesses.
            binder: Makes arrays over their memory.

        Returns:
            The bindings to make views of.

        Raises:
            IncompleteWrite: If the call leaves elements of a `write` access unwritten.
            OutOfBoundsAccess: If it uses elements between the boxes of a region.
            ReadOnlyAccess: If it changes elements that it declares to read.
            UsageError: If the function uses a value from outside that has changed since the submit.
            InternalError: If the native form of a fused kernel has another result.
        """
        compare_values(submission)
        if isinstance(submission, CheckedSubmission) and submission.native_form is not None:
            submission.native_form.compare(submission, part, bindings, binder)
        comparison = self._divided_calls.run(submission, part, bindings, binder)
        call = _Call(self, submission, bindings, binder)
        try:
            yield call.bindings
        finally:
            for copy in call.copies:
                copy.forget()
        compare_values(submission, has_run=True)
        call.verify()
        if comparison is not None:
            comparison.finish()

    def find_unwritten(self, key: Any, hits: Any, count: int, chance: float) -> Any:
        """The elements that cannot have their pattern by chance, among all that still have it.

        If one call does not rule out chance, the elements are remembered: chance does not hit the same ones repeatedly.

        Args:
            key: The same for calls that fill the same elements.
            hits: Positions of the elements with their pattern.
            count: How many were filled.
            chance: Probability that an element gets its pattern by chance.
        """
        if chance == 0 or (hits.size > 0 and _tail(count, chance, hits.size) < _CREDIBLE):
            return hits
        with self._lock:
            before = self._suspicions.pop(key, None)
            if hits.size == 0:
                return hits
            calls = 1
            if before is not None:
                again = np.intersect1d(before.positions, hits, assume_unique=True)
                if again.size:
                    hits, calls = again, before.calls + 1
            if count * chance**calls < _CREDIBLE:
                return hits
            self._suspicions[key] = _Suspicion(hits, calls)
            total = sum(each.positions.nbytes for each in self._suspicions.values())
            while len(self._suspicions) > 1 and (len(self._suspicions) > _MOST_SUSPICIONS or total > _MOST_BYTES):
                total -= self._suspicions.pop(next(iter(self._suspicions))).positions.nbytes
        return hits[:0]


def _tail(count: int, chance: float, hits: int) -> float:
    """An upper bound (Chernoff's) for the probability of so many hits by chance."""
    expected = count * chance
    return math.exp(hits - expected - hits * math.log(hits / expected)) if hits > expected else 1.0


class _Call:
    """One call, with the patterns that were filled in for it."""

    def __init__(self, checks: CallChecks, submission: Submission, bindings: Sequence[Any], binder: Any) -> None:
        self.checks = checks
        self.submission = submission
        self.binder = binder
        self.ports = [arg for arg in submission.args if arg.__class__ is Port]
        self.bindings = list(bindings)
        self.copies: list[_Copy] = []
        self._accesses: list[_CheckedAccess] = []
        times = Counter(binding.buffer for binding in bindings if binding is not None)
        for position, (port, binding) in enumerate(zip(self.ports, bindings, strict=True)):
            if binding is None:
                continue
            # With two views of one buffer, a kernel may read elements through one view that it writes by the other.
            if len(binding.accessed) > 1 and times[binding.buffer] == 1:
                self.copies.append(_Copy(self, position, port, binding))
                self.bindings[position] = self.copies[-1].binding
            if port.mode != READ:
                self._accesses.append(_CheckedAccess(self, position, port, self.bindings[position], []))
        for access in self._accesses:
            if access.port.mode == WRITE:
                for box in self._exclusive(access.port, access.binding):
                    access.patches.append(self.fill_box(access.port, access.binding, box, UNWRITTEN))
        self._reads: list[_Patch] = []
        for port, binding in zip(self.ports, self.bindings, strict=True):
            if binding is not None and port.mode == READ and not binder.protects_reads:
                for box in self._exclusive(port, binding):
                    words = self.words(port, binding, box)
                    self._reads.append(_Patch(port, box, words, words.copy()))

    def _exclusive(self, port: Port, binding: Any) -> Iterator[Box]:
        """The elements of an access that no access of the buffer in another mode has as well."""
        region = region_of(binding, port)
        for other, given in zip(self.ports, self.bindings, strict=True):
            if given is not None and given.buffer == binding.buffer and other.mode != port.mode:
                region = region - region_of(given, other)
        return filter(None, region.boxes)

    def words(self, port: Port, binding: Any, box: Box) -> Any:
        """The elements of a box in the allocation of a binding, as an array of words."""
        fill = fill_of(port.record.dtype)
        ndim = len(port.record.shape)
        bound = next((part for part in binding.parts if box in box_from_flat(part.bounding_box, ndim)), binding)
        allocated = box_from_flat(bound.allocated_box, ndim)
        words = self.binder.array_at(bound.address, (*allocated.shape, fill.num_words), fill.word)
        return words[(*box.relative_slices(allocated), ...)]

    def fill_box(self, port: Port, binding: Any, box: Box, mark: int) -> _Patch:
        """Put a pattern into a box of an allocation."""
        fill = fill_of(port.record.dtype)
        words = self.words(port, binding, box)
        pattern = fill.constant(mark)
        if pattern is None:
            pattern = self.binder.xp.asarray(fill.random(self.checks.generator, box.shape))
        words[...] = pattern
        return _Patch(port, box, words, pattern)

    def find_changed(self, patch: _Patch) -> np.ndarray[Any, Any] | None:
        """Which elements of a patch have lost their pattern; None if none has."""
        changed: np.ndarray[Any, Any] = self.binder.to_host((patch.words != patch.pattern).any(axis=-1))
        return changed if changed.any() else None

    def verify(self) -> None:
        """Look for patterns everywhere, and copy the results back from copies."""
        for patch in self._reads:
            changed = self.find_changed(patch)
            if changed is not None:
                raise ReadOnlyAccess(
                    f"{self.submission.describe()} has changed {int(changed.sum())} elements of "
                    f"{patch.port.record.label}, first at {show(_first_of(changed, patch.box))}, which it declares to "
                    f"read. Declare the access as read_write, or work on a copy: view[box].copy()."
                )
        for copy in self.copies:
            copy.verify()
        for access in self._accesses:
            access.verify_writes()
        if self.copies:
            for access in self._accesses:
                access.verify_sources()
        for copy in self.copies:
            copy.put_back()


class _CheckedAccess(NamedTuple):
    """An access of the call, with the patterns that were filled in for it."""

    call: _Call
    position: int
    port: Port
    binding: Any
    patches: list[_Patch]

    def verify_writes(self) -> None:
        """Raise if elements still have their pattern."""
        if not self.patches:
            return
        call, record = self.call, self.port.record
        masks = [call.binder.to_host((patch.words == patch.pattern).all(axis=-1)) for patch in self.patches]
        flat = np.concatenate([mask.reshape(-1) for mask in masks])
        submission = call.submission
        key = (submission.code, submission.lasti, submission.name, self.position, tuple(self.binding.accessed))
        hits = call.checks.find_unwritten(key, np.flatnonzero(flat), flat.size, fill_of(record.dtype).chance)
        if hits.size == 0:
            return
        box = box_around_first(hits, [patch.box for patch in self.patches])
        raise IncompleteWrite(
            f"{submission.describe()} declares write access to {record.label} "
            f"{show(region_of(self.binding, self.port))}, but leaves {hits.size} of these {flat.size} elements "
            f"unwritten, first {show(box)}. A write access promises that the kernel overwrites all of the mapped "
            f"region: the old contents are neither transferred nor kept. Declare the access as read_write, or narrow "
            f"its range mapper, or write every element."
        )

    def verify_sources(self) -> None:
        """Raise if elements were computed from elements outside of the region of another access."""
        call, record = self.call, self.port.record
        fill = fill_of(record.dtype)
        if self.port.mode == READ or fill.shift is None:
            return
        for flat in self.binding.accessed:
            box = box_from_flat(flat, len(record.shape))
            marks = call.binder.to_host(fill.marks_in(call.words(self.port, self.binding, box))).max(axis=-1)
            position = position_of(int(marks.max()))
            if position is None or position >= len(call.ports):
                continue
            read = call.ports[position]
            raise OutOfBoundsAccess(
                f"{call.submission.describe()} computes {record.label} at {show(_first_of(marks, box))} from elements "
                f"of {read.record.label} that lie outside of its declared region "
                f"{show(region_of(call.bindings[position], read))}. view.array is the bounding box of the access, and "
                f"what lies between the boxes of the region is undefined: index the view by the boxes, or widen the "
                f"range mapper."
            )


class _Copy:
    """A copy of the bounding box of an access whose region is no box."""

    def __init__(self, call: _Call, position: int, port: Port, binding: Any) -> None:
        self._call = call
        self._port = port
        self._original = binding
        self._boxes = [box_from_flat(flat, len(port.record.shape)) for flat in binding.accessed]
        whole = box_from_flat(binding.bounding_box, len(port.record.shape))
        fill = fill_of(port.record.dtype)
        self._words = call.binder.xp.empty((*whole.shape, fill.num_words), fill.word)
        self._key = ("copy", next(_copies))
        self.binding = binding._replace(
            allocation=self._key, address=address_of(self._words), allocated_box=binding.bounding_box, parts=[]
        )
        outside_boxes = (Region([whole]) - Region(self._boxes)).boxes
        self._patches = [call.fill_box(port, self.binding, box, outside(position)) for box in outside_boxes]
        if port.mode != WRITE:
            self._copy(binding, self.binding)

    def forget(self) -> None:
        """Let nobody find the memory of this copy again."""
        self._port.record.arrays.pop(self._key, None)

    def put_back(self) -> None:
        """Copy the elements that the call may have written to their place."""
        if self._port.mode != READ:
            self._copy(self.binding, self._original)

    def _copy(self, source: Any, destination: Any) -> None:
        for box in self._boxes:
            self._call.words(self._port, destination, box)[...] = self._call.words(self._port, source, box)

    def verify(self) -> None:
        """Raise if something was written between the boxes."""
        if self._port.mode == READ:
            return
        for patch in self._patches:
            changed = self._call.find_changed(patch)
            if changed is not None:
                box = box_around(changed, int(np.argmax(changed)), patch.box)
                raise OutOfBoundsAccess(
                    f"{self._call.submission.describe()} writes {self._port.record.label} {show(box)}, outside of its "
                    f"declared region {show(region_of(self.binding, self._port))}. view.array is the bounding box of "
                    f"the access: index the view by the boxes of the region, or widen the range mapper."
                )


def region_of(binding: Any, port: Port) -> Region:
    """The elements that a binding declares."""
    return Region([box_from_flat(flat, len(port.record.shape)) for flat in binding.accessed])


def _first_of(mask: np.ndarray[Any, Any], whole: Box) -> tuple[int, ...]:
    """The coordinates of the first of the largest elements of a mask over a box."""
    return tuple(a + int(b) for a, b in zip(whole.min, np.unravel_index(int(np.argmax(mask)), mask.shape), strict=True))


def box_around_first(hits: Any, boxes: Sequence[Box]) -> Box:
    """The largest box of these elements that begins at the first of them; see `box_around`.

    Args:
        hits: Positions among the elements of all boxes, ascending. Other elements may have their pattern by chance.
        boxes: One after the other.
    """
    start = 0
    for box in boxes:
        size = math.prod(box.shape)
        here = hits[(hits >= start) & (hits < start + size)] - start
        if here.size:
            mask = np.zeros(size, bool)
            mask[here] = True
            return box_around(mask.reshape(box.shape), int(here[0]), box)
        start += size
    raise ValueError("no box has any of these elements")


def box_around(mask: np.ndarray[Any, Any], first: int, whole: Box) -> Box:
    """The largest box of true elements that begins at `first` and grows in the last dimension first."""
    low = [int(index) for index in np.unravel_index(first, mask.shape)]
    high = [index + 1 for index in low]
    for dim in reversed(range(mask.ndim)):
        while high[dim] < mask.shape[dim]:
            ahead = tuple(
                slice(high[dim], high[dim] + 1) if d == dim else slice(low[d], high[d]) for d in range(mask.ndim)
            )
            if not mask[ahead].all():
                break
            high[dim] += 1
    return Box(low, high).shift(*whole.min)
