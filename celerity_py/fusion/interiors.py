# SPDX-License-Identifier: MIT
"""The interior of a pass: a box around its middle in which conditions on coordinates have one truth each.

Most items lie there. Their instructions need no conditions, such as those at the edge of a padded array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from celerity_py.fusion.coordinates import NO_AXIS
from celerity_py.fusion.lowering import Body, Instruction, Place
from celerity_py.fusion.walks import Bound

if TYPE_CHECKING:
    from celerity_py.fusion.coordinates import Box


@dataclass(frozen=True, slots=True)
class Interior:
    """What the items of a box do, with the numbers of the instructions of all items."""

    box: Box
    body: Body


def interior_of(body: Body, box: Box, num_axes: int, share: float = 0) -> Interior | None:
    """The interior, by conditions on the first axes of a pass; None if there are none of these.

    Conditions that would leave no more than a share of the items stay.
    """
    middle = [(low + high) // 2 for low, high in box]
    limits = list(box)
    truths: dict[int, bool] = {}
    for number, instruction in enumerate(body.instructions):
        bounds = bounds_of(instruction)
        if not bounds or not all(0 <= bound.position.axis < num_axes for bound in bounds):
            continue
        intervals = [(bound.position.axis, *_interval_of(bound)) for bound in bounds]
        outside = [one for one in intervals if not one[1] <= middle[one[0]] < one[2]]
        changed = list(limits)
        for axis, low, high in outside[:1] or intervals:
            least, most = changed[axis]
            if not outside:
                changed[axis] = max(least, low), min(most, high)
            else:
                changed[axis] = (least, min(most, low)) if middle[axis] < low else (max(least, high), most)
        if _share(changed, box) > share:
            limits = changed
            truths[number] = not outside
    return Interior(tuple(limits), _folded(body, truths)) if truths else None


def bounds_of(instruction: Instruction) -> tuple[Bound, ...]:
    """The conditions of an instruction on coordinates; of a load, that none of its coordinates is beyond limits."""
    if instruction.operation == "inside":
        return instruction.detail  # type: ignore[return-value]
    if not isinstance(instruction.detail, Place):
        return ()
    limited = [(position, position.limits) for position in instruction.detail.where]
    return tuple(
        Bound(position.without_limits(), limits[0], limits[1] + 1) for position, limits in limited if limits is not None
    )


def _share(part: Sequence[tuple[int, int]], whole: Box) -> float:
    return math.prod((b - a) / max(d - c, 1) for (a, b), (c, d) in zip(part, whole, strict=True))


def _interval_of(bound: Bound) -> tuple[int, int]:
    """The items for which a bound holds, as a half-open interval along its axis."""
    (axis, step, offset, _), low, high = bound
    assert axis != NO_AXIS
    if step > 0:
        return -((offset - low) // step), -((offset - high) // step)
    return (offset - high) // -step + 1, (offset - low) // -step + 1


def _folded(body: Body, known: dict[int, bool]) -> Body:
    """The instructions where the truth of some conditions is known."""
    known, same = dict(known), list(range(len(body.instructions)))
    instructions: list[Instruction] = []
    for number, old in enumerate(body.instructions):
        operands = tuple(same[operand] for operand in old.operands)
        instruction = replace(old, operands=operands)
        if old.operation == "merge" and operands[0] in known:
            same[number] = operands[1] if known[operands[0]] else operands[2]
        elif old.operation == "not" and operands[0] in known:
            known[number] = not known[operands[0]]
        elif old.operation in {"both", "either"}:
            decides = old.operation == "either"
            left = tuple(operand for operand in operands if operand not in known)
            if any(known.get(operand) is decides for operand in operands):
                known[number] = decides
            elif not left:
                known[number] = not decides
            instruction = replace(old, operands=left)
        if isinstance(old.detail, Place):
            if known.get(number):
                where = tuple(position.without_limits() for position in old.detail.where)
                instruction = replace(old, detail=replace(old.detail, where=where))
        elif number in known:
            instruction = Instruction("literal", old.dtype, (), np.bool_(known[number]).tobytes())
        instructions.append(instruction)
    return Body(
        instructions,
        {statement: same[value] for statement, value in body.values.items()},
        {statement: mask for statement, mask in body.masks.items() if known.get(mask) is not True},
        {number: need for number, need in body.needs.items() if known.get(need) is not True},
        body.joined,
    )
