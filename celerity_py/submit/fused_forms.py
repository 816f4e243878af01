# SPDX-License-Identifier: MIT
"""With CHECK: compares some calls of a fused kernel's function on arrays of NumPy with the native kernel made of it.

Both run on copies of what the chunk accesses, before the call whose results the program gets.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from celerity_py._native import Box, Region, box_from_flat
from celerity_py.calls.divided_calls import COMPARED, call_quietly, differences
from celerity_py.calls.views import View, address_of
from celerity_py.executor.failures.user_frames import line_of_program
from celerity_py.fusion.stores import Agreement, Store
from celerity_py.reductions.partial_results import Reducer, ReductionPort
from celerity_py.scheduler.errors import InternalError
from celerity_py.vocabulary.accesses import READ, Port
from celerity_py.vocabulary.hidden_mistakes import forget, refuse_hidden
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.parts import Chunk

if TYPE_CHECKING:
    from celerity_py.fusion.plans import Plan
    from celerity_py.vocabulary.submissions import Submission

_log = logging.getLogger(__name__)

_MOST_BYTES: Final = 2**30  # of one copy of what a chunk accesses
_PASS_FUNCTION: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)


class _Copy(NamedTuple):
    """A copy of an allocation, or of its part that accesses lie in."""

    port: Port | ReductionPort  # the first one that lies there
    box: Box
    native: Any  # an array of the device
    expected: np.ndarray[Any, Any]


class FusedForm:
    """The native form of a submit. Its chunks may be compared at the same time."""

    def __init__(self, plan: Plan, scalars: bytes, *, is_exact: bool) -> None:
        self._plan = plan
        self._scalars = scalars
        self._is_exact = is_exact

    def compare(self, submission: Submission, part: Chunk, bindings: Sequence[Any], binder: Any) -> None:
        """Run both on copies of what a chunk accesses, and compare the results, if this call is one to be compared.

        Args:
            submission: The kernel.
            part: Its chunk.
            bindings: Of its accesses.
            binder: Makes arrays over their memory.

        Raises:
            InternalError: If elements differ by more than the native kernel may round otherwise.
        """
        if not self._is_due(part.box):
            return
        ports = [arg for arg in submission.args if arg.__class__ is Port]
        sizes = [_bytes_of(port, binding) for port, binding in zip(ports, bindings, strict=True)]
        if any(binding is not None and binding.parts for binding in bindings):
            _log.warning(
                "%s is not compared with NumPy, because its chunk %s accesses both sides of a periodic buffer, in "
                "separate memory. Check it on one device.",
                submission.describe(),
                show(part.box),
            )
            return
        if sum(sizes) > _MOST_BYTES:
            _log.warning(
                "%s is not compared with NumPy, because its chunk %s accesses more than 1 GiB. Check it with smaller "
                "buffers, or on more devices.",
                submission.describe(),
                show(part.box),
            )
            return
        copies = _copies_of(ports, bindings, binder)
        places = [
            None if binding is None else (address_of(copies[binding.allocation].native), copies[binding.allocation].box)
            for binding in bindings
        ]
        partials = [_partial_of(arg, binder) for arg in submission.args if arg.__class__ is ReductionPort]
        self._run_native(part, places, partials, binder)
        why_not = _run_on_numpy(submission, part, bindings, copies, partials)
        if not why_not:
            for copy in (*copies.values(), *partials):
                self._compare(submission, part, copy, binder.to_host(copy.native))
        elif not _runs_on_numpy(binder) and why_not not in self._plan.told:
            self._plan.told.add(why_not)
            _log.warning(
                "%s is not compared with NumPy, because its function raises an exception on arrays of NumPy: %s",
                submission.describe(),
                why_not,
            )

    def _is_due(self, chunk: Box) -> bool:
        calls = self._plan.calls
        key = chunk.min, chunk.max
        calls[key] = calls.get(key, 0) + 1
        return calls[key] in COMPARED

    def _run_native(self, part: Chunk, places: list[Any], partials: Sequence[_Copy], binder: Any) -> None:
        native = self._plan.native
        scratch = binder.xp.empty(native.scratch_bytes(part.box), np.uint8)
        reductions = [(address_of(one.native), one.box) for one in partials]
        launches = native.launches(part.box, places, reductions, self._scalars, address_of(scratch))
        for functions, bounds, grid, block, words, begins in launches:
            if binder.xp is np:
                _launch_on_host(functions[0], words, begins, bounds)
            else:
                _launch_on_gpu(functions[part.device], grid, block, words)

    def _compare(self, submission: Submission, part: Chunk, copy: _Copy, found: np.ndarray[Any, Any]) -> None:
        """Compare whole copies: what no access writes is equal as well."""
        wrong = _unequal(copy.expected, found)
        if not wrong.any():
            return
        made = next(one for box, one in self._plan.made if box == part.box)
        record = copy.port.record
        here = [store for store in made.stores if submission.args[store.argument].record is record]
        for store in here:
            self._forgive(store, copy, found, wrong)
        if not wrong.any():
            return
        inside = tuple(int(at) for at in np.argwhere(wrong)[0])
        first = _globally(inside, copy.box)
        of_first = [store for store in here if _has(store, first)]
        line = f"stored at {of_first[-1].line}" if of_first else "which no statement stores"
        told = (
            f"{submission.describe()}, chunk {show(part.box)}: the native kernel leaves other values in {record.label} "
            f"than NumPy, {int(wrong.sum())} of {wrong.size}, such as {found[inside]} instead of "
            f"{copy.expected[inside]} at {show(first)}, {line}."
        )
        if self._agreement(of_first[-1], found.dtype) if of_first else Agreement.EXACT:
            _log.warning(
                "%s They differ by more than rounding. Does the function subtract numbers that are nearly equal?", told
            )
            return
        raise InternalError(
            f"{told} CELERITY_CHECK has found this bug of celerity_py, unless the function changes something outside. "
            f"Please report the function, and decorate it with celerity.kernel in the meantime."
        )

    def _forgive(self, store: Store, copy: _Copy, found: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any]) -> None:
        """Leave out differences that the statement may have."""
        agreement = self._agreement(store, found.dtype)
        where = _slices_of(store, copy.box)
        if agreement is Agreement.DECIDED:
            wrong[where] = False
        elif agreement is Agreement.ROUNDED:
            wrong[where] &= differences(copy.expected[where], found[where], found.ndim)

    def _agreement(self, store: Store, dtype: np.dtype[Any]) -> Agreement:
        if self._is_exact:
            return store.agreement
        return max(store.agreement, Agreement.ROUNDED if dtype.kind in "fc" else Agreement.DECIDED)


def _bytes_of(port: Port, binding: Any) -> int:
    if binding is None:
        return 0
    return _box_of_copy([binding], len(port.record.shape)).size * int(port.record.dtype.itemsize)


def _box_of_copy(bindings: Sequence[Any], ndim: int) -> Box:
    """The accessed rows of an allocation, at their full length: a copy has the strides of the allocation."""
    allocated = box_from_flat(bindings[0].allocated_box, ndim)
    if ndim == 0:
        return allocated
    accessed = Region([box_from_flat(one.bounding_box, ndim) for one in bindings]).bounding_box
    return Box((accessed.min[0], *allocated.min[1:]), (accessed.max[0], *allocated.max[1:]))


def _copies_of(ports: Sequence[Port], bindings: Sequence[Any], binder: Any) -> dict[Any, _Copy]:
    """By allocation: accesses to the same memory get the same copy."""
    given: dict[Any, list[tuple[Port, Any]]] = {}
    for port, binding in zip(ports, bindings, strict=True):
        if binding is not None:
            given.setdefault(binding.allocation, []).append((port, binding))
    copies = {}
    for allocation, accesses in given.items():
        port, binding = accesses[0]
        box = _box_of_copy([one for _, one in accesses], len(port.record.shape))
        memory, allocated = binder._array_of(port.record, binding, False)
        native = binder.xp.array(memory[(*box.relative_slices(allocated), ...)], order="C")
        copies[allocation] = _Copy(port, box, native, np.array(binder.to_host(native)))
    return copies


def _partial_of(port: ReductionPort, binder: Any) -> _Copy:
    """Memory for the partial result of a reduction, with at least one dimension."""
    record = port.record
    box = record.box if record.box.ndim else Box((0,), (1,))
    return _Copy(port, box, binder.xp.empty(box.shape, record.dtype), np.empty(box.shape, record.dtype))


def _run_on_numpy(
    submission: Submission,
    part: Chunk,
    bindings: Sequence[Any],
    copies: dict[Any, _Copy],
    partials: Sequence[_Copy],
) -> str:
    """Run the function. Returns the exception that it raises, with its line; empty if it returns."""
    given, combined = iter(bindings), iter(partials)
    arguments = [
        _view(arg, next(given), copies, submission)
        if arg.__class__ is Port
        else Reducer(next(combined).expected.reshape(arg.shape), arg, submission)
        if arg.__class__ is ReductionPort
        else arg
        for arg in submission.args
    ]
    chunk = Chunk(part.box, part.global_box, part.device, None, np)
    try:
        submission.run(call_quietly, submission.function, chunk, *arguments)
        refuse_hidden(submission)
    except Exception as error:  # noqa: BLE001 - the code of users
        forget(submission)
        return f"{type(error).__name__}: {error} (at {line_of_program(error.__traceback__)})"
    return ""


def _runs_on_numpy(binder: Any) -> bool:
    """Whether the call whose results the program gets does so as well, and fails likewise."""
    return binder.xp is np


def _view(port: Port, binding: Any, copies: dict[Any, _Copy], submission: Submission) -> View[Any]:
    record, writable = port.record, port.mode != READ
    ndim = len(record.shape)
    if binding is None:
        nothing = Box((0,) * ndim, (0,) * ndim)
        array: Any = np.empty((*nothing.shape, *record.dtype.shape), record.dtype.base)
        return View(array, nothing, nothing, None, writable, record, submission)
    copy = copies[binding.allocation]
    base = copy.expected.view()
    base.flags.writeable = writable
    declared = [box_from_flat(flat, ndim) for flat in binding.accessed]
    box = box_from_flat(binding.bounding_box, ndim)
    return View(base, copy.box, box, None if len(declared) == 1 else Region(declared), writable, record, submission)


def _launch_on_host(function: int, words: bytes, begins: Sequence[int], bounds: Sequence[int]) -> None:
    given = (ctypes.c_int64 * (len(words) // 8)).from_buffer_copy(words)
    items = (ctypes.c_int64 * len(bounds))(*bounds)
    first = ctypes.addressof(given)
    _PASS_FUNCTION(function)(first, *(first + 8 * place for place in begins), ctypes.addressof(items))


def _launch_on_gpu(function: int, grid: Sequence[int], block: Sequence[int], words: bytes) -> None:
    """On CuPy's current stream."""
    import cupy

    given = ctypes.create_string_buffer(words, len(words))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(given))
    stream = cupy.cuda.get_current_stream().ptr
    cupy.cuda.driver.launchKernel(function, *grid, *block, 0, stream, ctypes.addressof(parameters), 0)


def _unequal(expected: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements whose bits differ; NaNs are equal."""
    if expected.dtype.kind == "c":
        return np.asarray(_unequal(expected.real, found.real) | _unequal(expected.imag, found.imag))
    if expected.dtype.kind != "f":
        return np.asarray(expected != found)
    unequal = (expected != found) | (np.signbit(expected) != np.signbit(found))
    return np.asarray(unequal & ~(np.isnan(expected) & np.isnan(found)))


def _globally(inside: tuple[int, ...], box: Box) -> tuple[int, ...]:
    """Coordinates of an element, and of its component behind these."""
    return tuple(a + b for a, b in zip(inside, (*box.min, *(0 for _ in inside[box.ndim :])), strict=True))


def _has(store: Store, element: tuple[int, ...]) -> bool:
    return all(
        low <= at <= high and (at - low) % step == 0
        for at, (low, high, step) in zip(element, store.region, strict=True)
    )


def _slices_of(store: Store, box: Box) -> tuple[Any, ...]:
    origin = (*box.min, *(0 for _ in store.region[box.ndim :]))
    pairs = zip(store.region, origin, strict=True)
    return (*(slice(low - first, high + 1 - first, step) for (low, high, step), first in pairs), ...)
