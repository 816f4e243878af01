# SPDX-License-Identifier: MIT
"""Host objects: objects of the program that host tasks share, in program order."""

from __future__ import annotations

import sys
from typing import Generic, TypeVar

from celerity_py.runtime import lifecycle
from celerity_py.scheduler.errors import ArgumentTypeError
from celerity_py.vocabulary.notation import printable
from celerity_py.vocabulary.refused_operators import IsHandle
from celerity_py.vocabulary.side_effects import SideEffect
from celerity_py.vocabulary.submissions import Site

Object = TypeVar("Object")


class HostObject(IsHandle, Generic[Object]):
    """An object of the program, such as an open file or a model, that host tasks use one after the other.

    Host tasks that take `side_effect()` of the same host object run in program order on each rank, and get the object.
    Other tasks run beside them. Collective: every rank makes the same host objects in the same order, each around an
    object of its own; a rank without one passes None. The object lives until the last task that uses it has ended,
    and the last reference to the host object is gone. Any thread may drop that reference.

    Args:
        obj: The object. From now on only host tasks use it, until a fence of the host object returns it.

    Raises:
        ArgumentTypeError: If `obj` is a host object.
        UsageError: If called inside of a function that is being recorded.
        NestedUse: If called inside of a kernel, host task, mapper or callback.
        CelerityError: If an earlier task failed.
    """

    __slots__ = ("__weakref__", "id", "obj", "runtime", "site")

    def __init__(self, obj: Object) -> None:
        if isinstance(obj, HostObject):
            raise ArgumentTypeError(f"celerity.HostObject() takes an object of the program, not {obj!r}.")
        self.runtime = lifecycle.current()
        self.id = self.runtime.number_host_object()
        self.obj = obj
        self.site = Site(sys._getframe(1))

    def side_effect(self) -> SideEffect:
        """An argument for a host task that uses the object, and may change it. The task gets the object itself."""
        return SideEffect(self)

    @property
    def label(self) -> str:
        """Id and type, as in `H3 (list)`."""
        return f"H{self.id} ({printable(type(self.obj).__name__)})"

    def __repr__(self) -> str:
        return f"<HostObject {self.label}>"
