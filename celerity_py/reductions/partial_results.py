# SPDX-License-Identifier: MIT
"""Partial results of reductions, into which kernels combine values."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from celerity_py._native import HolderRecord, PortRecord
from celerity_py.reductions.combinations import Combination, partial_shape
from celerity_py.reductions.operations import OPERATIONS, identity_of
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.accesses import kind_of
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.hidden_mistakes import out_of_bounds
from celerity_py.vocabulary.refused_operators import StandsForArray
from celerity_py.vocabulary.submissions import Submission
from celerity_py.vocabulary.type_rules import can_take, describe_value, is_masked, refuse_masked, refuse_value

_SEQUENCES = (list, tuple, memoryview)


class ReductionPort(PortRecord):
    """The part of a reduction that the runtime keeps after the submit; each submit has its own."""

    __slots__ = (
        "combination",
        "has_combined",
        "identity",
        "includes_current",
        "is_deterministic",
        "op",
        "ordered",
        "shape",
    )

    def __init__(
        self,
        record: BufferRecord,
        op: str,
        *,
        includes_current: bool = False,
        combination: Combination | None = None,
        is_deterministic: bool = False,
    ) -> None:
        self.record = record
        self.includes_current = includes_current
        #: Whether the order of combination is fixed, also within a device.
        self.is_deterministic = is_deterministic
        #: The target, if this is a reduction into an element per block of a kernel in CUDA C++.
        self.ordered: Any = None
        #: Whether a chunk of this rank has combined a value. Any thread.
        self.has_combined = False
        self.op = op
        #: Of a partial result.
        self.shape = partial_shape(record)
        #: How NumPy combines the partial results on the host; None if native code does.
        self.combination = combination
        self.identity = identity_of(op, record.dtype) if combination is None else combination.identity
        self.runtime = record.runtime
        #: Equal for reductions that fit the same kernels.
        self.kind = kind_of(op, record.dtype, len(record.shape), self.shape == (), self.needs_order)

    @property
    def needs_order(self) -> bool:
        """Whether the order was asked for, and changes the result: that of sums and products which round."""
        depends = self.op in {"sum", "prod"} and self.record.dtype.kind in "fc" and self.combination is None
        return self.is_deterministic and depends

    @property
    def has_value_of_nothing(self) -> bool:
        """Whether the result has no meaning if no chunk combines a value."""
        known = self.combination
        needs_value = OPERATIONS[self.op].identity is None if known is None else known.has_value_of_nothing
        return needs_value and not self.includes_current

    def fresh(self) -> ReductionPort:
        """One for another submit."""
        return ReductionPort(
            self.record,
            self.op,
            includes_current=self.includes_current,
            combination=self.combination,
            is_deterministic=self.is_deterministic,
        )


def _as_array(value: Any) -> Any:
    """Arrays and numbers stay as they are; sequences, and objects that NumPy understands, become arrays."""
    if not hasattr(value, "reshape") and (isinstance(value, _SEQUENCES) or hasattr(value, "__array__")):
        return np.asarray(value)
    return value


class Reducer(StandsForArray, HolderRecord):
    """The partial result of one chunk; the runtime combines the partial results of all chunks.

    Valid while the kernel runs, on the thread that runs it.
    """

    __slots__ = ("_operation", "_owner", "_port")

    def __init__(self, array: np.ndarray[Any, Any], port: ReductionPort, owner: Submission) -> None:
        """Made by the runtime; `array` lies where the partial result belongs."""
        self._base = array
        self._port = port
        self._owner = owner
        self._operation: Any = None
        self._begin()

    def _begin(self) -> None:
        """Fill the partial result with the identity."""
        self._operation = OPERATIONS[self._port.op].combine
        self._base[...] = identity_of(self._port.op, self._port.record.dtype)

    def combine(self, value: Any, places: Any = None) -> None:
        """Combine `value` with the partial result of this chunk. A kernel may call this any number of times.

        Args:
            value: A scalar or an array of one element, for a buffer of one element; an array of the shape of the
                buffer, for any other one. For "argmin" and "argmax": the values without their places, or elements
                with both if `places` is left out.
            places: For "argmin" and "argmax" only: as many places as values, each an integer or, for 2 and 3
                dimensions, as many integers along a last axis. For a buffer of one element also a `Box` of the shape of
                `value`, such as `chunk.box`: every value lies at its coordinates there.

        Raises:
            UsageError: If the shape is another one, or the buffer's elements cannot hold the value, as `View` explains.
        """
        if places is not None:
            self._refuse_places()
        given, value = value, _as_array(value)
        shape = getattr(value, "shape", ())
        if self._port.shape == () and shape != () and value.size == 1:
            value = value.reshape(())
        elif shape != self._port.shape:
            self._refuse_shape(shape)
        self._check(value, given)
        self._merge(value)
        self._port.has_combined = True

    def combine_at(self, indices: Any, values: Any, places: Any = None) -> None:
        """Combine values with some elements of the partial result, one after the other.

        An element may occur more than once, as in a histogram: `bins.combine_at(numbers, 1)`.

        Args:
            indices: An array of integers, or a tuple of one per dimension, as NumPy's `ufunc.at` takes them. Negative
                ones do not count from the end. On GPUs, indices outside of the buffer are not found.
            values: As many, or one for all of them. A callable operation gets arrays of some of these values: it must
                combine arrays of any shape element by element.
            places: As for `combine`.

        Raises:
            UsageError: If the buffer has a single element, or its dtype cannot hold the values; on a GPU also if CuPy
                has no such operation.
            OutOfBoundsAccess: If an index lies outside of the buffer, or is negative.
        """
        if self._port.shape == ():
            raise UsageError(
                f"{self._owner.describe()} combines at indices of {self._port.record.label}, which has a single "
                f"element. Use combine(value)."
            )
        if places is not None:
            self._refuse_places()
        given, values = values, _as_array(values)
        self._check(values, given)
        self._at(indices, values)
        self._port.has_combined = True

    @property
    def array(self) -> Any:
        """The partial result of this chunk, filled with the identity at first: an array to update in place.

        It has the shape of the buffer, and is 0-d for a buffer of one element. It ends with the kernel.
        """
        self._check_array()
        self._port.has_combined = True
        return self._base

    @array.setter
    def array(self, value: Any) -> None:
        if value is not self._base:  # out.array += x updates in place, and then assigns the array to itself
            name = self._owner.name_of_argument(self._port, "out")
            raise UsageError(
                f"{self._owner.describe()} assigns {describe_value(value)} to {name}.array, the array of this chunk's "
                f"partial result for {self._port.record.label}. An assignment would replace the array, and the result "
                f"would be lost. Write {name}.combine(value) to combine a value with it, or {name}.array[...] = value "
                f"to overwrite its elements."
            )

    def _check_array(self) -> None:
        """Refuse elements of which the memory of the partial result has no array."""

    def _merge(self, value: Any) -> None:
        self._base[...] = self._operation(self._base, value)

    def _at(self, indices: Any, values: Any) -> None:
        self._check_indices(indices)
        try:
            self._operation.at(self._base, indices, values)
        except (IndexError, ValueError) as error:
            given = indices if isinstance(indices, tuple) else (indices,)
            shown = " and ".join(describe_value(_as_array(item)) for item in given)
            raise UsageError(
                f"{self._owner.describe()} combines {describe_value(values)} into {self._port.record.label}, whose "
                f"shape is {self._port.shape}, at indices that do not fit, {shown}: {error}. Pass an array of integers "
                f"per dimension, as a tuple, and one value or as many values as indices."
            ) from error

    def _check(self, value: Any, given: Any) -> None:
        """Refuse a value that the elements of the buffer cannot hold."""
        if is_masked(value):
            refuse_masked(value, f"{self._owner.describe()} combines")
        record = self._port.record
        if not can_take(record.dtype, value, record.checks_values):
            what = f"{describe_value(value)} into {self._port.record.label}"
            refuse_value(self._port.record.dtype, given, f"{self._owner.describe()} combines {what}")

    def _check_indices(self, indices: Any) -> None:
        """Refuse integers outside of the buffer; NumPy counts negative ones from the end."""
        given = indices if isinstance(indices, tuple) else (indices,)
        for dim, (extent, item) in enumerate(zip(self._port.shape, given, strict=False)):
            if item is ... or getattr(getattr(item, "dtype", None), "kind", "") == "b":
                return  # further items may belong to other dimensions
            if isinstance(item, slice) or (hasattr(item, "dtype") and not isinstance(item, (np.ndarray, np.generic))):
                continue  # looking at an array on a GPU would wait for it
            numbers = np.asarray(item)
            if numbers.dtype.kind not in "iu" or numbers.size == 0:
                continue
            low, high = int(numbers.min()), int(numbers.max())
            if low < 0 or high >= extent:
                raise out_of_bounds(
                    self._owner,
                    f"{self._owner.describe()} combines at index {low if low < 0 else high} of dimension {dim} of "
                    f"{self._port.record.label}, whose shape is {self._port.shape}. Indices go from 0 to {extent - 1}, "
                    f"and negative ones do not count from the end. Leave such values out, clip the indices, or take "
                    f"them modulo {extent} if the buffer is periodic.",
                )

    def _refuse_places(self) -> NoReturn:
        raise UsageError(
            f"{self._owner.describe()} combines values with places into {self._port.record.label}, but only the "
            f"operations 'argmin' and 'argmax' keep places. Leave them out."
        )

    def _refuse_shape(self, shape: tuple[int, ...]) -> NoReturn:
        who, label = self._owner.describe(), self._port.record.label
        if self._port.shape == ():
            how = ""
            if self._operation is not None:
                how = f", for instance with numpy.{self._operation.__name__}.reduce(partial, axis=None)"
            raise UsageError(
                f"{who} combines an array of shape {shape} into the single element of {label}. Reduce it first{how}."
            )
        raise UsageError(
            f"{who} combines {f'an array of shape {shape}' if shape else 'a scalar'} into {label}, whose shape is "
            f"{self._port.shape}. Pass an array of that shape, combine_at(indices, values) for some of the elements, "
            f"or update .array in place."
        )

    def _explain(self, use: str) -> str:
        return (
            f"{self._owner.describe()}: the reduction into {self._port.record.label} is {use}. A kernel contributes "
            f"with out.combine(value), any number of times, and cannot read the result."
        )

    def __repr__(self) -> str:
        return f"<partial {self._port.op!r} of {self._port.record.label}: {self._base}>"
