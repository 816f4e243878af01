# SPDX-License-Identifier: MIT
"""Refuses uses of buffers, views and futures as arrays, with errors that name the remedy."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, SupportsIndex

import numpy as np

from celerity_py.scheduler.errors import ArgumentTypeError

_BINARY: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "matmul": "@",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "divmod": "divmod",
    "pow": "**",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "xor": "^",
    "or": "|",
}
_ORDER: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_EQUALITY: Final = {"eq": "==", "ne": "!="}
_OTHERS: Final = {
    "neg": "-",
    "pos": "+",
    "abs": "abs()",
    "invert": "~",
    "float": "float()",
    "int": "int()",
    "complex": "complex()",
    "index": "an index",
    "round": "round()",
    "trunc": "math.trunc()",
    "floor": "math.floor()",
    "ceil": "math.ceil()",
    "bool": "bool(), as in a condition",
    "len": "len()",
    "iter": "iter(), as in a loop",
    "contains": "in",
}

#: The attributes by which NumPy's functions ask for the form of an object alone.
_FORMS: Final = {np.shape: "shape", np.ndim: "ndim"}

#: The attributes of arrays, without special methods.
ARRAY_ATTRIBUTES: Final = frozenset(name for name in dir(np.ndarray) if not name.startswith("_"))


def refuse_operators(cls: type, refuse: Callable[[Any, str], NoReturn], *, equality: bool, truth: bool = True) -> None:
    """Give a class all operators of arrays; each calls `refuse(object, operator as it is written)`.

    Args:
        cls: The class.
        refuse: Raises.
        equality: Whether any `==` is refused. Without it, only one with a number, a sequence or an array is: it would
            be False, and no array. Other objects are compared as ever, by identity.
        truth: Whether conditions are refused.
    """
    operators = dict(_ORDER | _EQUALITY | _OTHERS)
    for name, symbol in _BINARY.items():
        operators |= {name: symbol, f"r{name}": symbol, f"i{name}": f"{symbol}="}
    del operators["idivmod"]
    if not truth:
        del operators["bool"]
    for name, symbol in operators.items():
        setattr(
            cls, f"__{name}__", _refusing(refuse, symbol, values_only=symbol in _EQUALITY.values() and not equality)
        )


def _refusing(refuse: Callable[[Any, str], NoReturn], symbol: str, *, values_only: bool) -> Callable[..., Any]:
    def operator(self: Any, *others: Any) -> Any:
        if not values_only or _has_values(others[0]):
            refuse(self, symbol)
        return NotImplemented

    return operator


def _has_values(other: Any) -> bool:
    if isinstance(other, numbers.Number | np.generic | np.ndarray | list | tuple):
        return True
    return hasattr(other, "__dlpack__") and not isinstance(other, StandsForArray)


class IsHandle:
    """Base of objects that stand for something of this process, so that copies and pickles are refused."""

    __slots__ = ()

    if TYPE_CHECKING:  # no `static_types.PlainValue`
        __reduce_ex__: ClassVar[None]  # type: ignore[assignment]
    else:

        def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
            raise ArgumentTypeError(
                f"{self!r} is a handle of this process and cannot be copied or pickled. Pass the handle itself within "
                f"the process. Other processes can have its contents, from queue.fence(...).result()."
            )


class StandsForArray(IsHandle):
    """Base of objects whose contents are elsewhere, so that each use as an array is refused."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> NoReturn:
        self._refuse("indexed")

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        self._refuse("indexed")

    def __delitem__(self, index: Any) -> NoReturn:
        self._refuse("indexed")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self._refuse("used as an array")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        form = getattr(self, _FORMS.get(function, ""), None)
        # Some functions of NumPy answer False if an argument is no array, such as `array_equal`.
        return self._refuse(f"an argument of numpy.{function.__name__}") if form is None else form

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse(f"an argument of numpy.{ufunc.__name__}")

    def __dlpack__(self, **options: Any) -> NoReturn:
        self._refuse("used as an array")

    def __dlpack_device__(self) -> NoReturn:
        self._refuse("used as an array")

    def __format__(self, spec: str) -> str:
        if spec:
            self._refuse(f"formatted with {spec!r}")
        return str(self)

    def _refuse(self, use: str) -> NoReturn:
        raise ArgumentTypeError(self._explain(use))

    @abstractmethod
    def _explain(self, use: str) -> str:
        """Word the error for such a use of this object, with the remedy."""

    def _explain_missing(self, name: str) -> str:
        return self._explain(f"asked for its .{name}, as an array") if name in ARRAY_ATTRIBUTES else ""


refuse_operators(StandsForArray, lambda handle, symbol: handle._refuse(f"an operand of {symbol}"), equality=False)
