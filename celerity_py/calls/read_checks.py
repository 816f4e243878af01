# SPDX-License-Identifier: MIT
"""Finds kernels that write through a read access, with CELERITY_CHECK on GPUs, whose arrays cannot be read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from celerity_py._native import Box, Region, box_from_flat
from celerity_py.scheduler.errors import ReadOnlyAccess
from celerity_py.vocabulary.accesses import READ, Port
from celerity_py.vocabulary.notation import show


class _Kept(NamedTuple):
    port: Port
    box: Box
    words: Any  # where the elements lie
    before: Any  # their values before the call


class UnprotectedReads:
    """The elements that one call reads, as they were before the call.

    Args:
        call: Makes arrays of words over the memory of a binding.
        ports: Of the accesses of the task.
        bindings: What the call gets for each.
    """

    def __init__(self, call: Any, ports: Sequence[Port], bindings: Sequence[Any]) -> None:
        self._call = call
        self._kept: list[_Kept] = []
        for port, binding in zip(ports, bindings, strict=True):
            if binding is None or port.mode != READ:
                continue
            region = _region_of(port, binding)
            for other, given in zip(ports, bindings, strict=True):
                if given is not None and given.buffer == binding.buffer and other.mode != READ:
                    region = region - _region_of(other, given)  # may be written through the other view
            words, allocated = call.words(port, binding)
            for box in region.boxes:
                if box:
                    where = words[(*box.relative_slices(allocated), ...)]
                    self._kept.append(_Kept(port, box, where, where.copy()))

    def verify(self) -> None:
        """Look at it after the call.

        Raises:
            ReadOnlyAccess: If the call has changed something.
        """
        for port, box, words, before in self._kept:
            changed = self._call.to_host((words != before).any(axis=-1))
            if not changed.any():
                continue
            first = np.unravel_index(int(np.argmax(changed)), changed.shape)
            where = tuple(a + int(b) for a, b in zip(box.min, first, strict=True))
            raise ReadOnlyAccess(
                f"{self._call.describe()} has changed {int(changed.sum())} elements of {port.record.label}, first at "
                f"{show(where)}, which it declares to read. Declare the access as read_write, or work on a copy: "
                f"view[box].copy()."
            )


def _region_of(port: Port, binding: Any) -> Region:
    return Region([box_from_flat(flat, len(port.record.shape)) for flat in binding.accessed])
