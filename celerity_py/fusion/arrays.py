# SPDX-License-Identifier: MIT
"""Symbolic arrays: in the place of NumPy's in a function that is traced, with the same text and the same aliasing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np

from celerity_py.calls.views import View
from celerity_py.fusion import operations
from celerity_py.fusion.array_folds import matmul, mean, place_of_extremum, reduce_array
from celerity_py.fusion.coordinates import Affine, broadcast, can_be_assigned, compose, identity, select
from celerity_py.fusion.mistakes import NotTakenError, at_line, refusal, shown_as
from celerity_py.fusion.nodes import Compute, Node, broadcast_to, converted, selected
from celerity_py.fusion.scalars import SymbolicScalar
from celerity_py.fusion.storages import DerivedStorage, Storage, ValueStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celerity_py._native import Box
    from celerity_py.fusion.coordinates import Positions, Shape
    from celerity_py.fusion.trace import Trace

#: What stands beside an array in an operation.
Value: TypeAlias = "SymbolicArray | SymbolicScalar | int | float | complex | np.generic"

#: What carries out NumPy's functions, and what to write for others; `functions` fills them.
FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {}
HINTS: Final[dict[Any, str]] = {}

_ON_DATA = (
    "asks for the truth of an array {at}, as `if`, `and`, `or`, `not` and chained comparisons do. A fused kernel is "
    "made before the elements are known: write numpy.where(condition, a, b), and (a < x) & (x < b) for a < x < b."
)


@shown_as("expression")
class SymbolicArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array in a function that is traced: operations make expressions, and basic indexing gives references.

    Valid during the call, on its thread. Shapes are those of the real chunk.
    """

    __slots__ = ("_is_number", "_positions", "_storage", "shape", "trace")

    def __init__(self, trace: Trace, storage: Storage, positions: Positions, shape: Shape) -> None:
        self.trace = trace
        self._storage = storage
        self._positions = positions
        #: Extents, as numbers of Python.
        self.shape = shape
        self._is_number = False

    # ---- as the other parts of the maker see it

    @classmethod
    def of(cls, trace: Trace, node: Node) -> SymbolicArray:
        """An array of its own with the elements of a node."""
        return cls(trace, ValueStorage(node), identity(len(node.shape)), node.shape)

    def node(self) -> Node:
        """Its elements now."""
        self.trace.require_open()
        return self._storage.read(self._positions, self.shape)

    @property
    def is_new(self) -> bool:
        """Whether the function has made it, so that it is no part of a view."""
        return isinstance(self._storage, ValueStorage)

    def is_same(self, other: Any) -> bool:
        """Whether another array has the same elements in the same order, so that an assignment changes nothing."""
        return (
            isinstance(other, SymbolicArray)
            and other._storage is self._storage
            and other._positions == self._positions
            and other.shape == self.shape
        )

    def assign(self, value: Any) -> None:
        """Replace the elements, as `array[...] = value` does."""
        if self.is_same(value):
            return  # array[box] += 1 updates in place, and then assigns the result to where it lies
        operand = operand_of(value)
        node = operations.operand_node(operand, self.dtype)
        if not can_be_assigned(node.shape, self.shape):
            raise refusal(
                f"An array of the shape {node.shape} is assigned to elements of the shape {self.shape} {at_line()}. "
                f"Assign an array of that shape, or one that NumPy broadcasts to it."
            )
        self.trace.count()
        if node.shape != self.shape:
            node = selected(node, broadcast(node.shape, self.shape), self.shape)
        self._storage.write(self._positions, node)

    def _reference(self, positions: Positions, shape: Shape) -> SymbolicArray:
        return SymbolicArray(self.trace, self._storage, compose(self._positions, positions), shape)

    def as_number(self) -> SymbolicArray:
        """The elements as they are now. Without dimensions they are a scalar of NumPy, which `+=` replaces."""
        result = SymbolicArray.of(self.trace, self.node())
        result._is_number = not self.shape
        return result

    # ---- as the function sees it

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._storage.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> SymbolicArray:  # noqa: N802 - NumPy's name
        """A reference with the axes in reverse order."""
        return self.transpose()

    @property
    def real(self) -> SymbolicArray:
        """The real parts, which follow changes of the array."""
        return self if self.dtype.kind != "c" else self._part("real")

    @property
    def imag(self) -> SymbolicArray:
        """The imaginary parts, which follow changes of the array."""
        return self._part("imag")

    def _part(self, name: str) -> SymbolicArray:
        dtype = np.empty((), self.dtype).real.dtype
        storage = DerivedStorage(lambda: Compute(dtype, self.shape, name, (self.node(),)), dtype, f"array.{name}")
        return SymbolicArray(self.trace, storage, identity(self.ndim), self.shape)

    def __getitem__(self, index: Any) -> SymbolicArray:
        found = self._reference(*select(self.shape, index))
        is_element = not found.shape and ... not in (index if isinstance(index, tuple) else (index,))
        return found.as_number() if is_element else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self._reference(*select(self.shape, index)).assign(value)

    def __len__(self) -> int:
        if not self.shape:
            raise refusal(f"An array without dimensions has no length {at_line()}. Index the array that it is from.")
        return self.shape[0]

    def __iter__(self) -> Iterator[SymbolicArray]:
        return (self[position] for position in range(len(self)))

    def transpose(self, *axes: Any) -> SymbolicArray:
        """A reference with permuted axes, as `numpy.ndarray.transpose`."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(reversed(range(self.ndim))) if not order else tuple(axis % self.ndim for axis in order)
        if sorted(order) != list(range(self.ndim)):
            raise refusal(f"The axes {axes} of a transposition {at_line()} are no permutation of {self.ndim} axes.")
        where = {axis: place for place, axis in enumerate(order)}
        positions = tuple(identity(self.ndim)[where[axis]] for axis in range(self.ndim))
        return self._reference(positions, tuple(self.shape[axis] for axis in order))

    def copy(self, order: str = "C") -> SymbolicArray:
        """The elements as they are now, in an array of their own."""
        result = SymbolicArray.of(self.trace, self.node())
        result._is_number = self._is_number
        return result

    def repeat_edges(self, box: Box, whole: Box) -> SymbolicArray:
        """The elements of a box of the first axes, where those beyond `whole` are the nearest ones inside."""
        lines = zip(box.min, box.max, whole.min, whole.max, strict=True)
        positions = [
            Affine(axis, 1, low, None if least <= low and high <= most else (least, most - 1))
            for axis, (low, high, least, most) in enumerate(lines)
        ]
        further = range(len(positions), self.ndim)
        shape = (*box.shape, *self.shape[len(positions) :])
        places = (*positions, *(Affine(axis, 1, 0) for axis in further))
        return SymbolicArray.of(self.trace, self._storage.read(compose(self._positions, places), shape))

    def astype(self, dtype: Any, **options: Any) -> SymbolicArray:
        """The elements converted as NumPy does, in an array of their own."""
        if set(options) - {"copy", "order", "casting"}:
            raise NotTakenError(f"astype with {sorted(options)} {at_line()} is not fused yet.")
        target, casting = np.dtype(dtype), options.get("casting", "unsafe")
        if not np.can_cast(self.dtype, target, casting):
            raise refusal(f"{self.dtype} cannot be converted to {target} with casting={casting!r} {at_line()}.")
        if options.get("copy") is False and target == self.dtype:
            return self
        if target.kind == "c" and self.dtype.kind != "c" and target.char not in "FD":
            raise NotTakenError(f"Conversions to {target} {at_line()} are not fused yet.")
        self.trace.count()
        result = SymbolicArray.of(self.trace, converted(self.node(), target))
        result._is_number = self._is_number
        return result

    def clip(self, min: Any = None, max: Any = None, **options: Any) -> SymbolicArray:  # noqa: A002 - NumPy's names
        """As `numpy.clip`."""
        low, high = min, max
        if self.dtype.kind in "iu":  # as NumPy, which lets go of bounds that no element reaches
            limits = np.iinfo(self.dtype)
            low = None if type(min) is int and min <= limits.min else min
            high = None if type(max) is int and max >= limits.max else max
        if low is None and high is None:
            return self._apply(np.positive, (self,), **options)
        if high is None:
            return self._apply(np.maximum, (self, low), **options)
        if low is None:
            return self._apply(np.minimum, (self, high), **options)
        return self._apply(operations.CLIP, (self, low, high), **options)

    def conj(self) -> SymbolicArray:
        """The complex conjugates, in an array of their own."""
        return self._apply(np.conjugate, (self,))

    def fill(self, value: Any) -> None:
        """Assign a number to all elements."""
        self[...] = value

    def sum(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """As `numpy.sum`; the order of additions may be another one."""
        return reduce_array(self, np.add, axis, dtype, **options)

    def prod(self, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        """As `numpy.prod`; the order of products may be another one."""
        return reduce_array(self, np.multiply, axis, dtype, **options)

    def min(self, axis: Any = None, **options: Any) -> Any:
        """As `numpy.min`."""
        return reduce_array(self, np.minimum, axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Any:
        """As `numpy.max`."""
        return reduce_array(self, np.maximum, axis, **options)

    def any(self, axis: Any = None, **options: Any) -> Any:
        """As `numpy.any`."""
        return reduce_array(self, np.logical_or, axis, **options)

    def all(self, axis: Any = None, **options: Any) -> Any:
        """As `numpy.all`."""
        return reduce_array(self, np.logical_and, axis, **options)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """As `numpy.mean`."""
        return mean(self, axis, dtype, keepdims)

    def argmin(self, axis: Any = None) -> Any:
        """As `numpy.argmin`."""
        return place_of_extremum(self, np.minimum, axis)

    def argmax(self, axis: Any = None) -> Any:
        """As `numpy.argmax`."""
        return place_of_extremum(self, np.maximum, axis)

    # ---- operators and functions of NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and len(inputs) == 1:
            options.setdefault("axis", 0)
            return reduce_array(inputs[0], ufunc, **options)
        if ufunc is np.matmul and method == "__call__" and not options:
            operands = [value if isinstance(value, SymbolicArray) else operand_of(value) for value in inputs]
            return matmul(*operands)
        if method != "__call__":
            raise NotTakenError(f"numpy.{ufunc.__name__}.{method} {at_line()} is not fused yet.")
        return self._apply(ufunc, inputs, **options)

    def _apply(self, ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any = None, **options: Any) -> SymbolicArray:
        if options:
            raise NotTakenError(f"numpy.{ufunc.__name__} with {sorted(options)} {at_line()} is not fused yet.")
        self.trace.count()
        operands = [operand_of(value) for value in inputs]
        target = out[0] if isinstance(out, tuple) else out
        if target is None or (isinstance(target, SymbolicArray) and target._is_number and inputs[0] is target):
            return SymbolicArray.of(self.trace, operations.apply(ufunc, operands)).as_number()
        if not isinstance(target, SymbolicArray):
            raise refusal(
                f"numpy.{ufunc.__name__} {at_line()} would put its result into {type(target).__name__}, which is no "
                f"array of the kernel. Write the result into a view."
            )
        node = operations.apply(ufunc, operands, target.dtype)
        if node.shape != target.shape and np.broadcast_shapes(node.shape, target.shape) != target.shape:
            raise refusal(
                f"An operation of the shape {node.shape} updates an array of the shape {target.shape} {at_line()}. "
                f"Assign to a new variable, as in a = a + b, or index the other operand."
            )
        target.assign_node(broadcast_to(node, target.shape))
        return target

    def assign_node(self, node: Node) -> None:
        """Replace the elements by others of the same dtype and shape."""
        self._storage.write(self._positions, node)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = FUNCTIONS.get(function)
        if handler is None:
            hint = HINTS.get(function)
            if hint is not None:
                raise refusal(f"A fused kernel does not take numpy.{function.__name__} {at_line()}. {hint}")
            raise NotTakenError(f"The fused form of numpy.{function.__name__} {at_line()} is not made yet.")
        return handler(self.trace, *args, **kwargs)

    def __pow__(self, other: Any) -> Any:
        fast = None if isinstance(other, bool) or not isinstance(other, int | float) else _fast_power(self.dtype, other)
        return self._apply(np.power, (self, other)) if fast is None else self._apply(fast, (self,))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(
            f"A function that needs the elements of an array is called {at_line()}, but a fused kernel is made before "
            f"they are known. Use NumPy's elementwise functions, or @celerity.kernel in place of the fused kernel."
        )

    def __bool__(self) -> NoReturn:
        raise refusal("The function " + _ON_DATA.format(at=at_line()))

    def _refuse_number(self) -> NoReturn:
        raise refusal(
            f"The function needs an element as a number of Python {at_line()}, but a fused kernel is made before the "
            f"elements are known. Compute with the array itself, or pass the number as an argument."
        )

    def __int__(self) -> int:
        self._refuse_number()

    def __float__(self) -> float:
        self._refuse_number()

    def __complex__(self) -> complex:
        self._refuse_number()

    def __index__(self) -> int:  # noqa: PLE0305 - it raises
        self._refuse_number()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(name)
        raise NotTakenError(f"array.{name} {at_line()} is not fused yet.")

    def __repr__(self) -> str:
        return f"<expression of shape {self.shape} and dtype {self.dtype}>"

    __hash__ = object.__hash__


def operand_of(value: Any) -> operations.Operand:
    """What an operation takes for something that the function wrote.

    Raises:
        NotTakenError: If it is an array of NumPy.
        UsageError: If it is neither an array of the kernel nor a number.
    """
    if isinstance(value, SymbolicArray):
        return value.node()
    if isinstance(value, SymbolicScalar | int | float | complex | np.generic):
        return value
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            number: Any = value[()]
            return number  # type: ignore[no-any-return]
        raise NotTakenError(f"An array of NumPy in a fused kernel {at_line()} is not fused yet.")
    remedy = "Convert it to a number, or leave it out."
    if isinstance(value, View):
        remedy = "Index a view first: view[chunk.box] is an array."
    elif isinstance(value, list | tuple):
        remedy = "Make an array with chunk.xp.zeros(), and assign its elements one by one."
    raise refusal(f"An operation on arrays takes arrays and numbers, not {type(value).__name__} {at_line()}. {remedy}")


def _fast_power(dtype: np.dtype[Any], exponent: float) -> np.ufunc | None:
    """The ufunc that NumPy takes for `array ** exponent`."""
    if exponent == 2 and (dtype.kind in "fc" or (dtype.kind in "iub" and isinstance(exponent, int))):
        return np.square
    if dtype.kind in "fc":
        return {1: np.positive, -1: np.reciprocal, 0.5: np.sqrt}.get(exponent)
    return None
