# SPDX-License-Identifier: MIT
"""Reducers whose operation works on arrays of NumPy: callables, and extrema with their places."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from celerity_py._native import Box
from celerity_py.reductions.combinations import PLACE, VALUE, Combination, num_dims_of_place
from celerity_py.reductions.partial_results import Reducer
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.type_rules import can_take, describe_value, is_masked, refuse_masked, refuse_value


class CallableReducer(Reducer):
    """A partial result that a callable combines with values, as arrays of NumPy."""

    __slots__ = ()

    @property
    def _combination(self) -> Combination:
        known = self._port.combination
        assert known is not None
        return known

    def _begin(self) -> None:
        self._store(self._combination.identity)

    def _load(self) -> np.ndarray[Any, Any]:
        """A copy of the partial result, so that the callable can keep or overwrite its arguments."""
        return self._base.copy()

    def _store(self, result: np.ndarray[Any, Any]) -> None:
        self._base[...] = result

    def _to_host(self, value: Any) -> Any:
        return value

    def _merge(self, value: Any) -> None:
        record = self._port.record
        given = np.array(self._to_host(value), record.dtype).reshape(self._port.shape)
        if record.checks_values:
            self._check_identity(given)
        self._store(self._combination(self._load(), given))

    def _check_identity(self, value: np.ndarray[Any, Any]) -> None:
        known = self._combination
        result = known(known.identity.copy(), value.copy())
        if not known.is_named and not known.leaves(value, result):
            raise UsageError(
                f"{self._owner.describe()} combines {describe_value(value)} into {self._port.record.label} by "
                f"{known.name}, which makes {result.reshape(-1)[0]!s} of the identity and the first element, "
                f"{value.reshape(-1)[0]!s}. The identity must leave every value unchanged, as 0 does in a sum."
            )

    def _at(self, indices: Any, values: Any) -> None:
        where = tuple(map(self._to_host, indices)) if isinstance(indices, tuple) else self._to_host(indices)
        self._check_indices(where)
        partial = self._load()
        self._combination.combine_at(partial, where, self._to_host(values))
        self._store(partial)


class PlaceReducer(CallableReducer):
    """A partial result of "argmin" or "argmax": the extrema of one chunk, with their places."""

    __slots__ = ()

    def combine(self, value: Any, places: Any = None) -> None:
        """Combine values and their places, as `Reducer.combine` explains."""
        if isinstance(places, Box):
            self._combine_box(value, places)
        else:
            super().combine(self._pair(value, places))

    def combine_at(self, indices: Any, values: Any, places: Any = None) -> None:
        """Combine values and their places with some elements, as `Reducer.combine_at` explains."""
        super().combine_at(indices, self._pair(values, places))

    def _combine_box(self, value: Any, box: Box) -> None:
        who, record = self._owner.describe(), self._port.record
        shape = tuple(np.shape(value)) if not hasattr(value, "shape") else tuple(value.shape)
        if self._port.shape != ():
            raise UsageError(
                f"{who} combines values at the places of a box into {record.label}, whose shape is {record.shape}. "
                f"Pass a value and a place for each element, or combine_at(indices, values, places)."
            )
        num_dims = self._num_dims()
        if shape != box.shape or len(shape) != num_dims:
            raise UsageError(
                f"{who} combines an array of shape {shape} at the places of {box!r} into {record.label}. Both must "
                f"have the same shape, and the {num_dims} dimension(s) of the places of the buffer."
            )
        if 0 in shape:
            return
        array = value if hasattr(value, "argmin") else np.asarray(value)
        number = int(array.argmin() if self._port.op == "argmin" else array.argmax())
        extremum = array.reshape(-1)[number]
        if extremum != extremum:  # noqa: PLR0124 - NaN, of which CuPy finds any one, and NumPy the first
            number = int((array != array).argmax())  # noqa: PLR0124
        inside = np.unravel_index(number, shape)
        place = np.asarray(inside) + np.asarray(box.min)
        self.combine(extremum, place if num_dims > 1 else place[0])

    def _num_dims(self) -> int:
        return num_dims_of_place(self._port.record.dtype)

    def _pair(self, values: Any, places: Any) -> np.ndarray[Any, Any]:
        """An array of elements with both fields."""
        who, record = self._owner.describe(), self._port.record
        if places is None:
            if getattr(values, "dtype", None) != record.dtype:
                self._refuse_no_places(values)
            return np.asarray(values)
        if is_masked(values):
            refuse_masked(values, f"{who} combines")
        if not can_take(record.dtype[VALUE], values, record.checks_values):
            what = f"{describe_value(values)} into {record.label}"
            refuse_value(record.dtype[VALUE], values, f"{who} combines {what}")
        found = np.asarray(self._to_host(values))
        if isinstance(places, tuple):
            places = np.asarray([self._to_host(place) for place in places])
        where = np.asarray(self._to_host(places))
        inner = record.dtype[PLACE].shape
        if where.dtype.kind not in "iu" or where.shape != (*found.shape, *inner) or (where < 0).any():
            raise UsageError(
                f"{who} combines values of shape {found.shape} into {record.label} with places of shape {where.shape} "
                f"and {where.dtype}. It needs integers from 0 on, of shape {(*found.shape, *inner)}."
            )
        result = np.zeros(found.shape, record.dtype)
        result[VALUE] = found
        result[PLACE] = where
        return result

    def _refuse_no_places(self, values: Any) -> NoReturn:
        raise UsageError(
            f"{self._owner.describe()} combines {describe_value(values)} into {self._port.record.label} without "
            f"places. {self._port.op!r} needs the place of each value: combine(values, places), or combine(values, "
            f"chunk.box)."
        )
