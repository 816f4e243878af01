# SPDX-License-Identifier: MIT
"""Normal forms of boxes in memory, so that equal patterns share one MPI datatype."""

from __future__ import annotations

from typing import NamedTuple


class StridedLayout(NamedTuple):
    """Contiguous bytes, repeated by nested strides.

    Where the box begins is not part of it: that offset is folded into the base address, so all rows (columns, faces)
    of an allocation have the same layout, wherever they lie.
    """

    run_bytes: int
    loops: tuple[tuple[int, int], ...]  # (count > 1, stride in bytes), innermost first

    @property
    def span_bytes(self) -> int:
        """From the first byte to the one behind the last."""
        return self.run_bytes + sum((count - 1) * stride for count, stride in self.loops)


def strided_layout(
    allocated_shape: tuple[int, ...], offset: tuple[int, ...], extent: tuple[int, ...], element_size: int
) -> tuple[int, StridedLayout]:
    """Return (offset of the first byte, layout) of a box in a dense row-major allocation.

    Unit dimensions vanish, and a dimension that continues the next inner one in memory merges with it, so the form
    does not depend on how many dimensions the caller uses. Shapes and offset are in elements.
    """
    if 0 in extent:
        return 0, StridedLayout(0, ())
    first_byte = 0
    run_bytes = stride = element_size
    loops: list[tuple[int, int]] = []
    for allocated, start, count in zip(reversed(allocated_shape), reversed(offset), reversed(extent), strict=True):
        first_byte += start * stride
        if count == 1:
            pass
        elif not loops and stride == run_bytes:
            run_bytes *= count
        elif loops and stride == loops[-1][0] * loops[-1][1]:
            loops[-1] = (loops[-1][0] * count, loops[-1][1])
        else:
            loops.append((count, stride))
        stride *= allocated
    return first_byte, StridedLayout(run_bytes, tuple(loops))
