# SPDX-License-Identifier: MIT
"""What GPUs can do at most: bytes per second of a copy, and operations per second of matrix products by cuBLAS.

    python -m cluster_jobs.benchmarks.scaling.limits --gpus 2

Prints one line of JSON: by quantity, the rate of each GPU while all of them are at work. A copy counts each byte twice,
read and written; the better one of the driver's copy and a kernel's counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

COPY, PRODUCT_OF_FLOATS, PRODUCT_OF_DOUBLES = "copy", "float32 product", "float64 product"
COPIED_BYTES, ROWS = 2**30, 8192
ROUNDS = 4  # the best one counts: the first one warms up
SOURCE = r"""
extern "C" __global__ void copy(const float4* from, float4* to, long long count) {
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) to[i] = from[i];
}
"""

#: Enqueues an operation on the current GPU.
Work = Callable[[], object]


def _copy_of_the_driver(cupy: Any) -> Work:
    source, target = (cupy.zeros(COPIED_BYTES, cupy.uint8) for _ in range(2))
    return lambda: target.data.copy_from_device_async(source.data, COPIED_BYTES, cupy.cuda.Stream.null)


def _copy_of_a_kernel(cupy: Any) -> Work:
    source, target = (cupy.zeros(COPIED_BYTES // 4, cupy.float32) for _ in range(2))
    kernel = cupy.RawKernel(SOURCE, "copy")
    return lambda: kernel((132 * 16,), (512,), (source, target, cupy.int64(COPIED_BYTES // 16)))


def _product(dtype: str) -> Callable[[Any], Work]:
    def make(cupy: Any) -> Work:
        factor = (cupy.arange(ROWS * ROWS) % 15 - 7).astype(dtype).reshape(ROWS, ROWS)
        product = cupy.empty_like(factor)
        return lambda: cupy.matmul(factor, factor, out=product)

    return make


# Quantity, its amount in a call, calls of a round, and what makes a call on the current GPU.
OPERATIONS: tuple[tuple[str, float, int, Callable[[Any], Work]], ...] = (
    (COPY, 2.0 * COPIED_BYTES, 40, _copy_of_the_driver),
    (COPY, 2.0 * COPIED_BYTES, 40, _copy_of_a_kernel),
    (PRODUCT_OF_FLOATS, 2.0 * ROWS**3, 4, _product("float32")),
    (PRODUCT_OF_DOUBLES, 2.0 * ROWS**3, 4, _product("float64")),
)


def measure(gpus: int) -> dict[str, list[float]]:
    """By quantity, its rate per second on each of the first GPUs."""
    import cupy

    devices = [cupy.cuda.Device(number) for number in range(gpus)]
    rates: dict[str, list[float]] = {}
    for quantity, amount, calls, make in OPERATIONS:
        works = []
        for device in devices:
            with device:
                works.append(make(cupy))
        found = [amount / seconds for seconds in _best_seconds(cupy, devices, works, calls)]
        rates[quantity] = [max(pair) for pair in zip(found, rates.get(quantity, found), strict=True)]
    return rates


def _best_seconds(cupy: Any, devices: Sequence[Any], works: Sequence[Work], calls: int) -> list[float]:
    """Seconds of a call on each GPU, in its best round."""
    best = [float("inf")] * len(devices)
    for _ in range(ROUNDS):
        events = []
        for device, work in zip(devices, works, strict=True):
            with device:
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                begin.record()
                for _ in range(calls):
                    work()
                end.record()
            events.append((begin, end))
        for number, (device, (begin, end)) in enumerate(zip(devices, events, strict=True)):
            with device:
                end.synchronize()
                best[number] = min(best[number], cupy.cuda.get_elapsed_time(begin, end) / 1e3 / calls)
    return best


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1, help="how many, from the first one on (default 1)")
    print(json.dumps(measure(parser.parse_args().gpus)))


if __name__ == "__main__":
    main()
