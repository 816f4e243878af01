# SPDX-License-Identifier: MIT
"""The arithmetic of fused kernels for numba. `fused_operations.cuh` is the reference: results are the same to the bit.

Nothing depends on the promotion of integers, in Python or in numba: elementary operations are instructions of LLVM for
the types of their operands. Integers wrap. Nothing is contracted, because no instruction has a flag that allows it.
Texts of `fusion.cpu_emission` name what ends with `_` after operations. Those of float16 compute `widen`ed operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.types import (  # noqa: F401 - for texts
    boolean,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from numba.extending import intrinsic, overload

_OPTIONS: Final = {"error_model": "numpy", "forceinline": True}
_inlined: Final[Callable[[Callable[..., Any]], Any]] = njit(**_OPTIONS)
_intrinsic: Final[Callable[[Callable[..., Any]], Any]] = intrinsic


def _by_types(choose: Callable[..., Any]) -> Any:
    """A function whose text depends on the types of its arguments: `choose(*types)` gives it."""

    def stub(*_: Any) -> None:
        raise NotImplementedError

    overload(stub, jit_options=_OPTIONS, strict=False)(choose)
    return stub


# ---- memory: a pointer and a distance in bytes


def _place(context: Any, builder: Any, kind: Any, pointer: Any, distance: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [distance]), context.get_data_type(kind).as_pointer())


def _describe(instruction: Any, alignment: int, key: int, num_keys: int) -> None:
    """Tell LLVM the alignment, and that memories of different keys have no element in common; without keys not."""
    instruction.align = alignment
    if num_keys == 0:
        return
    module = instruction.parent.function.module
    domain = module.add_metadata(["memories"])
    scopes = [module.add_metadata([f"memory {one}", domain]) for one in range(num_keys)]
    own = scopes.pop(key)
    instruction.set_metadata("alias.scope", module.add_metadata([own]))
    instruction.set_metadata("noalias", module.add_metadata(scopes))


@functools.cache
def load_of(kind: Any, key: int = 0, num_keys: int = 1) -> Any:
    """`load(pointer, distance)` for elements of a type in one of several memories."""

    @_intrinsic
    def load(_: Any, pointer: Any, distance: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            loaded = builder.load(_place(context, builder, kind, *args))
            _describe(loaded, context.get_abi_alignment(loaded.type), key, num_keys)
            return context.data_model_manager[kind].from_data(builder, loaded)

        return kind(types.voidptr, types.int64), generate

    return load


@functools.cache
def store_of(kind: Any, key: int, num_keys: int) -> Any:
    """`store(pointer, distance, value)` for elements of a type in one of several memories."""

    @_intrinsic
    def store(_: Any, pointer: Any, distance: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> None:
            content = context.data_model_manager[kind].as_data(builder, args[2])
            stored = builder.store(content, _place(context, builder, kind, *args[:2]))
            _describe(stored, context.get_abi_alignment(content.type), key, num_keys)

        return types.void(types.voidptr, types.int64, kind), generate

    return store


number = load_of(types.int64)
memory = load_of(types.voidptr)

# ---- instructions and functions


def _kind(kind: Any) -> str:
    if isinstance(kind, types.Float):
        return "float"
    return "signed" if isinstance(kind, types.Integer) and kind.signed else "unsigned"


def _instruction(of_integers: str, of_floats: str = "", of_bools: str = "") -> Any:
    """An operation on two operands of one type, with a result of this type."""

    @_intrinsic
    def operation(_: Any, a: Any, b: Any) -> Any:
        name = of_floats if isinstance(a, types.Float) else of_integers
        name = of_bools or name if isinstance(a, types.Boolean) else name
        return a(a, b), lambda context, builder, signature, args: getattr(builder, name)(*args)

    return operation


def _comparison(symbol: str) -> Any:
    @_intrinsic
    def operation(_: Any, a: Any, b: Any) -> Any:
        of_floats = "fcmp_unordered" if symbol == "!=" else "fcmp_ordered"
        name = of_floats if isinstance(a, types.Float) else f"icmp_{_kind(a)}"
        return types.boolean(a, b), lambda context, builder, signature, args: getattr(builder, name)(symbol, *args)

    return operation


def _function(name: str, num_operands: int = 1) -> Any:
    """A function on floats: one of LLVM, as "llvm.sqrt", or of C's library. Of other numbers the operand itself."""

    def choose(_: Any, *operands: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            if not isinstance(operands[0], types.Float):
                return args[0]
            kind = context.get_value_type(operands[0])
            shape = ir.FunctionType(kind, [kind] * len(args))
            if name.startswith("llvm."):
                return builder.call(builder.module.declare_intrinsic(name, [kind], shape), args)
            symbol = name + ("f" if operands[0] == types.float32 else "")
            function = builder.module.globals.get(symbol) or ir.Function(builder.module, shape, symbol)
            return builder.call(function, args)

        return operands[0](*operands), generate

    if num_operands == 1:
        return _intrinsic(lambda _, a: choose(_, a))
    return _intrinsic(lambda _, a, b: choose(_, a, b))


@_intrinsic
def where_(_: Any, condition: Any, a: Any, b: Any) -> Any:
    """`a` if a condition holds, else `b`; both are computed."""
    return a(types.boolean, a, b), lambda context, builder, signature, args: builder.select(*args)


@_intrinsic
def limited(_: Any, position: Any, least: Any, most: Any) -> Any:
    """The coordinate from `least` to `most` that is nearest."""

    def choose(_: Any, builder: Any, __: Any, args: Any) -> Any:
        here, low, high = args
        here = builder.select(builder.icmp_signed("<", here, low), low, here)
        return builder.select(builder.icmp_signed(">", here, high), high, here)

    return types.int64(types.int64, types.int64, types.int64), choose


@_intrinsic
def invert_(_: Any, a: Any) -> Any:
    """The other bits, or the other truth."""
    return a(a), lambda context, builder, signature, args: builder.not_(*args)


@_intrinsic
def same_bits(_: Any, a: Any) -> Any:
    """A float as an unsigned integer, or the other way round."""
    name = f"{'float' if isinstance(a, types.Integer) else 'uint'}{a.bitwidth}"
    result = getattr(types, name)
    return result(a), lambda context, builder, signature, args: builder.bitcast(*args, context.get_value_type(result))


merge_, not_ = where_, invert_
bitwise_and_ = _instruction("and_")
bitwise_or_ = _instruction("or_")
bitwise_xor_ = _instruction("xor")
add_ = _instruction("add", "fadd", "or_")
subtract_ = _instruction("sub", "fsub")
multiply_ = _instruction("mul", "fmul", "and_")
divide_ = _instruction("", "fdiv")
_shl, _lshr, _ashr = map(_instruction, ("shl", "lshr", "ashr"))

equal_, not_equal_, less_, less_equal_ = map(_comparison, ("==", "!=", "<", "<="))
greater_, greater_equal_ = map(_comparison, (">", ">="))

sqrt_, floor_, ceil_, trunc_, rint_, _fabs = (
    _function(f"llvm.{name}") for name in ("sqrt", "floor", "ceil", "trunc", "rint", "fabs")
)
exp_, exp2_, expm1_, log_, log2_, log10_, log1p_ = map(
    _function, ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")
)
sin_, cos_, tan_, arcsin_, arccos_, arctan_ = map(_function, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh_, cosh_, tanh_, arcsinh_, arccosh_, arctanh_ = map(_function, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
cbrt_ = _function("cbrt")
copysign_, _fmod, _pow = (_function(name, 2) for name in ("llvm.copysign", "fmod", "pow"))
arctan2_, hypot_ = (_function(name, 2) for name in ("atan2", "hypot"))

# ---- float16: its bits, computed in float32, and rounded after each operation


@_inlined
def widen(half: Any) -> Any:
    """The float32 of a float16."""
    magnitude = (uint32(half) & uint32(0x7FFF)) << uint32(13)
    finite = same_bits(uint32(magnitude)) * float32(2.0**112)
    infinite = same_bits(uint32(magnitude | 0x7F800000))
    found = where_(uint32(magnitude) >= uint32(0x0F800000), infinite, finite)
    return where_(half >= uint16(0x8000), -found, found)


@_inlined
def narrow(value: Any) -> Any:
    """Rounds a float32 to the nearest float16, to even."""
    bits = int64(same_bits(value))
    magnitude = bits & 0x7FFFFFFF
    # A carry of the rounding goes into the exponent, and up to infinity. The unit of 0.5 is that of subnormal numbers.
    normal = (magnitude + 0xFFF + ((magnitude >> 13) & 1) - (112 << 23)) >> 13
    subnormal = int64(same_bits(float32(_fabs(value) + float32(0.5)))) - 0x3F000000
    found = where_(magnitude < 0x38800000, subnormal, where_(magnitude >= 0x47800000, int64(0x7C00), normal))
    found = where_(magnitude > 0x7F800000, int64(0x7E00), found)
    return uint16(found | ((bits >> 16) & 0x8000))


@_inlined
def narrow_double(value: Any) -> Any:
    """Rounds a float64 once: the float32 between has an odd last digit if it is not exact, so that no tie arises."""
    near = float32(value)
    bits = int64(same_bits(near))
    bits = where_(_fabs(float64(near)) > _fabs(value), bits - 1, bits)
    bits = where_(not_equal_(float64(near), value), bits | 1, bits)
    return narrow(same_bits(uint32(bits)))


# ---- what depends on the type


@_by_types
def truth(a: Any) -> Any:
    """Whether a number is not 0."""
    if isinstance(a, types.Boolean):
        return lambda a: a
    zero = a(0)
    return lambda a: not_equal_(a, zero)


@_by_types
def negative_(a: Any) -> Any:
    zero = a(0)
    return (lambda a: -a) if isinstance(a, types.Float) else (lambda a: subtract_(zero, a))


@_by_types
def absolute_(a: Any) -> Any:
    if isinstance(a, types.Float):
        return lambda a: _fabs(a)
    return (lambda a: where_(a < 0, negative_(a), a)) if _kind(a) == "signed" else (lambda a: a)


@_by_types
def sign_(a: Any) -> Any:
    zero, one, minus = a(0), a(1), a(-1 if _kind(a) != "unsigned" else 0)
    return lambda a: where_(greater_(a, zero), one, where_(less_(a, zero), minus, where_(equal_(a, zero), zero, a)))


@_by_types
def reciprocal_(a: Any) -> Any:
    one = a(1)
    return lambda a: one / a


@_by_types
def imag_(a: Any) -> Any:
    zero = a(0)
    return lambda a: zero


@_by_types
def isfinite_(a: Any) -> Any:
    zero = a(0)
    return (lambda a: equal_(a - a, zero)) if isinstance(a, types.Float) else (lambda a: True)


@_by_types
def signbit_(a: Any) -> Any:
    if isinstance(a, types.Float):
        lowest = (np.uint32 if a.bitwidth == 32 else np.uint64)(1 << (a.bitwidth - 1))
        return lambda a: same_bits(a) >= lowest
    return (lambda a: a < 0) if _kind(a) == "signed" else (lambda a: False)


@_by_types
def left_shift_(a: Any, b: Any) -> Any:
    zero, width = a(0), np.uint64(a.bitwidth)
    return lambda a, b: where_(uint64(b) < width, _shl(a, b), zero)


@_by_types
def right_shift_(a: Any, b: Any) -> Any:
    zero, width = a(0), np.uint64(a.bitwidth)
    if _kind(a) == "unsigned":
        return lambda a, b: where_(uint64(b) < width, _lshr(a, b), zero)
    minus = a(-1)
    return lambda a, b: where_(uint64(b) < width, _ashr(a, b), where_(a < zero, minus, zero))


@_by_types
def power_(a: Any, b: Any) -> Any:
    if isinstance(a, types.Float):
        return lambda a, b: _pow(a, b)
    one, shift = a(1), _lshr if _kind(a) == "unsigned" else _ashr

    def power(a: Any, b: Any) -> Any:
        result, base, exponent = one, a, b
        while exponent > 0:
            if bitwise_and_(exponent, one) != 0:
                result = multiply_(result, base)
            base = multiply_(base, base)
            exponent = shift(exponent, one)
        return result

    return power


@_by_types
def floor_divide_(a: Any, b: Any) -> Any:
    zero, one = a(0), a(1)
    if not isinstance(a, types.Float):
        return _division_of_integers(a, lambda a, b: a // b, lambda a: negative_(a))
    half = a(0.5)

    def divide(a: Any, b: Any) -> Any:
        if b == zero:
            return a / b
        rest = _fmod(a, b)
        whole = (a - rest) / b
        if rest != zero and (b < zero) != (rest < zero):
            whole -= one
        if whole == zero:
            return copysign_(zero, a / b)
        floored = floor_(whole)
        return floored + one if whole - floored > half else floored

    return divide


@_by_types
def remainder_(a: Any, b: Any) -> Any:
    zero = a(0)
    if not isinstance(a, types.Float):
        return _division_of_integers(a, lambda a, b: a % b, lambda a: zero)

    def divide(a: Any, b: Any) -> Any:
        rest = _fmod(a, b)
        if b == zero:
            return rest
        if rest == zero:
            return copysign_(zero, b)
        return rest + b if (b < zero) != (rest < zero) else rest

    return divide


def _division_of_integers(kind: Any, divide: Any, by_minus_one: Any) -> Any:
    """Python's: 0 by 0. The lowest number by -1, for which processors have no result, is itself."""
    zero, usual, special = kind(0), _inlined(divide), _inlined(by_minus_one)
    if _kind(kind) == "unsigned":
        return lambda a, b: zero if b == zero else kind(usual(a, b))
    minus = kind(-1)
    return lambda a, b: zero if b == zero else special(a) if b == minus else kind(usual(a, b))


# ---- what is the same for all types


def _extreme(is_first: Any) -> Any:
    return _inlined(lambda a, b: where_(not_equal_(a, a) | is_first(a, b), a, b))


def _extreme_of_numbers(is_first: Any) -> Any:
    return _inlined(lambda a, b: where_(not_equal_(b, b) | is_first(a, b), a, b))


def _clip(at_least: Any, at_most: Any) -> Any:
    return _inlined(lambda a, low, high: at_most(at_least(a, low), high))


# Of equal numbers, such as 0 and -0, NumPy takes the second one, but the first one of float16.
minimum_, maximum_, half_minimum_, half_maximum_ = map(_extreme, (less_, greater_, less_equal_, greater_equal_))
fmin_, fmax_, half_fmin_, half_fmax_ = map(_extreme_of_numbers, (less_, greater_, less_equal_, greater_equal_))
# NumPy's clip: of equal numbers the bound. With bounds that are no arrays, and of float16, the element.
clip_, half_clip_ = _clip(maximum_, minimum_), _clip(half_maximum_, half_minimum_)
clip_within_ = half_clip_within_ = half_clip_

positive_ = conjugate_ = complex_positive_ = _inlined(lambda a: a)
square_ = _inlined(lambda a: multiply_(a, a))
isnan_ = _inlined(lambda a: not_equal_(a, a))
isinf_ = _inlined(lambda a: not_(isfinite_(a)) & equal_(a, a))
logical_not_ = _inlined(lambda a: not_(truth(a)))
logical_and_ = _inlined(lambda a, b: truth(a) & truth(b))
logical_or_ = _inlined(lambda a, b: truth(a) | truth(b))
logical_xor_ = _inlined(lambda a, b: truth(a) ^ truth(b))

# Comparisons of int64 with uint64.
mixed_equal_ = _inlined(lambda a, b: (a >= 0) & (b >= 0) & (uint64(a) == uint64(b)))
mixed_not_equal_ = _inlined(lambda a, b: not_(mixed_equal_(a, b)))
mixed_less_ = _inlined(lambda a, b: (a < 0) | (b >= 0) & (uint64(a) < uint64(b)))
mixed_greater_ = _inlined(lambda a, b: mixed_less_(b, a))
mixed_less_equal_ = _inlined(lambda a, b: mixed_less_(a, b) | mixed_equal_(a, b))
mixed_greater_equal_ = _inlined(lambda a, b: mixed_less_(b, a) | mixed_equal_(a, b))

# ---- complex numbers; for products no rule about bits holds

complex_truth = _inlined(lambda a: (a.real != 0) | (a.imag != 0))
complex_add_ = _inlined(lambda a, b: complex(a.real + b.real, a.imag + b.imag))
complex_subtract_ = _inlined(lambda a, b: complex(a.real - b.real, a.imag - b.imag))
complex_negative_ = _inlined(lambda a: complex(-a.real, -a.imag))
complex_conjugate_ = _inlined(lambda a: complex(a.real, -a.imag))
complex_real_ = _inlined(lambda a: a.real)
complex_imag_ = _inlined(lambda a: a.imag)
complex_absolute_ = _inlined(lambda a: hypot_(a.real, a.imag))
complex_equal_ = _inlined(lambda a, b: (a.real == b.real) & (a.imag == b.imag))
complex_not_equal_ = _inlined(lambda a, b: not_(complex_equal_(a, b)))
complex_isnan_ = _inlined(lambda a: isnan_(a.real) | isnan_(a.imag))
complex_isfinite_ = _inlined(lambda a: isfinite_(a.real) & isfinite_(a.imag))
complex_isinf_ = _inlined(lambda a: isinf_(a.real) | isinf_(a.imag))


@_inlined
def complex_multiply_(a: Any, b: Any) -> Any:
    return complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


complex_square_ = _inlined(lambda a: complex_multiply_(a, a))


@_inlined
def complex_divide_(a: Any, b: Any) -> Any:
    """Divides first by the larger part of the divisor, as NumPy does, so that squares do not overflow."""
    re, im = _fabs(b.real), _fabs(b.imag)
    if (re == 0) & (im == 0):
        return complex(a.real / re, a.imag / im)
    if re >= im:
        ratio = b.imag / b.real
        scale = reciprocal_(b.real + b.imag * ratio)
        return complex((a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale)
    ratio = b.real / b.imag
    scale = reciprocal_(b.imag + b.real * ratio)
    return complex((a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale)


@_by_types
def complex_reciprocal_(a: Any) -> Any:
    one = a(1)
    return lambda a: complex_divide_(one, a)
