# SPDX-License-Identifier: MIT
"""Plain numbers among the arguments: parameters of the launch, and arithmetic on them, which Python and NumPy do."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from celerity_py.fusion.mistakes import at_line, refusal, shown_as

#: Python's numbers, which take the dtype of the array that they meet. `bool` has a dtype of its own for NumPy.
WEAK: Final = (int, float, complex)
#: Every floating-point type holds smaller numbers.
_LARGE: Final = 60000
#: Of one. Longer ones take several places.
SCALAR_BYTES: Final = 16
Number: TypeAlias = "int | float | complex | np.generic"


@dataclass(frozen=True, eq=False, slots=True)
class Parameter:
    """A number that each launch computes from its arguments, by the operations of the function itself."""

    function: Callable[..., Any] | None
    """None: the argument itself."""
    operands: tuple[Any, ...]
    """Parameters and numbers; of an argument its position."""
    value: Any
    """In the call that is traced."""

    def value_of(self, arguments: Sequence[Any]) -> Any:
        """The number for other arguments."""
        if self.function is None:
            return arguments[self.operands[0]]
        values = (item.value_of(arguments) if isinstance(item, Parameter) else item for item in self.operands)
        return self.function(*values)


def is_weak(value: Any) -> bool:
    """Whether a number takes the dtype of the array that it meets."""
    return isinstance(value, WEAK) and not isinstance(value, bool | np.generic)


def as_element(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """A number in the type of an operation's loop.

    Raises:
        UsageError: If the type cannot hold a Python integer.
    """
    if isinstance(value, np.generic):
        converted: np.generic = value.astype(dtype)
        return converted
    try:
        if abs(value) < _LARGE:  # the other way costs more
            small: np.generic = dtype.type(value)
            return small
        with np.errstate(over="ignore"):
            element: np.generic = dtype.type(value)
    except OverflowError:
        raise refusal(
            f"The Python integer {value} does not fit into {dtype} {at_line()}. Convert the array to a wider type, as "
            f"in array.astype(numpy.int64), or pass the number as one of NumPy, such as numpy.int64({value})."
        ) from None
    return element


def content_of(scalars: Sequence[tuple[Parameter, np.dtype[Any]]], arguments: Sequence[Any]) -> np.ndarray[Any, Any]:
    """The scalars of a launch with these arguments, 16 bytes each.

    Raises:
        UsageError: If a Python integer does not fit into the type of the arrays that it meets.
    """
    content = np.zeros((max(num_places(scalars), 1), SCALAR_BYTES), np.uint8)
    flat, begin = content.reshape(-1), 0
    for parameter, dtype in scalars:
        element = as_element(parameter.value_of(arguments), dtype).tobytes()
        flat[begin : begin + dtype.itemsize] = np.frombuffer(element, np.uint8)
        begin += SCALAR_BYTES * places_of(dtype)
    return content


def places_of(dtype: np.dtype[Any]) -> int:
    """How many places a scalar takes."""
    return -(-dtype.itemsize // SCALAR_BYTES)


def num_places(scalars: Sequence[tuple[Parameter, np.dtype[Any]]]) -> int:
    """How many places scalars take."""
    return sum(places_of(dtype) for _, dtype in scalars)


def bytes_of_array(array: np.ndarray[Any, Any], size: int) -> np.void:
    """The elements in C order, as one scalar of so many bytes."""
    return np.void(array.tobytes().ljust(size, b"\0"))


#: A number in 16 bytes, by the character of the dtype.
_PACKING: Final = {
    np.dtype(f"{kind}{size}").char: f"{code}{16 - size}x"
    for kind, codes in {"i": "bhiq", "u": "BHIQ", "f": " efd"}.items()
    for size, code in zip((1, 2, 4, 8), codes, strict=True)
    if code != " "
}


class Packer:
    """Makes the bytes of `content_of`, sooner for numbers that `struct` converts as NumPy does."""

    __slots__ = ("_pack", "_scalars", "packing")

    def __init__(self, scalars: Sequence[tuple[Parameter, np.dtype[Any]]]) -> None:
        self._scalars = scalars
        self._pack: Callable[..., bytes] | None = None
        #: A function of some of the arguments, of the types of the traced call, and their positions. It raises for
        #: numbers that do not fit. None: not all scalars are arguments as they are.
        self.packing: tuple[Callable[..., bytes], list[int]] | None = None
        if scalars and all(_is_packed(parameter.value, dtype) for parameter, dtype in scalars):
            self._pack = struct.Struct("=" + "".join(_PACKING[dtype.char] for _, dtype in scalars)).pack
            if all(parameter.function is None for parameter, _ in scalars):
                self.packing = self._pack, [parameter.operands[0] for parameter, _ in scalars]

    def bytes_of(self, arguments: Sequence[Any]) -> bytes:
        """The bytes for other arguments of the same types.

        Raises:
            UsageError: If a Python integer does not fit into the type of the arrays that it meets.
        """
        if self._pack is not None:
            try:
                return self._pack(*[parameter.value_of(arguments) for parameter, _ in self._scalars])
            except (OverflowError, struct.error):  # too large, or an integer that does not fit
                pass
        return content_of(self._scalars, arguments).tobytes()


def _is_packed(value: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.char not in _PACKING:
        return False
    return value.__class__ in {float, int} or (
        isinstance(value, np.floating if dtype.kind == "f" else np.integer) and value.__class__ is not np.longdouble
    )


@shown_as("number")
class SymbolicScalar:
    """A plain number in a function that is traced. Arithmetic with numbers gives further ones.

    Where Python needs the value, the trace holds for this value only: `needed` gets the positions of the arguments that
    it comes from.
    """

    __slots__ = ("_needed", "parameter")

    def __init__(self, parameter: Parameter, needed: set[int]) -> None:
        self.parameter = parameter
        self._needed = needed

    def concrete(self) -> Any:
        """The value, which the trace depends on from now on."""
        stack = [self.parameter]
        while stack:
            parameter = stack.pop()
            if parameter.function is None:
                self._needed.add(parameter.operands[0])
            else:
                stack.extend(item for item in parameter.operands if isinstance(item, Parameter))
        return self.parameter.value

    def derive(self, function: Callable[..., Any], *operands: Any) -> Any:
        """`function(*operands)` as a scalar; NotImplemented if one of them is no number."""
        if not all(isinstance(item, SymbolicScalar | int | float | complex | np.generic) for item in operands):
            return NotImplemented
        value = function(*(item.parameter.value if isinstance(item, SymbolicScalar) else item for item in operands))
        plain = tuple(item.parameter if isinstance(item, SymbolicScalar) else item for item in operands)
        return SymbolicScalar(Parameter(function, plain, value), self._needed)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a number of NumPy; Python's have none."""
        found: np.dtype[Any] = self.parameter.value.dtype
        return found

    def copy(self) -> Any:
        """Of a number of NumPy, itself."""
        return self.derive(operator.methodcaller("copy"), self)

    def astype(self, dtype: Any) -> Any:
        """Of a number of NumPy, one of another type."""
        return self.derive(operator.methodcaller("astype", dtype), self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options:
            return self.derive(ufunc, *inputs)
        plain = [item.concrete() if isinstance(item, SymbolicScalar) else item for item in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __getattr__(self, name: str) -> Any:
        """Any other attribute is that of the value."""
        if name.startswith("__array"):  # NumPy asks for these whatever it does
            raise AttributeError(name)
        return getattr(self.concrete(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.concrete(), dtype)

    def __str__(self) -> str:
        return str(self.concrete())

    def __format__(self, spec: str) -> str:
        return format(self.concrete(), spec)

    def __repr__(self) -> str:
        return f"<scalar {self.parameter.value!r}>"

    def __hash__(self) -> int:
        return hash(self.concrete())


def _binary(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: SymbolicScalar, other: Any) -> Any:
        return self.derive(function, self, other)

    def backward(self: SymbolicScalar, other: Any) -> Any:
        return self.derive(function, other, self)

    return forward, backward


def _concrete(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: SymbolicScalar, *others: Any) -> Any:
        plain = (other.concrete() if isinstance(other, SymbolicScalar) else other for other in others)
        return function(self.concrete(), *plain)

    return method


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    on_values = _concrete(function)

    def method(self: SymbolicScalar, other: Any) -> Any:
        is_number = isinstance(other, SymbolicScalar | int | float | complex | np.generic)
        return on_values(self, other) if is_number else NotImplemented

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor"):
    _function = getattr(operator, f"__{_name}__")
    _forward, _backward = _binary(_function)
    setattr(SymbolicScalar, f"__{_name}__", _forward)
    setattr(SymbolicScalar, f"__r{_name}__", _backward)
for _name in ("neg", "pos", "abs", "invert"):
    _function = getattr(operator, f"__{_name}__")
    setattr(SymbolicScalar, f"__{_name}__", lambda self, function=_function: self.derive(function, self))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymbolicScalar, f"__{_name}__", _comparison(getattr(operator, f"__{_name}__")))
for _function in (bool, int, float, complex, operator.index, round, divmod):
    setattr(SymbolicScalar, f"__{_function.__name__}__", _concrete(_function))
