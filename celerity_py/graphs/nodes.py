# SPDX-License-Identifier: MIT
"""The nodes of graphs, with their labels, accesses and dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from celerity_py._native import Box, Region
from celerity_py.vocabulary.notation import label_of_buffer, show

_MAX_BOXES: Final = 4
#: By kind of dependency: what the earlier and the later node do with the same elements.
_VERBS: Final = {"true": ("writes", "reads"), "anti": ("reads", "writes"), "output": ("writes", "writes")}


def show_part(where: Region) -> str:
    """A region in a label: `[0:128, 64:65]`, and only the bounds of one with many boxes."""
    boxes = where.boxes
    if len(boxes) <= _MAX_BOXES:
        return show(where) if boxes else "nothing"
    return f"{len(boxes)} boxes in {show(where.bounding_box)}"


class NamedBuffer(NamedTuple):
    """A buffer, as labels call it."""

    id: int
    name: str
    dims: int

    def __str__(self) -> str:
        return label_of_buffer(self.id, self.name)

    def __repr__(self) -> str:
        return f"<{self}>"


class Access(NamedTuple):
    """A part of a buffer that a node reads or writes."""

    #: "reads" or "writes".
    verb: str
    buffer: NamedBuffer
    where: Region

    def __str__(self) -> str:
        return f"{self.verb} {self.buffer} {show_part(self.where)}"

    def __repr__(self) -> str:
        return f"<{self}>"


class Dependency(NamedTuple):
    """A node comes after another one."""

    #: The key of the other node.
    on: str
    #: "true", "anti", "output", "side effect", "order", "memory" or "transfer".
    kind: str
    #: The buffers that both access, if the nodes know their accesses.
    buffers: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """That of the other instruction or task."""
        return int(self.on[1:])

    def __str__(self) -> str:
        about = f": {', '.join(self.buffers)}" if self.buffers else ""
        return f"{self.on} ({self.kind}{about})"

    def __repr__(self) -> str:
        return f"<after {self}>"


@dataclass(frozen=True, repr=False)
class Node:
    """A node of a graph."""

    #: Unique in its graph: "T7", "C12" or "R1.C12", "I42".
    key: str
    #: Such as "device_kernel", "push" or "copy".
    kind: str
    #: The number of its task.
    task: int
    #: Its first line, such as `T7 "wave_step"`.
    label: str
    #: Further lines: its parts and accesses.
    lines: tuple[str, ...]
    #: The nodes before it.
    dependencies: tuple[Dependency, ...]
    accesses: tuple[Access, ...] = ()

    def __repr__(self) -> str:
        after = f"; after {', '.join(map(str, self.dependencies))}" if self.dependencies else ""
        return f"<{'; '.join([self.label, *self.lines])}{after}>"


@dataclass(frozen=True, repr=False)
class TaskNode(Node):
    """A task: the same on all ranks."""

    #: The number of horizons up to this task.
    num_horizons: int = 0
    #: As the program calls it; empty for horizons and fences.
    name: str = ""
    #: The number of its submit; 0 for horizons.
    submission: int = 0


@dataclass(frozen=True, repr=False)
class CommandNode(Node):
    """A command of one rank."""

    rank: int = 0
    #: Of a push and of the commands that receive: (task, buffer, reduction), the same on both sides.
    transfer: tuple[int, int, int] | None = None
    #: Of a push: the ranks that receive.
    targets: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class InstructionNode(Node):
    """An instruction of this rank."""

    #: Why it exists.
    why: str = ""

    @property
    def number(self) -> int:
        """As in its key."""
        return int(self.key[1:])


def to_box(flat: Sequence[int], dims: int) -> Box:
    """The box of a record, which always has three coordinates, as the program knows it."""
    return Box(flat[:dims], flat[3 : 3 + dims])


def to_region(boxes: Sequence[Sequence[int]], dims: int) -> Region:
    """The region of a record."""
    return Region([to_box(flat, dims) for flat in boxes])


def with_buffers(dependency: Dependency, earlier: Sequence[Access], later: Sequence[Access]) -> Dependency:
    """The dependency with the buffers that are its reason."""
    verbs = _VERBS.get(dependency.kind)
    if verbs is None:
        return dependency
    shared = {
        str(a.buffer): None
        for a in earlier
        for b in later
        if (a.verb, b.verb) == verbs and a.buffer.id == b.buffer.id and a.where & b.where
    }
    return dependency._replace(buffers=tuple(shared))
