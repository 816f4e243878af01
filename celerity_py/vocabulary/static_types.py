# SPDX-License-Identifier: MIT
"""Types by which type checkers and editors find mistakes: words, element types, and the arguments of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt
    import typing_extensions

    from celerity_py._native import Box

    #: The scalar type of an array's elements. Without one, `Buffer` means `Buffer[Any]`.
    Element = typing_extensions.TypeVar("Element", bound=np.generic, default=Any)
else:
    Element = TypeVar("Element", bound=np.generic)

#: Where a host task runs, if it has no index space.
HostTaskPlace: TypeAlias = Literal["once", "master"]
#: Which ranks get the result of a fence.
FenceRanks: TypeAlias = Literal["all", "master"]
#: Where the result of a fence lies.
FencePlace: TypeAlias = Literal["host", "device"]
NeighborhoodShape: TypeAlias = Literal["box", "axes"]
#: The source of elements outside of the buffer in `View.padded`.
PaddingMode: TypeAlias = Literal["constant", "edge", "wrap"]
#: The operations of `celerity.reduction`, as `operations.OPERATIONS` and `combinations.PLACED` have them.
ReductionName: TypeAlias = Literal["sum", "prod", "min", "max", "and", "or", "xor", "argmin", "argmax"]


class PlainValue(Protocol):
    """Any object but host objects and those that stand for arrays, which lack this method for type checkers."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]: ...


class SupportsDLPack(Protocol):
    """An array of any library that offers DLPack."""

    def __dlpack_device__(self) -> tuple[Any, Any]: ...


#: The boxes of one rank with their contents, for `Buffer.from_local`.
LocalParts: TypeAlias = (
    "Mapping[Box, npt.ArrayLike | SupportsDLPack] | Iterable[tuple[Box, npt.ArrayLike | SupportsDLPack]]"
)
