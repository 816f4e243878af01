# SPDX-License-Identifier: MIT
"""Types by which type checkers and editors find mistakes: words, element types, and the arguments of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    import typing_extensions

    from celerity_py.reductions import Reduction
    from celerity_py.vocabulary.accesses import Access

    #: The scalar type of an array's elements. Without one, `Buffer` means `Buffer[Any]`.
    Element = typing_extensions.TypeVar("Element", bound=np.generic, default=Any)
else:
    Element = TypeVar("Element", bound=np.generic)

#: Where a host task runs, if it has no index space.
HostTaskPlace: TypeAlias = Literal["once", "master"]
#: Which ranks get the result of a fence.
FenceRanks: TypeAlias = Literal["all", "master"]
NeighborhoodShape: TypeAlias = Literal["box", "axes"]
#: What `View.padded` takes for elements outside of the buffer.
PaddingMode: TypeAlias = Literal["constant", "edge", "wrap"]
#: The operations of `celerity.reduction`, as `operations.OPERATIONS` has them.
ReductionName: TypeAlias = Literal["sum", "prod", "min", "max", "and", "or", "xor"]


class PlainValue(Protocol):
    """Any object but host objects and those that stand for arrays, which lack this method for type checkers."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]: ...


class SupportsDLPack(Protocol):
    """An array of any library that offers DLPack."""

    def __dlpack_device__(self) -> tuple[Any, Any]: ...


#: What a task takes. Type checkers find a bare buffer, a future and a host object among the arguments.
Argument: TypeAlias = "Access | Reduction | PlainValue | None"
