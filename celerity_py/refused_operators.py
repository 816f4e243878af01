# SPDX-License-Identifier: MIT
"""Operators of objects that stand for arrays but are none: each raises an error that says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

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
}


def refuse_operators(cls: type, refuse: Callable[[Any, str], NoReturn], *, equality: bool) -> None:
    """Give a class all operators of arrays; each calls `refuse(object, operator as it is written)`.

    Args:
        cls: The class.
        refuse: Raises.
        equality: Whether `==` is refused as well. Without it, a comparison would be False, and no array.
    """
    operators = dict(_ORDER | _OTHERS | (_EQUALITY if equality else {}))
    for name, symbol in _BINARY.items():
        operators |= {name: symbol, f"r{name}": symbol, f"i{name}": f"{symbol}="}
    del operators["idivmod"]
    for name, symbol in operators.items():
        setattr(cls, f"__{name}__", _refusing(refuse, symbol))


def _refusing(refuse: Callable[[Any, str], NoReturn], symbol: str) -> Callable[..., NoReturn]:
    def operator(self: Any, *_: Any) -> NoReturn:
        refuse(self, symbol)

    return operator
