# SPDX-License-Identifier: MIT
"""Operations on elements, with the dtypes that NumPy itself gives them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from celerity_py.fusion.mistakes import NotTakenError, at_line, refusal
from celerity_py.fusion.nodes import Compute, Literal, Node, ScalarValue, broadcast_to, converted
from celerity_py.fusion.scalars import SymbolicScalar, as_element, is_weak

#: What an operation takes: nodes, and numbers that the function writes or is called with.
Operand: TypeAlias = "Node | SymbolicScalar | int | float | complex | np.generic"

_SAME_NAME: Final = """
    add subtract multiply divide floor_divide remainder negative positive absolute sign square sqrt reciprocal
    floor ceil trunc rint minimum maximum fmin fmax copysign
    equal not_equal less less_equal greater greater_equal
    logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
    isnan isinf isfinite signbit conjugate
    exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    cbrt power arctan2 hypot
"""
#: The name of the operation in the source of kernels, by ufunc.
NAMES: Final = {getattr(np, name): name for name in _SAME_NAME.split()} | {np.fabs: "absolute"}
_COMPARISONS: Final[dict[np.ufunc, tuple[bool, bool]]] = {
    np.equal: (False, False),
    np.not_equal: (True, True),
    np.less: (False, True),
    np.less_equal: (False, True),
    np.greater: (True, False),
    np.greater_equal: (True, False),
}  # with a Python integer on the right: below all values of the type, above them
_MIRRORED: Final[dict[np.ufunc, np.ufunc]] = {
    np.less: np.greater,
    np.less_equal: np.greater_equal,
    np.greater: np.less,
    np.greater_equal: np.less_equal,
}
#: Of complex numbers, what is taken.
_COMPLEX: Final = frozenset(
    (
        *("add", "subtract", "multiply", "divide", "square", "reciprocal", "absolute", "negative", "positive"),
        *("equal", "not_equal", "conjugate", "isnan", "isinf", "isfinite"),
    )
)
_TAKEN: Final = "?bhilqBHILQefdFD"
CLIP: Final = np._core.umath.clip  # type: ignore[attr-defined]


def apply(ufunc: np.ufunc, operands: Sequence[Operand], out: np.dtype[Any] | None = None) -> Node:
    """`ufunc(*operands)`, and with `out` converted to the dtype of an array that takes the result.

    Raises:
        UsageError: If NumPy has no such operation for these dtypes, or refuses to convert the result.
        NotTakenError: If the operation cannot be fused yet.
    """
    name = "clip" if ufunc is CLIP else NAMES.get(ufunc)
    if name is None:
        raise NotTakenError(f"The fused form of numpy.{ufunc.__name__} {at_line()} is not made yet.")
    if ufunc in _COMPARISONS:
        special = _compare_beyond(ufunc, operands) or _compare_with_scalar(name, operands)
        if special is not None:
            return special
    types = resolve(ufunc, tuple(key_of(operand) for operand in operands), out)
    for dtype in types:
        if dtype.char not in _TAKEN or (dtype.kind == "c" and name not in _COMPLEX):
            raise NotTakenError(f"The fused form of numpy.{ufunc.__name__} for {dtype} {at_line()} is not made yet.")
    if types[0].kind in "iu" and not _is_total(name, operands[-1], types[0]):
        raise NotTakenError(f"The fused form of numpy.{ufunc.__name__} for {types[0]} {at_line()} is not made yet.")
    nodes = tuple(operand_node(operand, dtype) for operand, dtype in zip(operands, types, strict=False))
    if ufunc is CLIP and not any(node.shape for node in nodes[1:]):
        name = "clip_within"  # NumPy treats 0 and -0 otherwise if the bounds are numbers
    node = Compute(types[len(operands)], shape_of(nodes), name, nodes)
    return node if out is None else converted(node, out)


def _is_total(name: str, last: Operand, dtype: np.dtype[Any]) -> bool:
    """Whether an operation on integers has a result for all of them."""
    if name == "power":  # NumPy raises for negative exponents, and a kernel cannot
        return dtype.kind == "u" or (isinstance(last, int | np.integer) and int(last) >= 0)
    return name != "reciprocal"


def key_of(operand: Operand) -> Any:
    """The dtype of an operand, or the class of a number that takes the dtype of the other operands."""
    value = operand.parameter.value if isinstance(operand, SymbolicScalar) else operand
    if isinstance(value, Node | np.generic):
        return value.dtype
    if isinstance(value, bool):
        return np.dtype(bool)
    return next(kind for kind in (int, float, complex) if isinstance(value, kind))


@functools.lru_cache(maxsize=4096)
def resolve(ufunc: np.ufunc, keys: tuple[Any, ...], out: np.dtype[Any] | None) -> tuple[np.dtype[Any], ...]:
    """The dtypes in which an operation computes, and of its result, by NumPy's rules."""
    try:
        found: tuple[np.dtype[Any], ...] = ufunc.resolve_dtypes((*keys, out), casting="same_kind")
    except TypeError as error:
        shown = ", ".join(getattr(key, "__name__", str(key)) for key in keys)
        target = "" if out is None else f" into {out}"
        raise refusal(
            f"numpy.{ufunc.__name__} of {shown}{target} {at_line()}: {error}. Convert an operand, as in "
            f"array.astype(numpy.float64)."
        ) from None
    return found


def operand_node(operand: Operand, dtype: np.dtype[Any]) -> Node:
    """An operand in the dtype of the operation's loop."""
    if isinstance(operand, Node):
        return converted(operand, dtype)
    if isinstance(operand, SymbolicScalar):
        as_element(operand.parameter.value, dtype)  # raises where the launch would
        return ScalarValue(dtype, (), operand.parameter)
    return Literal(dtype, (), as_element(operand, dtype))


def shape_of(nodes: Sequence[Node]) -> tuple[int, ...]:
    """The shape to which NumPy broadcasts operands.

    Raises:
        UsageError: If they do not fit each other.
    """
    shapes = [node.shape for node in nodes]
    longest = max(shapes, key=len)
    if all(shape in {longest, ()} for shape in shapes):
        return longest
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise refusal(
            f"Arrays of the shapes {', '.join(map(str, shapes))} do not fit each other {at_line()}. Index them with "
            f"boxes of the same shape, such as box and box.shift(...), or with axes of one element, as in a[:, None]."
        ) from None


def where(condition: Node, first: Operand, second: Operand) -> Node:
    """`numpy.where(condition, first, second)`."""
    types = [key_of(operand) for operand in (first, second)]
    examples = [key if isinstance(key, np.dtype) else key(0) for key in types]
    dtype = np.result_type(*examples)
    chosen = (_wrapped(one, dtype) for one in (first, second))
    nodes = (converted(condition, np.dtype(bool)), *(operand_node(one, dtype) for one in chosen))
    return Compute(dtype, shape_of(nodes), "where", nodes)


def _wrapped(value: Operand, dtype: np.dtype[Any]) -> Operand:
    """A Python integer in a dtype that need not hold it: `where` keeps its low bits."""

    def wrap(number: int) -> Any:
        return np.asarray(number).astype(dtype)[()]

    if isinstance(value, SymbolicScalar):
        return value.derive(wrap, value) if key_of(value) is int else value
    return wrap(value) if key_of(value) is int else value  # type: ignore[arg-type]


def _compare_with_scalar(name: str, operands: Sequence[Operand]) -> Node | None:
    """A comparison of integers with a Python integer among the arguments, which no element need be able to have."""
    int64, uint64 = np.dtype(np.int64), np.dtype(np.uint64)
    nodes = []
    for operand in operands:
        if isinstance(operand, Node) and operand.dtype.kind in "iu":
            nodes.append(converted(operand, uint64 if operand.dtype == uint64 else int64))
        elif isinstance(operand, SymbolicScalar) and key_of(operand) is int:
            nodes.append(operand_node(operand, int64))
    if len(nodes) != 2 or sum(isinstance(node, ScalarValue) for node in nodes) != 1:
        return None
    return Compute(np.dtype(bool), shape_of(nodes), name, tuple(nodes))


def _compare_beyond(ufunc: np.ufunc, operands: Sequence[Operand]) -> Node | None:
    """The result of a comparison with a Python integer that no element can have."""
    array, number = operands
    if not isinstance(array, Node):
        array, number, ufunc = number, array, _MIRRORED.get(ufunc, ufunc)
    is_integer = is_weak(number) and isinstance(number, int)
    if not is_integer or not isinstance(array, Node) or array.dtype.kind not in "iu":
        return None
    assert isinstance(number, int)
    limits = np.iinfo(array.dtype)
    if limits.min <= number <= limits.max:
        return None
    decided = _COMPARISONS[ufunc][number > limits.max]
    return broadcast_to(Literal(np.dtype(bool), (), np.bool_(decided)), array.shape)
