# SPDX-License-Identifier: MIT
"""The checks of CELERITY_CHECK around each call of a user's function: unwritten elements, and elements outside.

Before the call, a pattern fills the elements of `write` accesses; afterwards it must be gone. An access to a region of
several boxes gets a copy of its bounding box, with a pattern between the boxes. The pattern shows writes between the
boxes, and results that are computed from there.
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
from celerity_py.calls.fill_patterns import UNWRITTEN, Fill, fill_of, outside, position_of
from celerity_py.calls.outer_variables import OuterVariables
from celerity_py.calls.read_checks import UnprotectedReads
from celerity_py.scheduler.errors import IncompleteWrite, OutOfBoundsAccess
from celerity_py.vocabulary.accesses import READ, WRITE, Port
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.submissions import Submission

#: Down to this probability, agreement with random patterns counts as chance.
_CREDIBLE: Final = 1e-9
_MOST_SUSPICIONS: Final = 1024

_copies = itertools.count(1)


class _Patch(NamedTuple):
    """A box of elements with a pattern."""

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
        self._threads = threading.local()
        self._suspicions: dict[Any, _Suspicion] = {}
        self.outer_variables = OuterVariables()

    def note(self, submission: Submission) -> None:
        """Note the outer variables of a task at its submit, to compare them when it runs. Application thread."""
        self.outer_variables.note(submission)

    @contextmanager
    def around(self, submission: Submission, bindings: Sequence[Any], binder: Any) -> Iterator[Sequence[Any]]:
        """Fill elements that must be overwritten, let the caller call, and look for the pattern afterwards.

        Args:
            submission: The task whose function is called.
            bindings: The bindings of its accesses.
            binder: Makes arrays over their memory.

        Returns:
            The bindings to make views of.

        Raises:
            IncompleteWrite: If the call leaves elements of a `write` access unwritten.
            OutOfBoundsAccess: If it uses elements between the boxes of a region.
            UsageError: If the function uses a variable from outside that has changed since the submit.
        """
        self.outer_variables.compare(submission)
        call = _Call(self, submission, bindings, binder)
        try:
            yield call.bindings
        finally:
            call.forget_copies()
        self.outer_variables.compare(submission)
        call.verify()

    @property
    def generator(self) -> np.random.Generator:
        """This thread's generator of random patterns."""
        known = getattr(self._threads, "generator", None)
        if known is None:
            known = self._threads.generator = np.random.Generator(np.random.SFC64())
        return known

    def find_unwritten(self, key: Any, hits: Any, count: int, chance: float) -> Any:
        """The elements that cannot have their pattern by chance, among all that still have it.

        If one call does not rule out chance, the elements are remembered: chance does not hit the same ones repeatedly.

        Args:
            key: The same for calls that fill the same elements.
            hits: Positions of the elements with their pattern.
            count: How many were filled.
            chance: Probability that an element gets its pattern by chance.
        """
        if hits.size == 0 or chance == 0 or _tail(count, chance, hits.size) < _CREDIBLE:
            return hits
        with self._lock:
            before = self._suspicions.pop(key, None)
            calls = 1
            if before is not None:
                again = np.intersect1d(before.positions, hits, assume_unique=True)
                if again.size:
                    hits, calls = again, before.calls + 1
            if count * chance**calls < _CREDIBLE:
                return hits
            while len(self._suspicions) >= _MOST_SUSPICIONS:
                self._suspicions.pop(next(iter(self._suspicions)))
            self._suspicions[key] = _Suspicion(hits, calls)
        return hits[:0]

    def acquit(self, key: Any) -> None:
        """Forget the suspicion of a call after which no element has its pattern."""
        if key in self._suspicions:
            with self._lock:
                self._suspicions.pop(key, None)


def _tail(count: int, chance: float, hits: int) -> float:
    """An upper bound (Chernoff's) for the probability of so many hits by chance."""
    expected = count * chance
    return math.exp(hits - expected - hits * math.log(hits / expected)) if hits > expected else 1.0


class _Call:
    """One call, with the patterns that were filled in for it."""

    def __init__(self, checks: CallChecks, submission: Submission, bindings: Sequence[Any], binder: Any) -> None:
        self._checks = checks
        self._submission = submission
        self._binder = binder
        self.ports = [arg for arg in submission.args if arg.__class__ is Port]
        self.bindings = list(bindings)
        self._accesses: list[_CheckedAccess] = []
        self._has_copies = False
        times = Counter(binding.buffer for binding in bindings if binding is not None)
        for position, (port, binding) in enumerate(zip(self.ports, bindings, strict=True)):
            if binding is None:
                continue
            # With two views of one buffer, a kernel may read through one view what it writes through the other.
            is_alone = times[binding.buffer] == 1
            if port.mode != WRITE and (len(binding.accessed) == 1 or not is_alone):
                if port.mode != READ:
                    self._accesses.append(_CheckedAccess(self, position, port, binding, (), None))
                continue
            self._accesses.append(self._fill(position, port, binding, is_alone=is_alone))
        self._reads = None if binder.protects_reads else UnprotectedReads(self, self.ports, self.bindings)

    def _fill(self, position: int, port: Port, binding: Any, *, is_alone: bool) -> _CheckedAccess:
        ndim = len(port.record.shape)
        boxes = [box_from_flat(flat, ndim) for flat in binding.accessed]
        copy = _Copy(self, position, port, binding, boxes) if len(boxes) > 1 and is_alone else None
        if copy is not None:
            self.bindings[position] = binding = copy.binding
            self._has_copies = True
        if port.mode != WRITE:
            return _CheckedAccess(self, position, port, binding, (), copy)
        unread = Region(boxes)
        if not is_alone:
            for other, given in zip(self.ports, self.bindings, strict=True):
                if given is not None and given.buffer == binding.buffer and other.mode != WRITE:
                    unread = unread - Region([box_from_flat(flat, ndim) for flat in given.accessed])
        patches = [self.fill_box(port, binding, box, UNWRITTEN) for box in unread.boxes if box]
        return _CheckedAccess(self, position, port, binding, patches, copy)

    def words(self, port: Port, binding: Any) -> Any:
        """The allocation of a binding as an array of words, and where it lies."""
        fill = fill_of(port.record.dtype)
        allocated = box_from_flat(binding.allocated_box, len(port.record.shape))
        return self._binder.array_at(binding.address, (*allocated.shape, fill.num_words), fill.word), allocated

    def fill_box(self, port: Port, binding: Any, box: Box, mark: int) -> _Patch:
        """Put a pattern into a box of an allocation."""
        fill = fill_of(port.record.dtype)
        words, allocated = self.words(port, binding)
        where = words[(*box.relative_slices(allocated), ...)]
        pattern = fill.constant(mark)
        if pattern is None:
            pattern = self._binder.from_host(fill.random(self._checks.generator, box.shape))
        where[...] = pattern
        return _Patch(box, where, pattern)

    def new_words(self, shape: tuple[int, ...], fill: Fill) -> Any:
        """An array of words for elements of this shape."""
        return self._binder.empty((*shape, fill.num_words), fill.word)

    def address_of(self, array: Any) -> int:
        """Where an array begins."""
        return int(self._binder.address_of(array))

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """The array as one of NumPy."""
        return self._binder.to_host(array)  # type: ignore[no-any-return]

    def forget_copies(self) -> None:
        """The views of copies are gone with the call."""
        for access in self._accesses:
            if access.copy is not None:
                access.copy.forget()

    def verify(self) -> None:
        """Look for patterns everywhere, and copy the results back from copies."""
        if self._reads is not None:
            self._reads.verify()
        for access in self._accesses:
            if access.copy is not None:
                access.copy.verify(self.describe())
        for access in self._accesses:
            access.verify_writes()
        if self._has_copies:
            for access in self._accesses:
                access.verify_sources()
        for access in self._accesses:
            if access.copy is not None:
                access.copy.put_back()

    def describe(self) -> str:
        """The task."""
        return self._submission.describe()

    def unwritten(self, access: _CheckedAccess, hits: Any, count: int) -> Any:
        """See `CallChecks.find_unwritten`."""
        submission = self._submission
        key = (submission.code, submission.lasti, submission.name, access.position, tuple(access.binding.accessed))
        if hits.size == 0:
            self._checks.acquit(key)
            return hits
        return self._checks.find_unwritten(key, hits, count, fill_of(access.port.record.dtype).chance)


class _CheckedAccess:
    """An access of the call, with the patterns that were filled in for it."""

    def __init__(  # noqa: PLR0917 - a record
        self, call: _Call, position: int, port: Port, binding: Any, patches: Sequence[_Patch], copy: _Copy | None
    ) -> None:
        self.call = call
        self.position = position
        self.port = port
        self.binding = binding
        self.patches = patches
        self.copy = copy

    def verify_writes(self) -> None:
        """Raise if elements still have their pattern."""
        if not self.patches:
            return
        masks = [self.call.to_host((patch.words == patch.pattern).all(axis=-1)) for patch in self.patches]
        count = sum(mask.size for mask in masks)
        flat = masks[0].reshape(-1) if len(masks) == 1 else np.concatenate([mask.reshape(-1) for mask in masks])
        hits = self.call.unwritten(self, np.flatnonzero(flat), count)
        if hits.size == 0:
            return
        index, first = 0, int(hits[0])
        while first >= masks[index].size:
            first -= masks[index].size
            index += 1
        mask = masks[index]
        box = box_around(mask, np.unravel_index(first, mask.shape), self.patches[index].box)
        raise IncompleteWrite(
            f"{self.call.describe()} declares write access to {self.port.record.label} {self.region}, but leaves "
            f"{hits.size} of these {count} elements unwritten, first {show(box)}. A write access promises that the "
            f"kernel overwrites all of the mapped region: the old contents are neither transferred nor kept. Declare "
            f"the access as read_write, or narrow its range mapper, or write every element."
        )

    def verify_sources(self) -> None:
        """Raise if elements were computed from elements outside of the region of another access."""
        fill = fill_of(self.port.record.dtype)
        if self.port.mode == READ or fill.shift is None:
            return
        words, allocated = self.call.words(self.port, self.binding)
        for flat in self.binding.accessed:
            box = box_from_flat(flat, len(self.port.record.shape))
            marks = self.call.to_host(fill.marks_in(words[(*box.relative_slices(allocated), ...)])).max(axis=-1)
            if not marks.any():
                continue
            position = position_of(int(marks.max()))
            if position is None or position >= len(self.call.ports):
                continue
            first = np.unravel_index(int(np.argmax(marks)), marks.shape)
            where = [a + int(b) for a, b in zip(box.min, first, strict=True)]
            read = self.call.ports[position]
            raise OutOfBoundsAccess(
                f"{self.call.describe()} computes {self.port.record.label} at {show(tuple(where))} from elements of "
                f"{read.record.label} that lie outside of its declared region "
                f"{region_of(self.call.bindings[position], read)}. view.array is the bounding box of the access, and "
                f"what lies between the boxes of the region is undefined: index the view by the boxes, or widen the "
                f"range mapper."
            )

    @property
    def region(self) -> str:
        """What the access declares."""
        return region_of(self.binding, self.port)


class _Copy:
    """A copy of the bounding box of an access whose region is no box."""

    def __init__(self, call: _Call, position: int, port: Port, binding: Any, boxes: list[Box]) -> None:
        fill = fill_of(port.record.dtype)
        self._call = call
        self._port = port
        self._boxes = boxes
        self._box = box_from_flat(binding.bounding_box, len(port.record.shape))
        self._original, self._allocated = call.words(port, binding)
        self._words = call.new_words(self._box.shape, fill)
        self._key = ("copy", next(_copies))
        self.binding = binding._replace(
            allocation=self._key, address=call.address_of(self._words), allocated_box=binding.bounding_box
        )
        outside_boxes = (Region([self._box]) - Region(boxes)).boxes
        self._patches = [call.fill_box(port, self.binding, box, outside(position)) for box in outside_boxes]
        if port.mode != WRITE:
            self._copy(to_original=False)

    def forget(self) -> None:
        """Let nobody find the memory of this copy again."""
        self._port.record.arrays.pop(self._key, None)

    def put_back(self) -> None:
        """Copy what was written."""
        if self._port.mode != READ:
            self._copy(to_original=True)

    def _copy(self, *, to_original: bool) -> None:
        for box in self._boxes:
            original = self._original[(*box.relative_slices(self._allocated), ...)]
            copy = self._words[(*box.relative_slices(self._box), ...)]
            if to_original:
                original[...] = copy
            else:
                copy[...] = original

    def verify(self, who: str) -> None:
        """Raise if something was written between the boxes."""
        if self._port.mode == READ:
            return
        for patch in self._patches:
            changed = self._call.to_host((patch.words != patch.pattern).any(axis=-1))
            if not changed.any():
                continue
            first = np.unravel_index(int(np.argmax(changed)), changed.shape)
            raise OutOfBoundsAccess(
                f"{who} writes {self._port.record.label} {show(box_around(changed, first, patch.box))}, outside of its "
                f"declared region {region_of(self.binding, self._port)}. view.array is the bounding box of the access: "
                f"index the view by the boxes of the region, or widen the range mapper."
            )


def region_of(binding: Any, port: Port) -> str:
    """What a binding declares, for messages."""
    boxes = [box_from_flat(flat, len(port.record.shape)) for flat in binding.accessed]
    return show(boxes[0] if len(boxes) == 1 else Region(boxes))


def box_around(mask: np.ndarray[Any, Any], first: Sequence[Any], whole: Box) -> Box:
    """The largest box of true elements that begins at `first` and grows in the last dimension first."""
    low = [int(index) for index in first]
    high = [index + 1 for index in low]
    for dim in reversed(range(mask.ndim)):
        while high[dim] < mask.shape[dim]:
            ahead = tuple(
                slice(high[dim], high[dim] + 1) if d == dim else slice(low[d], high[d]) for d in range(mask.ndim)
            )
            if not mask[ahead].all():
                break
            high[dim] += 1
    offset = whole.min
    return Box([a + b for a, b in zip(offset, low, strict=True)], [a + b for a, b in zip(offset, high, strict=True)])
