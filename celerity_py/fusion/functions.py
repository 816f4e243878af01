# SPDX-License-Identifier: MIT
"""NumPy's functions on symbolic arrays, and the array module `chunk.xp` of a traced function."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from celerity_py.fusion import operations
from celerity_py.fusion.arrays import FUNCTIONS, HINTS, SymbolicArray, operand_of
from celerity_py.fusion.coordinates import Affine, broadcast
from celerity_py.fusion.mistakes import NotTakenError, at_line, refusal
from celerity_py.fusion.nodes import ItemIndex, broadcast_to, selected

if TYPE_CHECKING:
    from celerity_py.fusion.trace import Trace


def _where(trace: Trace, condition: Any, *choices: Any) -> SymbolicArray:
    if len(choices) != 2:
        raise refusal(
            f"numpy.where with a condition alone {at_line()} would give an array whose shape depends on data. Write "
            f"numpy.where(condition, a, b)."
        )
    trace.count()
    chosen = operand_of(condition)
    node = operations.operand_node(chosen, np.dtype(bool))
    return SymbolicArray.of(trace, operations.where(node, *map(operand_of, choices)))


def _select(trace: Trace, condlist: Any, choicelist: Any, default: Any = 0) -> SymbolicArray:
    dtype = np.result_type(*map(_example, [*choicelist, default]))
    result: Any = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        if operations.key_of(operand_of(condition)) != np.dtype(bool):
            raise refusal(f"A condition of numpy.select {at_line()} is no array of bool. Write a comparison.")
        result = _where(trace, condition, choice, result)
    return result.astype(dtype)  # type: ignore[no-any-return]


def _example(value: Any) -> Any:
    key = operations.key_of(operand_of(value))
    return key if isinstance(key, np.dtype) else key(0)


def _clip(trace: Trace, a: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> SymbolicArray:
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    if not isinstance(a, SymbolicArray):
        a = SymbolicArray.of(trace, operations.operand_node(operand_of(a), _dtype(a)))
    return a.clip(low, high, **options)  # type: ignore[no-any-return]


def _dtype(value: Any) -> np.dtype[Any]:
    return np.result_type(_example(value))


def _like(fill: Any) -> Callable[..., SymbolicArray]:
    def handler(trace: Trace, prototype: Any, *args: Any, **options: Any) -> SymbolicArray:
        value = args[0] if fill is None else fill
        dtype = options.get("dtype")
        if dtype is None:
            dtype = prototype.dtype
        shape = options.get("shape")
        return full(trace, prototype.shape if shape is None else shape, value, dtype)

    return handler


def full(trace: Trace, shape: Any, value: Any, dtype: Any = None) -> SymbolicArray:
    """As `numpy.full`."""
    trace.count()
    extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    operand = operand_of(value)
    kind = _dtype(value) if dtype is None else np.dtype(dtype)
    node = operations.operand_node(operand, kind)
    return SymbolicArray.of(trace, selected(node, broadcast(node.shape, extents), extents))


def _attribute(name: str) -> Callable[..., Any]:
    return lambda _, array: getattr(array, name)


def _method(name: str) -> Callable[..., Any]:
    return lambda _, array, *args, **options: getattr(array, name)(*args, **options)


def _axes(change: Callable[..., Any]) -> Callable[..., SymbolicArray]:
    """A handler for a function that permutes axes or adds some: NumPy shows on a small array what it does."""

    def handler(_: Trace, array: SymbolicArray, *args: Any, **kwargs: Any) -> SymbolicArray:
        marks = change(np.empty(tuple(range(2, 2 + array.ndim)), np.int8), *args, **kwargs).shape
        kept = [mark - 2 for mark in marks if mark > 1]
        return array.transpose(kept)[tuple(None if mark == 1 else slice(None) for mark in marks)]

    return handler


def _dot(_: Trace, first: Any, second: Any, out: Any = None) -> Any:
    if out is not None or max(np.ndim(first), np.ndim(second)) > 2:
        raise NotTakenError(f"numpy.dot of more than two axes, or with out=, {at_line()} is not fused yet.")
    return first @ second if np.ndim(first) and np.ndim(second) else first * second


def _broadcast_to(trace: Trace, array: SymbolicArray, shape: Any) -> SymbolicArray:
    return SymbolicArray.of(trace, broadcast_to(array.node(), (shape,) if isinstance(shape, int) else tuple(shape)))


FUNCTIONS.update(
    {
        np.where: _where,
        np.select: _select,
        np.clip: _clip,
        np.shape: _attribute("shape"),
        np.ndim: _attribute("ndim"),
        np.size: _attribute("size"),
        np.iscomplexobj: lambda _, array: array.dtype.kind == "c",
        np.real: _attribute("real"),
        np.imag: _attribute("imag"),
        np.copy: _method("copy"),
        np.sum: _method("sum"),
        np.prod: _method("prod"),
        np.min: _method("min"),
        np.max: _method("max"),
        np.amin: _method("min"),
        np.amax: _method("max"),
        np.any: _method("any"),
        np.all: _method("all"),
        np.mean: _method("mean"),
        np.argmin: _method("argmin"),
        np.argmax: _method("argmax"),
        np.dot: _dot,
        np.transpose: _axes(np.transpose),
        np.swapaxes: _axes(np.swapaxes),
        np.moveaxis: _axes(np.moveaxis),
        np.expand_dims: _axes(np.expand_dims),
        np.broadcast_to: _broadcast_to,
        np.empty_like: _like(0),
        np.zeros_like: _like(0),
        np.ones_like: _like(1),
        np.full_like: _like(None),
    }
)
HINTS.update(
    {
        np.roll: 'Index the view with a shifted box, or use view.padded(box, halo, mode="wrap").',
        np.pad: "Use view.padded(box, halo, mode).",
        np.nonzero: "The number of elements would depend on data: use numpy.where(condition, a, b).",
    }
)


class SymbolicModule(ModuleType):
    """`chunk.xp` in a function that is traced: NumPy, but new arrays are symbolic."""

    def __init__(self, trace: Trace) -> None:
        super().__init__("numpy")
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def full(self, shape: Any, fill_value: Any, dtype: Any = None) -> SymbolicArray:
        """As `numpy.full`."""
        return full(self._trace, shape, fill_value, dtype)

    def zeros(self, shape: Any, dtype: Any = float) -> SymbolicArray:
        """As `numpy.zeros`."""
        return full(self._trace, shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = float) -> SymbolicArray:
        """As `numpy.ones`."""
        return full(self._trace, shape, 1, dtype)

    def empty(self, shape: Any, dtype: Any = float) -> SymbolicArray:
        """As `numpy.empty`: elements have any value, here 0, until they are assigned."""
        return full(self._trace, shape, 0, dtype)

    def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> SymbolicArray:
        """As `numpy.arange`, of integers.

        Raises:
            NotTakenError: If they are no integers.
        """
        first, end = (0, start) if stop is None else (start, stop)
        if not all(isinstance(value, int) for value in (first, end, step)):
            raise NotTakenError(f"numpy.arange of other numbers than integers {at_line()} is not fused yet.")
        self._trace.count()
        shape = (len(range(first, end, step)),)
        index = ItemIndex(np.dtype(np.int64), shape, Affine(0, step, first))
        array = SymbolicArray.of(self._trace, index)
        return array if dtype is None else array.astype(dtype)
