# SPDX-License-Identifier: MIT
"""Arguments of submits, as a user writes them, for the hints and mappers of random programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from celerity_py import access, hints
from celerity_py.runtime.lifecycle import current
from tests.property.programs import Kernel
from tests.support.mappers import Mapper
from tests.verification.contexts import native_box, native_region, user_box
from tests.verification.elements import UserBox

#: By their shapes: arrays in which each step of a program writes the rows of its gathers.
_ROWS: dict[tuple[int, ...], npt.NDArray[np.int64]] = {}


def hints_of(task: Kernel) -> list[hints.Hint]:
    """As the program gives them."""
    given = []
    runtime = current()
    if weights := task.weights_of(runtime.size, runtime.num_devices):
        given.append(hints.weights(weights))
    elif task.block:
        given.append(hints.cyclic(task.block))
    elif task.split != "rows":
        given.append(getattr(hints, task.split)())
    if task.oversubscribe > 1:
        given.append(hints.oversubscribe(task.oversubscribe))
    if task.border:
        given.append(hints.border_first(task.border))
    return given


def mapper_for(mapper: Mapper, whole: UserBox) -> Any:
    """The mapper as a user writes it."""
    if mapper.kind == "gather":
        return gathering(*mapper.arguments)
    if mapper.is_callable:

        def custom(chunk: Any, buffer_shape: tuple[int, ...]) -> Any:
            boxes = mapper.region(user_box(chunk.box), whole, buffer_shape)
            return native_region(boxes) if len(boxes) != 1 else native_box(boxes[0])

        return custom
    if mapper.kind == "fixed":
        boxes = mapper.arguments
        return access.fixed(native_region(boxes) if len(boxes) > 1 else native_box(boxes[0]))
    if mapper.kind == "slice":
        dim, *index = mapper.arguments
        return access.slice(dim, at=index[0] if index else None)
    if mapper.kind == "neighborhood":
        extents, shape, wrap = mapper.arguments
        return access.neighborhood(*extents, shape=shape, wrap=wrap)
    make: Callable[..., Any] = getattr(access, mapper.kind)
    return make(*mapper.arguments)


def gathering(indices: Sequence[Sequence[int]], gap: int) -> Any:
    """With an array of two dimensions if that is possible, and with offsets otherwise."""
    offsets = [0, *accumulate(len(each) for each in indices)]
    if indices and len({len(each) for each in indices}) == 1:
        return access.gather(_placed(np.array(indices, np.int64)), gap=gap)
    return access.gather(_placed(np.array([row for each in indices for row in each], np.int64)), offsets, gap=gap)


def _placed(rows: npt.NDArray[np.int64]) -> Any:
    """A list, an array that nobody changes, or one that the steps before have used as well."""
    way = int(rows.sum()) % 3
    if way == 0:
        return rows if rows.size == 0 else rows.tolist()
    if way == 1:
        rows.flags.writeable = False
        return rows
    place = _ROWS.setdefault(rows.shape, np.empty_like(rows))
    place[...] = rows
    return place
