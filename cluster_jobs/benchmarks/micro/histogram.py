# SPDX-License-Identifier: MIT
"""Reductions into an array: `mpiexec -n 4 python -m cluster_jobs.benchmarks.micro.histogram`.

All devices count how often each of 1024 numbers occurs among 10⁸, and every rank reads the counts. Two kernels do it:
one in CUDA C++, whose blocks count in shared memory, and one in Python. In turns with them, rank 0 does the same by
hand on one device, with the functions of CuPy, or on a CPU with those of NumPy.

Then all ranks add up floating-point weights per number, again and again, and compare the bits of their results. The
program fails if any count is wrong, or if the bits of two ranks differ.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks import report

if TYPE_CHECKING:
    from collections.abc import Callable

_BY_HAND = " by hand, one device"
BYTES_PER_NUMBER = 4
NUMBERS_PER_THREAD = 4

# Blocks work on all numbers in turns, so that each flushes its counts once.
SOURCE = """
template <typename T, typename Bins>
__device__ void count_all(const celerity::chunk<1> chunk, const accessor<const int, 1> numbers, const Bins& bins,
                          const T weight) {
    constexpr int each = chunk.items(0);
    for (long long i = chunk.item()[0]; i < chunk.max[0]; i += chunk.step(0)) {
        if (i + each <= chunk.max[0]) {
            const auto some = numbers.load<each>(i);
            for (int k = 0; k < each; ++k) bins(some[k]).combine(weight);
        } else {
            for (long long k = i; k < chunk.max[0]; ++k) bins(numbers(k)).combine(weight);
        }
    }
}
__global__ void count(celerity::chunk<1> chunk, accessor<const int, 1> numbers,
                      reducer<unsigned, celerity::sum, 1> counts) {
    __shared__ unsigned shared[MOST_BINS];
    const auto bins = counts.in_block(shared);
    count_all(chunk, numbers, bins, 1u);
    bins.flush();
}
__global__ void weigh(celerity::chunk<1> chunk, accessor<const int, 1> numbers,
                      reducer<float, celerity::sum, 1> weights) {
    __shared__ float shared[MOST_BINS];
    const auto bins = weights.in_block(shared);
    count_all(chunk, numbers, bins, 0.1f);
    bins.flush();
}
"""


def scrambled(xp: Any, low: int, high: int, num_bins: int) -> Any:
    """The numbers from 0 to `num_bins` - 1 at the places from `low` to `high`, the same on all devices."""
    bits = xp.arange(low, high, dtype=xp.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):  # the end of MurmurHash3
        bits ^= bits >> xp.uint32(shift)
        bits *= xp.uint32(factor)
    return (bits % xp.uint32(num_bins)).astype(xp.int32)


@celerity.kernel
def scramble(chunk: Any, numbers: Any, num_bins: int) -> None:
    """Fill a buffer with numbers."""
    (low,), (high,) = chunk.box.min, chunk.box.max
    numbers.array[...] = scrambled(chunk.xp, low, high, num_bins)


@celerity.kernel
def count_arrays(chunk: Any, numbers: Any, counts: Any) -> None:
    """Count by the function of CuPy or NumPy."""
    found = chunk.xp.bincount(numbers[chunk.box], minlength=counts.array.size)
    counts.combine(found.astype(np.uint32))


@celerity.kernel
def weigh_arrays(chunk: Any, numbers: Any, weights: Any) -> None:
    """Add up the weights of equal numbers."""
    inside = numbers[chunk.box]
    ones = chunk.xp.full(inside.shape, 0.1, np.float32)
    weights.combine(chunk.xp.bincount(inside, ones, weights.array.size).astype(np.float32))


def cuda_kernel(name: str, num_bins: int) -> celerity.CudaKernel:
    """A kernel of `SOURCE`."""
    source = SOURCE.replace("MOST_BINS", str(num_bins))
    return celerity.CudaKernel(source, name, block=(512,), grid=(4 * 132,), items=(NUMBERS_PER_THREAD,))


class Histogram:
    """The numbers on all devices, and those of one device by hand."""

    def __init__(self, queue: celerity.Queue, size: int, num_bins: int) -> None:
        self.queue = queue
        self.size = size
        self.num_bins = num_bins
        self.numbers = celerity.Buffer(size, np.int32, name="numbers")
        self.xp: Any = np
        queue.parallel_for(size, self._fill(), self.numbers.write(access.one_to_one()), num_bins)
        queue.wait()
        self._by_hand = scrambled(self.xp, 0, size, num_bins) if celerity.is_master() else None

    def _fill(self) -> Any:
        def fill(chunk: Any, numbers: Any, num_bins: int) -> None:
            self.xp = chunk.xp
            scramble(chunk, numbers, num_bins)

        return fill

    def reduce(self, kernel: Any, dtype: Any) -> Any:
        """Submit one histogram; a future of it."""
        result = celerity.Buffer(self.num_bins, dtype, name="counts")
        arguments = (self.numbers.read(access.one_to_one()), celerity.reduction(result, "sum"))
        self.queue.parallel_for(self.size, kernel, *arguments)
        return self.queue.fence(result)

    def ours(self, kernel: Any, times: int) -> list[Any]:
        """So many histograms, of which every rank gets the results."""
        futures = [self.reduce(kernel, np.uint32) for _ in range(times)]
        return [future.result() for future in futures]

    def by_hand(self, function: str, times: int) -> list[Any]:
        """Likewise on one device, on rank 0, by a function of CuPy or NumPy."""
        found = []
        for _ in range(times):
            if function == "bincount":
                found.append(self.xp.bincount(self._by_hand, minlength=self.num_bins))
            else:
                found.append(self.xp.histogram(self._by_hand, self.num_bins, (0, self.num_bins))[0])
        return found if self.xp is np else [counts.get() for counts in found]


def expected_counts(size: int, num_bins: int) -> Any:
    """Of all numbers, by NumPy."""
    counts = np.zeros(num_bins, np.int64)
    for low in range(0, size, 1 << 22):
        counts += np.bincount(scrambled(np, low, min(low + (1 << 22), size), num_bins), minlength=num_bins)
    return counts


def seconds_of(queue: celerity.Queue, work: Callable[[int], Any], times: int, *, on_master: bool = False) -> float:
    """Time per histogram; all ranks begin together."""
    queue.barrier()
    if on_master and not celerity.is_master():
        queue.barrier()
        return 0.0
    begin = time.perf_counter()
    work(times)
    end = time.perf_counter()
    if on_master:
        queue.barrier()
    return (end - begin) / times


def count_different(queue: celerity.Queue, results: list[Any]) -> int:
    """How many results have other bits on some rank than on the first."""
    own = np.array([list(hashlib.sha256(result.tobytes()).digest()) for result in results], np.uint8)
    shape = (celerity.size(), len(results), 32)
    digests = celerity.Buffer(shape, np.uint8, name="digests")

    def tell(part: Any, digests: Any) -> None:
        digests.array[...] = own

    queue.host_task(tell, digests.write(access.slice(1)), on=(shape[0], 1, 32))
    everywhere = queue.fence(digests).result()
    return int((everywhere != everywhere[0]).any(axis=(0, 2)).sum())


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table on rank 0, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--size", type=int, default=100_000_000, help="numbers (default 10⁸)")
    parser.add_argument("--bins", type=int, default=1024, help="different numbers (default 1024)")
    parser.add_argument("--times", type=int, default=20, help="histograms per repetition (default 20)")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--checks", type=int, default=100, help="results whose bits are compared (default 100)")
    options = parser.parse_args(arguments)
    with celerity.Queue() as queue:
        work = Histogram(queue, options.size, options.bins)
        on_gpus = work.xp is not np
        kernels: dict[str, Any] = {"in CUDA C++": cuda_kernel("count", options.bins)} if on_gpus else {}
        kernels["in Python"] = count_arrays
        programs: dict[str, tuple[Callable[[int], list[Any]], bool]] = {
            f"celerity_py, a kernel {how}": (partial(work.ours, kernel), False) for how, kernel in kernels.items()
        }
        for function in ("bincount", "histogram"):
            programs[f"{work.xp.__name__}.{function}{_BY_HAND}"] = (partial(work.by_hand, function), True)
        expected = expected_counts(options.size, options.bins)
        wrong = []
        times: dict[str, list[float]] = {name: [] for name in programs}
        for repetition in range(options.repetitions + 1):  # the first one compiles
            for name, (run, on_master) in programs.items():
                if repetition > 0:
                    times[name].append(seconds_of(queue, run, options.times, on_master=on_master))
                elif not on_master or celerity.is_master():
                    wrong += [name for counts in run(2) if not np.array_equal(counts, expected)]
        weigh = cuda_kernel("weigh", options.bins) if on_gpus else weigh_arrays
        weights = [work.reduce(weigh, np.float32) for _ in range(options.checks)]
        different = count_different(queue, [future.result() for future in weights])
    problems = [f"WRONG counts: {name}" for name in dict.fromkeys(wrong)]
    if different:
        problems.append(f"WRONG bits: {different} of {options.checks} results differ between ranks")
    if celerity.is_master():
        _show(options, times, problems)
    return report.status_of(problems)


def _show(options: Any, times: dict[str, list[float]], problems: list[str]) -> None:
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    by_hand = min(seconds for name, seconds in medians.items() if name.endswith(_BY_HAND))
    rows = [
        {
            "program": name,
            "ms": seconds * 1e3,
            "ratio": seconds / by_hand,
            "all_ms": [each * 1e3 for each in times[name]],
        }
        | {"gb_per_s": options.size * BYTES_PER_NUMBER / seconds / 1e9}
        for name, seconds in medians.items()
    ]
    columns = [("program", "{program}"), ("ms", "{ms:.3f}")]
    columns += [("GB/s", "{gb_per_s:.0f}"), ("time / by hand", "{ratio:.2f}")]
    title = f"A histogram of {options.size} numbers in {options.bins} bins on {celerity.size()} rank(s)"
    report.show_rows(title, columns, rows)
    if not problems:
        print(f"The bits of {options.checks} sums of weights are the same on all {celerity.size()} rank(s).")
    report.write(options.output, rows, problems=problems, ranks=celerity.size(), size=options.size, bins=options.bins)


if __name__ == "__main__":
    raise SystemExit(main())
