# SPDX-License-Identifier: MIT
"""The folds of fused kernels for numba: `fold` combines an element in any order, and `join` two results in theirs."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

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
    load_of,
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


# ---- the elements of a row, which lie in a buffer


@functools.cache
def buffer_of(kind: Any, count: int) -> Any:
    """`make()` gives the address of so many elements on the stack, which a function has once."""

    @_intrinsic
    def make(_: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            content = ir.ArrayType(context.get_data_type(kind), count)
            return builder.bitcast(cgutils.alloca_once(builder, content), context.get_value_type(types.voidptr))

        return types.voidptr(), generate

    return make


def _of_row(join: Any) -> Any:
    """Combines the elements of a buffer as eight numbers, and these as one. `join`: two numbers as one."""

    def choose(buffer: Any, count: Any, identity: Any) -> Any:
        load, size = load_of(identity, 0, 0), getattr(identity, "bitwidth", 8) // 8

        def combine(buffer: Any, count: Any, identity: Any) -> Any:
            a = b = c = d = e = f = g = h = identity
            whole = (count - count % 8) * size
            for at in range(0, whole, 8 * size):
                a, b = join(a, load(buffer, at)), join(b, load(buffer, at + size))
                c, d = join(c, load(buffer, at + 2 * size)), join(d, load(buffer, at + 3 * size))
                e, f = join(e, load(buffer, at + 4 * size)), join(f, load(buffer, at + 5 * size))
                g, h = join(g, load(buffer, at + 6 * size)), join(h, load(buffer, at + 7 * size))
            for at in range(whole, count * size, size):
                a = join(a, load(buffer, at))
            return join(join(join(a, b), join(c, d)), join(join(e, f), join(g, h)))

        return combine

    return _by_types(choose)


row_add, row_multiply, row_minimum, row_maximum, row_logical_or, row_logical_and = map(
    _of_row, (join_add, join_multiply, join_minimum, join_maximum, join_logical_or, join_logical_and)
)
