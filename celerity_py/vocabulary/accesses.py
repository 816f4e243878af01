# SPDX-License-Identifier: MIT
"""Accesses: the arguments of kernels that buffers make of range mappers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from celerity_py import _native, access
from celerity_py._native import AccessRecord, Box, PortRecord, RangeMapper, Region
from celerity_py.access import PureMapper
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.refused_operators import StandsForArray

Mapper: TypeAlias = "RangeMapper | Callable[..., Any] | PureMapper"

MODE_NAMES: Final[tuple[str, ...]] = _native.ACCESS_MODES
READ, WRITE, READ_WRITE = (MODE_NAMES.index(name) for name in ("read", "write", "read_write"))


_kinds: dict[tuple[Any, ...], int] = {}


def kind_of(*what: Any) -> int:
    """A number for equal values of `what`: a small key for look-ups at every submit."""
    return _kinds.setdefault(what, len(_kinds))


class Port(PortRecord):
    """One buffer in one access mode: the part of an access that the submission keeps."""

    __slots__ = ()

    def __init__(self, record: BufferRecord, mode: int, *, wraps: bool = False) -> None:
        self.record = record
        self.buffer_id = record.id
        self.mode = mode
        self.runtime = record.runtime
        #: Equal for accesses that fit the same kernels.
        self.kind = kind_of(mode, record.dtype, len(record.shape), wraps)
        if not wraps:
            #: Takes the place of this port in accesses whose mapper wraps.
            self.periodic = Port(record, mode, wraps=True)

    @property
    def wraps(self) -> bool:
        """Whether the access goes on at the opposite side of the buffer."""
        return not hasattr(self, "periodic")


class Access(StandsForArray, AccessRecord):
    """An argument of a kernel or host task: a buffer, how it is accessed, and where.

    `buffer.read(mapper)`, `write` and `read_write` make it, on any thread. Only the submit is collective.

    Attributes:
        buffer: The buffer, which lives at least as long as the access.
        mapper: The range mapper as it was given.
    """

    __slots__ = ()

    def __init__(self, buffer: Any, mapper: Mapper, port: Port) -> None:
        self.buffer = buffer  # from the submit on, the graphs keep it alive
        self.mapper = mapper
        self.port = port

    def _explain(self, use: str) -> str:
        return explain_argument(self, use)

    def __repr__(self) -> str:
        return f"<{MODE_NAMES[self.port.mode]} access to {self.port.record.label} by {describe(self.mapper)}>"


class CustomAccess(Access):
    """An access whose mapper is a Python callable, to be evaluated at submit."""

    __slots__ = ()


def explain_argument(argument: Any, use: str) -> str:
    """Word the error for a use of an access or reduction as an array."""
    return (
        f"{argument!r} is {use}, but it is an argument for a task. Pass it to queue.parallel_for(): the kernel gets an "
        f"object in its place with which it reaches the contents."
    )


#: `Access(buffer, mapper, port)`, without a call of `__init__`: buffers make several for each submit.
new_access: Callable[[Any, RangeMapper, Port], Access] = _native.access_maker(Access)


def describe(mapper: Mapper) -> str:
    """The mapper as the user would write it."""
    if isinstance(mapper, RangeMapper):
        return mapper.describe()
    if isinstance(mapper, PureMapper):
        return f"pure({describe(mapper.function)})" if mapper.rows is None else repr(mapper.rows)
    name = getattr(mapper, "__qualname__", None) or type(mapper).__qualname__
    return f"the mapper {name}"


#: By identity, as each access by a callable asks. Functions of a module live on.
_FACTORIES: Final = frozenset(map(id, access.FACTORIES))


def check_mapper(mapper: Any, record: BufferRecord, mode: int) -> None:
    """Refuse values that are no mapper for an access of this mode to a buffer.

    Raises:
        ArgumentTypeError: If it is neither a built-in mapper nor a callable.
        UsageError: If it gathers rows with gaps, but the access writes.
    """
    if isinstance(mapper, PureMapper):
        if mapper.rows is not None and mode != READ and not mapper.rows.is_exact:
            raise UsageError(
                f"The {MODE_NAMES[mode]} access to {record.label} has the mapper {mapper!r}, which also covers rows "
                f"between those that it lists. To write exactly the rows in the list, pass gap=0."
            )
        return
    if id(mapper) in _FACTORIES:
        raise ArgumentTypeError(
            f"access.{mapper.__name__} makes a mapper, it is none itself: call it in the access to {record.label}, "
            f"as in access.{mapper.__name__}(...)."
        )
    if isinstance(mapper, Box | Region | slice | tuple):
        raise ArgumentTypeError(
            f"The access to {record.label} needs a mapper, not {mapper!r}: write access.fixed({mapper!r})."
        )
    if not callable(mapper):
        raise ArgumentTypeError(
            f"The access to {record.label} needs a mapper such as access.one_to_one(), or a callable (chunk) or "
            f"(chunk, buffer_shape) that returns a Box, not {mapper!r}."
        )
