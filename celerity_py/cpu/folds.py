# SPDX-License-Identifier: MIT
"""The folds of fused kernels for numba: `fold` combines an element in any order, and `join` two results in theirs."""

from __future__ import annotations

from typing import Any

from numba.core import types

from celerity_py.cpu.operations import (
    _by_types,
    _fabs,
    _function,
    _inlined,
    _intrinsic,
    add_,
    bitwise_and_,
    bitwise_or_,
    complex_add_,
    complex_multiply_,
    isfinite_,
    maximum_,
    minimum_,
    multiply_,
    where_,
)


@_intrinsic
def _add_in_any_order(_: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.fadd(*args, flags=("reassoc",))

    return a(a, b), generate


@_by_types
def fold_add(a: Any, b: Any) -> Any:
    if isinstance(a, types.Float):
        return lambda a, b: _add_in_any_order(a, b)
    if isinstance(a, types.Complex):
        return lambda a, b: complex(_add_in_any_order(a.real, b.real), _add_in_any_order(a.imag, b.imag))
    return lambda a, b: add_(a, b)


@_by_types
def lost_(a: Any, b: Any, total: Any) -> Any:
    """What the addition of two numbers has lost."""
    zero = a(0)

    def lost(a: Any, b: Any, total: Any) -> Any:
        rest = where_(_fabs(a) >= _fabs(b), (a - total) + b, (b - total) + a)
        return where_(isfinite_(total), rest, zero)

    return lost


@_by_types
def fold_multiply(a: Any, b: Any) -> Any:
    return (lambda a, b: complex_multiply_(a, b)) if isinstance(a, types.Complex) else (lambda a, b: multiply_(a, b))


@_by_types
def join_add(a: Any, b: Any) -> Any:
    return (lambda a, b: complex_add_(a, b)) if isinstance(a, types.Complex) else (lambda a, b: add_(a, b))


join_multiply = fold_multiply


def _extreme(of_floats: Any, of_others: Any) -> Any:
    """Instructions on floats, of which LLVM computes several at once. NaN wins, and -0 is less than 0."""

    def choose(a: Any, b: Any) -> Any:
        found = of_floats if isinstance(a, types.Float) else of_others
        return lambda a, b: found(a, b)

    return _by_types(choose)


fold_minimum = join_minimum = _extreme(_function("llvm.minimum", 2), minimum_)
fold_maximum = join_maximum = _extreme(_function("llvm.maximum", 2), maximum_)
fold_logical_or = join_logical_or = _inlined(lambda a, b: bitwise_or_(a, b))
fold_logical_and = join_logical_and = _inlined(lambda a, b: bitwise_and_(a, b))
