# SPDX-License-Identifier: MIT
"""Finds arrays of views that a kernel or host task keeps, though their memory belongs to others when it has returned.

The arrays of one view all refer, through their bases, to one array that the runtime makes for each call. When the call
returns, something still refers to that array if, and only if, somebody keeps an array of the view.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from celerity_py import _native
from celerity_py.calls.views import View, ViewPart
from celerity_py.reductions.partial_results import Reducer
from celerity_py.scheduler.errors import KeptArray

if TYPE_CHECKING:
    from celerity_py.vocabulary.submissions import Submission

#: Before an array counts as kept, its holder may be cyclic garbage of these generations,
_GENERATIONS: Final = (0, 1, 2)
#: or a thread that is about to let go of its work, or that was collecting garbage itself.
_PAUSES_S: Final = (1e-3, 1e-2, 0.1, 0.3)


class ReturnedView(View[Any]):
    """A view whose kernel or host task has returned."""

    __slots__ = ()

    #: Raises.
    array: Any = property(lambda view: view._refuse_late())

    def __getitem__(self, index: Any) -> NoReturn:
        self._refuse_late()

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        self._refuse_late()

    def _refuse_late(self) -> NoReturn:
        raise KeptArray(
            f"The view of {self._buffer.label} is used although {self._owner.describe()}, which it was made for, has "
            f"returned. Use views only inside of their task, and keep view[box].copy(); later, queue.fence() gives the "
            f"contents of a buffer."
        )


class ReturnedReducer(Reducer):
    """A reducer whose kernel has returned."""

    __slots__ = ()

    def combine(self, value: Any, places: Any = None) -> NoReturn:
        """Raises."""
        raise KeptArray(
            f"The reducer into {self._port.record.label} is used although {self._owner.describe()}, which it was made "
            f"for, has returned. Combine inside of the kernel."
        )

    def __repr__(self) -> str:
        return f"<reducer into {self._port.record.label}, after its kernel>"


def look_after(submission: Submission, arguments: list[Any], found: list[tuple[int, Any]]) -> None:
    """Make views and reducers that somebody keeps unusable, and refuse arrays that somebody keeps.

    Args:
        submission: The task whose function has returned.
        arguments: Those of the function, and the parts of its views.
        found: The arrays that `_native.release_views` has found; emptied.

    Raises:
        KeptArray: If an array of a view still exists.
    """
    bases: list[tuple[int, tuple[Any]]] = []
    while found:
        position, base = found.pop()
        argument = arguments[position]
        if not isinstance(argument, ViewPart):
            argument.__class__ = ReturnedView if isinstance(argument, View) else ReturnedReducer
        bases.append((position, (base,)))
        del base
    del argument
    kept = [position for position, holder in bases if holder[0] is not None and _is_kept(holder)]
    if not kept:
        return
    labels = sorted({_label_of(submission, arguments, position) for position in kept})
    raise KeptArray(
        f"{submission.describe()} keeps an array that it has taken from its view of {' and of '.join(labels)}: "
        f"something still refers to it, such as a variable outside of the function, a list, an object or a thread. "
        f"The memory belongs to others as soon as the function returns. Keep a copy: view[box].copy()."
    )


def _label_of(submission: Submission, arguments: list[Any], position: int) -> str:
    argument = arguments[position]
    return argument.label if isinstance(argument, ViewPart) else str(submission.args[position].record.label)


def _is_kept(holder: tuple[Any]) -> bool:
    is_referred_to = _native.is_referred_to
    for generation in _GENERATIONS:
        if not is_referred_to(holder, 0):
            return False
        gc.collect(generation)
    for pause_s in _PAUSES_S:
        if not is_referred_to(holder, 0):
            return False
        time.sleep(pause_s)
    gc.collect()
    return is_referred_to(holder, 0)
