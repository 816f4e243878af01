# SPDX-License-Identifier: MIT
"""Reads the parameters of CUDA kernels out of their source, to check arguments before anything is compiled."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from celerity_py.reductions.combinations import PLACED, VALUE, is_placed, num_dims_of_place, placed
from celerity_py.reductions.operations import BY_DEVICE_TYPE
from celerity_py.scheduler.errors import UsageError

_INTEGER_WORDS: Final = {"signed", "unsigned", "char", "short", "int", "long"}
_COMPLEX: Final = {"float": "complex64", "double": "complex128"}
#: The C++ type for each dtype.
SPELLINGS: Final = {
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "__half",
    "float32": "float",
    "float64": "double",
    "complex64": "float2",
    "complex128": "double2",
}
_NAMED: Final = {
    **{spelling: dtype for dtype, spelling in SPELLINGS.items()},
    "half": "float16",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "cuComplex": "complex64",
    "cuFloatComplex": "complex64",
    "cuDoubleComplex": "complex128",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

# Text that looks like code: comments, strings (raw ones, too), and characters, but not the ' in 1'000.
_NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_ALIASES = (
    re.compile(r"\busing\s+(\w+)\s*=\s*([^;{}]+);"),
    re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S[^\n]*)$", re.MULTILINE),
    re.compile(r"\b(?:constexpr|const)\s+(?:static\s+)?(?:int|unsigned|long)\s+(\w+)\s*=\s*(\d+)\s*;"),
)
_TYPEDEF = re.compile(r"\btypedef\s+([^;{}()]+?)\s*\b(\w+)\s*;")
_WORD = re.compile(r"\s*([A-Za-z_]\w*)")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__|struct|typename|class)\b")
_ELEMENT = re.compile(r"element\s*<(.*)>", re.DOTALL)
_PLACED = re.compile(r"placed\s*<(.*)>", re.DOTALL)
_NAMESPACES = re.compile(r"(?<![\w:])(?:::\s*)?(?:(?:std|cuda|thrust|celerity)\s*::\s*)+|(?<![\w:])::\s*")
_OURS = re.compile(r"^(chunk|accessor|reducer|ordered_reducer)\s*<(.*)>\s*(\w*)$", re.DOTALL)
_OPERATIONS: Final = BY_DEVICE_TYPE | {name: name for name in PLACED}
_MOST_ALIASES = 8  # one after the other; more are a circle


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    kind: str  # "chunk", "accessor", "reducer", "ordered_reducer" or "scalar"
    name: str
    text: str  # as it is written, on one line
    dims: int = 0  # of chunks, accessors, and reducers, where 0 stands for one element
    element: str = ""  # the C++ type, aliases replaced
    dtype: np.dtype[Any] | None = None  # None: a type of the user's own
    is_const: bool = False
    op: str = ""  # of reducers, as in `celerity.reduction`
    wraps: bool = False  # of accessors


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel; the first one is its chunk."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def dims(self) -> int:
        """Dimensions of the index space."""
        return self.parameters[0].dims

    def __str__(self) -> str:
        return f"{self.name}({', '.join(parameter.text for parameter in self.parameters)})"


def parse_signature(source: str, name: str, who: str) -> Signature:
    """Find a kernel in its source.

    Args:
        source: CUDA C++.
        name: The function, possibly with namespaces in front.
        who: The subject of error messages.

    Raises:
        UsageError: If there is no such kernel, or if its parameters are none of accessors, reducers and plain values.
    """
    code = _NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    short_name = name.rpartition("::")[2]
    found = _find_kernels(code)
    lists = [text for kernel, text, _ in found if kernel == short_name]
    if not lists:
        others = sorted({kernel for kernel, _, _ in found})
        there = f"It has {', '.join(others)}." if others else "It has no __global__ function at all."
        raise UsageError(f"{who}: the source defines no kernel `__global__ void {short_name}(...)`. {there}")
    if any(" ".join(text.split()) != " ".join(lists[0].split()) for text in lists):
        raise UsageError(f"{who}: the source defines {short_name} more than once, with different parameters.")
    if any(is_template for kernel, _, is_template in found if kernel == short_name):
        raise UsageError(f"{who}: {short_name} is a template. Write a kernel with definite types that calls it.")
    aliases = _find_aliases(code)
    parameters = tuple(_parse_parameter(text, aliases, who) for text in _split(lists[0]) if text.strip() != "void")
    if not parameters or parameters[0].kind != "chunk":
        first = f"not {parameters[0].text}" if parameters else "but there is none"
        raise UsageError(f"{who}: its first parameter must be a celerity::chunk<D>, {first}.")
    if any(parameter.kind == "chunk" for parameter in parameters[1:]):
        raise UsageError(f"{who}: it has more than one celerity::chunk.")
    return Signature(name, parameters)


def dtype_of(text: str) -> np.dtype[Any] | None:
    """The dtype of a C++ type, or None if it is none that NumPy has."""
    plain = _NAMESPACES.sub("", _QUALIFIERS.sub(" ", text)).strip()
    words = plain.split()
    if words and all(word in _INTEGER_WORDS for word in words):
        sign = "u" if "unsigned" in words else ""
        bits = next((bits for word, bits in (("char", 8), ("short", 16), ("long", 64)) if word in words), 32)
        return np.dtype(f"{sign}int{bits}")
    if plain in _NAMED:
        return np.dtype(_NAMED[plain])
    complex_type = re.fullmatch(r"complex\s*<\s*(float|double)\s*>", plain)
    if complex_type:
        return np.dtype(_COMPLEX[complex_type[1]])
    pair = _PLACED.fullmatch(plain)
    if pair:
        return _placed_dtype(*map(str.strip, _split(pair[1])))
    element = _ELEMENT.fullmatch(plain)
    return _element_dtype(*map(str.strip, _split(element[1]))) if element else None


def _element_dtype(number: str = "", *extents: str) -> np.dtype[Any] | None:
    """The dtype of `celerity::element<number, extents...>`."""
    dtype = dtype_of(number)
    if dtype is None or not extents or not all(re.fullmatch(r"[1-9]\d{0,8}", extent) for extent in extents):
        return None
    shape = tuple(map(int, extents))
    return np.dtype((dtype, shape)) if math.prod(shape) * dtype.itemsize < 2**31 else None


def _placed_dtype(number: str = "", dims: str = "1") -> np.dtype[Any] | None:
    """The dtype of `celerity::placed<number, dims>`."""
    dtype = dtype_of(number)
    if dtype is None or dtype.kind not in "biuf" or dtype.shape or dims not in {"1", "2", "3"}:
        return None
    return placed(dtype, int(dims))


def spelling_of(dtype: np.dtype[Any]) -> str | None:
    """The C++ type of the elements of a buffer, or None if the program has to write one."""
    if is_placed(dtype) and dtype == placed(dtype[VALUE], num_dims_of_place(dtype)):
        return f"celerity::placed<{SPELLINGS[dtype[VALUE].name]}, {num_dims_of_place(dtype)}>"
    number = SPELLINGS.get(dtype.base.name) if dtype.base.isnative else None
    if number is None or not dtype.shape:
        return number
    return f"celerity::element<{', '.join([number, *map(str, dtype.shape)])}>"


def _find_kernels(code: str) -> list[tuple[str, str, bool]]:
    """Of everything that is `__global__`: name, parameter list, and whether it is a template."""
    found = []
    for start in re.finditer(r"\b__global__\b", code):
        position = start.end()
        before = re.split(r"[;{}]", code[: start.start()])[-1]
        while (word := _WORD.match(code, position)) is not None:
            position = word.end()
            bracket = re.compile(r"\s*\(").match(code, position)
            if bracket is None:
                continue  # void, or an attribute without arguments
            end = _closing(code, bracket.end() - 1)
            if not word[1].startswith("__") and word[1] not in {"alignas", "decltype"}:
                found.append((word[1], code[bracket.end() : end], re.search(r"\btemplate\b", before) is not None))
                break
            position = end + 1  # __launch_bounds__(...) and the like
    return found


def _closing(code: str, opening: int) -> int:
    """Position of the bracket that closes the one at `opening`."""
    depth = 0
    for position in range(opening, len(code)):
        depth += (code[position] == "(") - (code[position] == ")")
        if depth == 0:
            return position
    return len(code)


def _split(text: str) -> list[str]:
    """Split a text at the commas outside of brackets."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if len(parts) > 1 or parts[0].strip() else []


def _find_aliases(code: str) -> dict[str, str]:
    found = {match[1]: match[2].strip() for pattern in _ALIASES for match in pattern.finditer(code)}
    found |= {match[2]: match[1].strip() for match in _TYPEDEF.finditer(code)}
    return found


def _resolve(text: str, aliases: dict[str, str]) -> str:
    for _ in range(_MOST_ALIASES):
        resolved = re.sub(r"[A-Za-z_]\w*", lambda match: aliases.get(match[0], match[0]), text)
        if resolved == text:
            break
        text = resolved
    return text


def _parse_parameter(written: str, aliases: dict[str, str], who: str) -> Parameter:
    text = " ".join(written.split())
    declaration = re.sub(r"\s*=[^=<>]*$", "", text)  # without a default
    bare = " ".join(_NAMESPACES.sub("", _QUALIFIERS.sub(" ", declaration)).split())
    ours = _OURS.match(bare)
    if ours is not None:
        # With the qualifiers that are inside of the brackets.
        inside = declaration[declaration.index("<") + 1 : declaration.rindex(">")]
        return _parse_ours(ours, text, [part.strip() for part in _split(inside)], aliases, who)
    if any(character in declaration for character in "*&["):
        raise UsageError(
            f"{who}: the parameter `{text}` is a pointer, a reference or an array. Buffers are accessors, such as "
            f"celerity::accessor<float, 2>, and everything else is passed by value."
        )
    named = None if dtype_of(_resolve(bare, aliases)) is not None else re.fullmatch(r"(.*?)\s*\b(\w+)", bare)
    element, name = (named[1], named[2]) if named else (bare, "")
    resolved = _resolve(element, aliases)
    dtype = dtype_of(resolved)
    if dtype is None or dtype.shape or dtype.names is not None:
        known = "bool, the integer types, float, double, __half, float2, double2 and complex<...>"
        raise UsageError(f"{who}: the parameter `{text}` has a type that no argument converts to. There are {known}.")
    return Parameter("scalar", name, text, element=resolved, dtype=dtype)


def _parse_ours(match: re.Match[str], text: str, given: list[str], aliases: dict[str, str], who: str) -> Parameter:
    kind, name = match[1], match[3]
    expected = {"chunk": "D", "accessor": "T, D", "reducer": "T, Op, D", "ordered_reducer": "T, Op"}[kind]
    if kind == "ordered_reducer" or (kind == "reducer" and len(given) == 2):
        given = [*given, "0"]
    wraps = kind == "accessor" and len(given) == 3 and _NAMESPACES.sub("", _resolve(given[2], aliases)) == "wrap"
    if wraps:
        del given[2]
    if len(given) != len(expected.split()) + (kind == "ordered_reducer"):
        optional = " or celerity::reducer<T, Op>" if kind == "reducer" else ""
        raise UsageError(f"{who}: the parameter `{text}` is no celerity::{kind}<{expected}>{optional}.")
    number = _resolve(given[-1], aliases)
    if number not in {"0", "1", "2", "3"}:
        raise UsageError(f"{who}: the parameter `{text}` needs a number of dimensions from 0 to 3, not {given[-1]}.")
    if kind == "chunk":
        return Parameter(kind, name, text, int(number))
    element, is_const = _parse_element(given[0], aliases)
    if kind == "accessor":
        return Parameter(kind, name, text, int(number), element, dtype_of(element), is_const, wraps=wraps)
    operation = _NAMESPACES.sub("", given[1])
    if operation not in _OPERATIONS:
        known = ", ".join(f"celerity::{known}" for known in _OPERATIONS)
        raise UsageError(f"{who}: the parameter `{text}` needs one of {known}, not {given[1]}.")
    return Parameter(kind, name, text, int(number), element, dtype_of(element), op=_OPERATIONS[operation])


def _parse_element(text: str, aliases: dict[str, str]) -> tuple[str, bool]:
    resolved = _resolve(text, aliases)
    return " ".join(_QUALIFIERS.sub(" ", resolved).split()), re.search(r"\bconst\b", resolved) is not None
