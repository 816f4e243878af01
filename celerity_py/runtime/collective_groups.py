# SPDX-License-Identifier: MIT
"""Groups of collective host tasks, and their communicators."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from celerity_py._native import Box
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.parts import Part
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpi4py.MPI import Intracomm

    from celerity_py.executor.network.communicator import Communicator

# A task that waits for other ranks keeps a thread of the executor, which has more threads than this for host tasks.
# So on each rank some thread is left for the tasks that others wait for.
_MOST_GROUPS: Final = 32


class CollectiveGroup:
    """Collective host tasks that run one after the other, in the same order on all ranks."""

    def __init__(self, groups: CollectiveGroups, name: str | None, number: int, host_object: int, box: Box) -> None:
        self.name = name
        #: The number of earlier groups.
        self.number = number
        #: The number of the host object that orders the tasks.
        self.host_object = host_object
        #: The index space of the tasks: one item per rank.
        self.box = box
        #: Set by `connect`.
        self.comm: Intracomm | None = None
        self._groups = groups

    def connect(self) -> Intracomm:
        """The communicator of the group. Each rank's first task of the group makes it, together. Host-task thread.

        Raises:
            LaunchError: If there is a single rank, and no MPI library.
        """
        return self._groups.connect(self) if self.comm is None else self.comm


class CollectiveGroups:
    """The groups of a runtime.

    Args:
        size: The number of ranks.
        communicator: Connects them.
        numbers: Of host objects.
    """

    def __init__(self, size: int, communicator: Communicator, numbers: Iterator[int]) -> None:
        self._box = Box((0,), (size,))
        self._communicator = communicator
        self._numbers = numbers
        self._groups: dict[str | None, CollectiveGroup] = {}
        self._num_connected = 0
        self._turn = threading.Condition()

    def find(self, name: Any) -> CollectiveGroup:
        """The group of this name, or a new one; None is a name, too. Application thread.

        Raises:
            ArgumentTypeError: If the name is neither a string nor None.
            UsageError: If there are too many groups.
        """
        if name is not None and not isinstance(name, str):
            raise ArgumentTypeError(f"queue.collective(): group= takes a string or None, not {name!r}.")
        known = self._groups.get(name)
        if known is not None:
            return known
        number = len(self._groups)
        if number >= _MOST_GROUPS:
            raise UsageError(
                f"queue.collective(): group={name!r} is one more than the {_MOST_GROUPS} groups of a run. Tasks of one "
                f"group run one after the other: use as many groups as tasks that shall run at the same time."
            )
        return CollectiveGroup(self, name, number, next(self._numbers), self._box)

    def keep(self, group: CollectiveGroup) -> None:
        """Remember a group, which has a task now. Application thread."""
        self._groups.setdefault(group.name, group)

    def connect(self, group: CollectiveGroup) -> Intracomm:
        """Make the communicator of a group. Host-task thread.

        With several ranks the groups come in the order of their first tasks. MPI and mpi4py have locks for which
        threads of two ranks that connect different groups could wait for ever. The first task of an earlier group
        waits for no later one, so its turn comes.
        """
        with self._turn:
            if self._communicator.size > 1:
                self._turn.wait_for(lambda: self._num_connected >= group.number)
            if group.comm is None:
                group.comm = self._communicator.connect_group(group.number)
                self._num_connected += 1
                self._turn.notify_all()
            return group.comm


class CollectiveSubmission(Submission):
    """The entry of a collective host task."""

    __slots__ = ("group",)

    #: Set by the call that submits it.
    group: CollectiveGroup


class CollectivePart(Part):
    """The part of a collective host task: a `Part` with one item, the number of the rank.

    Valid during the call, on the thread that runs it.

    Attributes:
        box: The item of this rank: `Box((rank,), (rank + 1,))`.
        global_box: The whole index space, one item per rank.
        global_shape: `(size,)`.
        rank: The number of this process, from 0.
        size: The number of processes.
    """

    __slots__ = ("_group",)

    def __init__(self, box: Box, global_box: Box, rank: int, size: int, group: CollectiveGroup) -> None:
        super().__init__(box, global_box, rank, size)
        self._group = group

    @property
    def comm(self) -> Intracomm:
        """An mpi4py communicator of the group's own, with all ranks in their order. Do not free it.

        Use it in collective host tasks of the group only, where calls of it are collective as in any program with MPI.
        It lives until the runtime ends.

        Raises:
            LaunchError: If there is a single rank, and no MPI library.
        """
        return self._group.connect()
