# SPDX-License-Identifier: MIT
"""A program for `test_interop.py`: `python interop_programs.py`. CUPTI counts the copies of its whole process."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

import celerity_py as celerity
from celerity_py import access
from tests.gpu.driver_copies import DriverCopies

SHAPE = (1024, 512)


def double(chunk: Any, u: Any) -> None:
    u[chunk.box] *= 2


def from_array_to_array(queue: celerity.Queue, given: Any) -> Any:
    """Through a buffer, a kernel on all GPUs and a fence."""
    u = celerity.Buffer.from_array(given, name="u")
    queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()))
    return queue.fence(u, to="device").result()


def main() -> None:
    values = np.arange(float(np.prod(SHAPE))).reshape(SHAPE)
    with celerity.Queue() as queue:
        given = cupy.asarray(values)
        from_array_to_array(queue, given)  # compiles
        queue.wait()
        copies = DriverCopies()
        result = from_array_to_array(queue, given)
        queue.wait()
        cupy.cuda.runtime.deviceSynchronize()
        found = copies.take()
        on_host = result.get()
        control = copies.take()
    np.testing.assert_array_equal(on_host, 2 * values)
    assert control.get("to host") == values.nbytes, f"the counter works: {control}"
    through_host = {direction: count for direction, count in found.items() if "host" in direction}
    through_host |= {"to device": found["to device"]} if "to device" in found else {}
    assert not through_host, f"bytes: {found}"
    print("no copy from or to the host")


if __name__ == "__main__":
    main()
