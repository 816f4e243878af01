# SPDX-License-Identifier: MIT
"""Arguments of tasks that are no accesses: arrays are copied at the submit, and unusable values are refused.

A task runs later than its submit. It must see the values that its arguments had at the submit, on every rank.
"""

from __future__ import annotations

import copy
import dataclasses
from itertools import islice
from types import FunctionType, MethodType
from typing import Any, Final

import numpy as np

from celerity_py import access
from celerity_py._native import RangeMapper
from celerity_py.access import PureMapper
from celerity_py.buffer import Buffer
from celerity_py.calls.views import View
from celerity_py.hints import Hint
from celerity_py.host_objects import HostObject
from celerity_py.reductions.partial_results import Reducer
from celerity_py.reductions.reduction import Reduction
from celerity_py.runtime.futures import Future
from celerity_py.scheduler.errors import ArgumentTypeError
from celerity_py.vocabulary.accesses import Access
from celerity_py.vocabulary.foreign_arrays import is_foreign, lies_on_gpu, to_numpy
from celerity_py.vocabulary.frozen_arrays import frozen
from celerity_py.vocabulary.parameters import Parameter
from celerity_py.vocabulary.refused_operators import IsHandle
from celerity_py.vocabulary.side_effects import SideEffect

_MOST_LOOKED_AT: Final = 64  # items of a list: one with accesses is short
_COLLECTIONS: Final = (list, dict, set, frozenset)

#: Types whose values never change. The types live as long as the interpreter.
PLAIN_TYPES: Final[frozenset[type]] = frozenset({bool, int, float, complex, str}).union(
    np.dtype(code).type for code in "?" + np.typecodes["AllInteger"] + np.typecodes["AllFloat"]
)
#: Types whose values are passed on as they are.
accepted: set[type] = set(PLAIN_TYPES)


def settle(value: Any, who: str) -> Any:
    """The value that a task gets for a plain argument: itself, or a read-only copy if it is or holds an array.

    Arrays are copied if they are the argument itself, or lie in a tuple or in a frozen dataclass. Those of other
    libraries become arrays of NumPy. Lists, dictionaries and other objects are shared with the task.

    Args:
        value: The argument.
        who: The task, as the subject of a message.

    Raises:
        ArgumentTypeError: If no task can use it.
    """
    kind = value.__class__
    if isinstance(value, np.ndarray):
        return frozen(value)
    if isinstance(value, tuple):
        return _settle_tuple(value, who)
    if is_foreign(kind):
        _refuse_unusable(value, who)
        return frozen(to_numpy(value, f"{who} got"))
    if getattr(kind, "__dataclass_params__", None) is not None:
        return _settle_dataclass(value, who)
    if isinstance(value, _COLLECTIONS):
        for item in islice(value.values() if isinstance(value, dict) else value, _MOST_LOOKED_AT):
            _refuse_inside(item, f"a {kind.__name__}", who)
    elif kind is MethodType or kind is FunctionType:
        _refuse_uncalled(value, who)
    else:
        _refuse_unusable(value, who)
        accepted.add(kind)
    return value


def _settle_tuple(value: tuple[Any, ...], who: str) -> Any:
    items = []
    for item in value:
        _refuse_inside(item, "a tuple", who)
        items.append(item if item.__class__ in accepted else settle(item, who))
    if all(a is b for a, b in zip(items, value, strict=True)):
        return value
    return tuple.__new__(value.__class__, items)


def _settle_dataclass(value: Any, who: str) -> Any:
    _refuse_unusable(value, who)
    fields = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    for name in fields:
        _refuse_inside(getattr(value, name), f"a {type(value).__name__}", who)
    if not value.__dataclass_params__.frozen:
        return value
    settled = {name: settle(getattr(value, name), who) for name in fields}
    if all(getattr(value, name) is item for name, item in settled.items()):
        return value
    result = copy.copy(value)
    for name, item in settled.items():
        object.__setattr__(result, name, item)
    return result


def _refuse_inside(item: Any, container: str, who: str) -> None:
    if isinstance(item, Access | Reduction):
        raise ArgumentTypeError(
            f"{who} got {item!r} inside of {container}. The runtime sees accesses and reductions only if each is an "
            f"argument of its own: write parallel_for(shape, kernel, *accesses)."
        )
    if not isinstance(item, np.ndarray | tuple):
        _refuse_unusable(item, who)


def _refuse_uncalled(value: Any, who: str) -> None:
    owner = getattr(value, "__self__", None)
    if isinstance(owner, Buffer):
        mode = value.__name__
        name = owner.name or "buffer"
        raise ArgumentTypeError(
            f"{who} got the method {mode} of {owner.record.label} and no access. Call it with a range mapper: "
            f"{name}.{mode}(access.one_to_one())."
        )
    if isinstance(owner, HostObject):
        raise ArgumentTypeError(
            f"{who} got the method {value.__name__} of {owner.label} and no side effect. Call it: "
            f"host_object.{value.__name__}()."
        )
    if any(value is factory for factory in access.FACTORIES):
        raise ArgumentTypeError(
            f"{who} got the function access.{value.__name__} as an argument. Say which buffer it maps: "
            f"buffer.read(access.{value.__name__}(...))."
        )


def _refuse_unusable(value: Any, who: str) -> None:
    if isinstance(value, Buffer):
        raise ArgumentTypeError(
            f"{who} got the bare buffer {value.record.label}. Say how it is accessed and where: "
            f"{value.name or 'buffer'}.read(mapper), .write(mapper) or .read_write(mapper)."
        )
    if isinstance(value, HostObject):
        raise ArgumentTypeError(
            f"{who} got {value!r} itself. Pass host_object.side_effect(), as an argument of its own of a host task."
        )
    if isinstance(value, SideEffect):
        raise ArgumentTypeError(
            f"{who} got {value!r}, which only a host task takes, as an argument of its own. Use queue.host_task(fn, "
            f"host_object.side_effect()), or a buffer for the data of kernels."
        )
    if isinstance(value, Future):
        raise ArgumentTypeError(
            f"{who} got the future of a fence as an argument, but a task cannot wait. Pass its value, future.result(), "
            f"or read the buffer itself in the task, through buffer.read(mapper)."
        )
    if isinstance(value, RangeMapper | PureMapper):
        raise ArgumentTypeError(
            f"{who} got a range mapper as an argument, which says nothing without a buffer. Write buffer.read(mapper), "
            f"buffer.write(mapper) or buffer.read_write(mapper)."
        )
    if isinstance(value, Hint):
        raise ArgumentTypeError(f"{who} got {value!r} as an argument. Pass it by name: hints={value!r}.")
    if isinstance(value, Parameter):
        raise ArgumentTypeError(
            f"{who} got {value!r} inside of another value. Only a parameter that is an argument of its own can have "
            f"another value in a replay."
        )
    if isinstance(value, View | Reducer):
        raise ArgumentTypeError(
            f"{who} got {value!r}, which belongs to another task. Pass buffer.read(mapper) instead."
        )
    if isinstance(value, IsHandle):  # a queue or a recording
        raise ArgumentTypeError(f"{who} got {value!r}, which a task cannot use: it can neither submit nor wait.")
    if is_foreign(value.__class__) and lies_on_gpu(value):
        kind = type(value)
        raise ArgumentTypeError(
            f"{who} got a {kind.__module__}.{kind.__qualname__} as an argument. It lies on one GPU and "
            f"can change before the task runs. Make it a buffer with celerity.Buffer.from_array(array), "
            f"or pass a NumPy array of its values, which is copied."
        )
