# SPDX-License-Identifier: MIT
"""The parts of an index space that kernels, host tasks and range mappers get. Boxes have global coordinates."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NoReturn

from celerity_py._native import Box
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.refused_operators import refuse_operators

_BOX_ATTRIBUTES: Final = frozenset(name for name in dir(Box) if not name.startswith("_"))


class IndexSpacePart:
    """A part of an index space: its box, and that of the whole index space."""

    __slots__ = ("box", "global_box")
    #: The name of such a part in messages.
    noun: ClassVar = "part"

    def __init__(self, box: Box, global_box: Box) -> None:
        self.box = box
        self.global_box = global_box

    @property
    def global_shape(self) -> tuple[int, ...]:
        """Extents of the whole index space."""
        return self.global_box.shape

    def __getitem__(self, index: Any) -> NoReturn:
        self._refuse_operator("[]")

    def __bool__(self) -> bool:
        return True  # without it, conditions would ask for the length

    def _refuse_operator(self, symbol: str) -> NoReturn:
        raise ArgumentTypeError(
            f"{self!r} is no array, number or sequence of indices, but the function uses it as an operand of {symbol}. "
            f"Its attribute .box is a box of indices: compute on arrays, as in view[chunk.box], or loop over "
            f"chunk.box.indices(), which gives each index as a tuple and is slow."
        )

    def _explain_missing(self, name: str) -> str:
        if name not in _BOX_ATTRIBUTES:
            return ""
        return f"{self!r} has no .{name}, but its box does: write .box.{name}, in global coordinates."

    def __repr__(self) -> str:
        return f"<part {self.box} of {self.global_box}>"


refuse_operators(IndexSpacePart, IndexSpacePart._refuse_operator, equality=False, truth=False)


class Part(IndexSpacePart):
    """The part of the index space that one call of a host task runs.

    Valid during the call, on the thread that runs it.

    Attributes:
        box: The share of this call, in global coordinates; `Box((), ())` for tasks that run once.
        global_box: The whole index space.
        global_shape: Extents of the whole index space, in items.
        rank: The number of this process, from 0.
        size: The number of processes.
    """

    __slots__ = ("rank", "size")

    def __init__(self, box: Box, global_box: Box, rank: int, size: int) -> None:
        super().__init__(box, global_box)
        self.rank = rank
        self.size = size

    def _explain_missing(self, name: str) -> str:
        if name == "comm":
            return f"{self!r} has no communicator. Submit the function with queue.collective(fn, ...)."
        return super()._explain_missing(name)


class MapperChunk(IndexSpacePart):
    """The argument of a range mapper written in Python: the whole index space, or a part of it.

    Mappers run on the thread that submits.

    Attributes:
        box: The part, in global coordinates.
        global_box: The whole index space.
        global_shape: Extents of the whole index space, in items.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<chunk {self.box} of {self.global_box}>"


def check_dimension(box: Box, dim: int) -> None:
    """Refuse the dimension of `chunk.index` if the box has none of this number.

    Raises:
        UsageError: If it has none.
    """
    if not 0 <= dim < box.ndim:
        dims = f"the dimensions 0 to {box.ndim - 1}" if box.ndim else "no dimension"
        raise UsageError(f"chunk.index({dim}): the box {show(box)} has {dims}.")


class Chunk(IndexSpacePart):
    """The part of the index space that one call of a kernel runs.

    Valid during the call, on the thread that runs it.

    Attributes:
        box: The share of this call, in global coordinates; `Box((), ())` if the kernel runs once.
        global_box: The whole index space.
        global_shape: Extents of the whole index space, in items.
        device: The index of the device within its rank, from 0.
        stream: The current CUDA stream during the call, of CuPy; None on CPU devices.
        xp: The array module of the views: NumPy on CPU devices, CuPy on GPUs.
    """

    __slots__ = ("device", "stream", "xp")
    noun = "chunk"

    def __init__(self, box: Box, global_box: Box, device: int, stream: Any, xp: Any) -> None:
        self.box = box  # each call of a kernel makes a chunk: one call fewer
        self.global_box = global_box
        self.device = device
        self.stream = stream
        self.xp = xp

    def index(self, dim: int, box: Box | None = None) -> Any:
        """The coordinate of each item of a box in one dimension, as an array of int64 of the box's shape.

        Args:
            dim: The dimension, from 0.
            box: In global coordinates; by default the chunk's.

        Raises:
            UsageError: If there is no such dimension.
        """
        whole = self.box if box is None else box
        check_dimension(whole, dim)
        line = self.xp.arange(whole.min[dim], whole.max[dim], dtype="int64")
        extents = [1] * whole.ndim
        extents[dim] = -1
        return self.xp.broadcast_to(line.reshape(extents), whole.shape)

    def __repr__(self) -> str:
        return f"<chunk {self.box} of {self.global_box} on device {self.device}>"
