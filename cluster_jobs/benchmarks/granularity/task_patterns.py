# SPDX-License-Identifier: MIT
"""The dependency patterns of Task Bench (Slaughter et al., SC 2020), their kernel, and the sweep that finds the METG.

A program has `width` points and some steps. The task (step, point) reads what the tasks of the step before left at the
points that the pattern names, computes for a number of iterations, and leaves a number that depends on what it has
read: modulo 2^32, 40503 (point + 1) + 9973 phase + the sum of (2 j + 3) previous[j]. The phase is the step modulo a
turn, after which a program repeats itself.

The minimum effective task granularity, METG(50 %), is the smallest average time per task, waiting included, at which at
least half of the time goes into the work of the kernels.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

PATTERNS = ("trivial", "stencil_1d", "fft", "tree", "all_to_all")
MASK = 0xFFFFFFFF
#: Steps of the run that is compared with NumPy: odd, and more than three turns of the butterfly on 16 points.
CHECK_STEPS = 27
FEWEST_STEPS, MOST_STEPS, SAMPLES, BISECTIONS = 8, 2000, 3, 3
MOST_ITERATIONS = 2**29


def rounds_of(pattern: str, width: int) -> int:
    """After so many steps the dependencies repeat."""
    return max(1, (width - 1).bit_length()) if pattern == "fft" else 1


def turn_of(pattern: str, width: int) -> int:
    """After so many steps the dependencies repeat, and two buffers that take turns are as before."""
    return 2 * rounds_of(pattern, width)


def dependencies(pattern: str, step: int, point: int, width: int) -> list[int]:
    """The points of the step before that a task reads, ascending.

    A stencil of three, the point and its butterfly partner, the parent in a binary tree of which every step is a level,
    or all points.
    """
    if pattern == "trivial":
        return []
    if pattern == "stencil_1d":
        return list(range(max(point - 1, 0), min(point + 2, width)))
    if pattern == "fft":
        partner = point ^ (1 << step % rounds_of(pattern, width))
        return sorted({point, partner if partner < width else point})
    if pattern == "tree":
        return [point // 2]
    return list(range(width))


def initial(width: int) -> NDArray[np.uint32]:
    """The numbers that the first step reads, (width,)."""
    return (np.arange(width, dtype=np.uint64) * 2654435761 & MASK).astype(np.uint32)


def value_of(point: int, phase: int, read: Iterable[tuple[int, int]]) -> int:
    """The number that a task leaves; `read` are points and their numbers."""
    return (40503 * (point + 1) + 9973 * phase + sum((2 * j + 3) * int(value) for j, value in read)) & MASK


def reference(pattern: str, width: int, steps: int) -> NDArray[np.uint32]:
    """The numbers at the points behind the last step, by NumPy; (width,)."""
    points = np.arange(width, dtype=np.uint64)
    values: NDArray[np.uint64] = initial(width).astype(np.uint64)
    for step in range(steps):
        weights = np.zeros((width, width), np.uint64)
        for point in range(width):
            read = dependencies(pattern, step, point, width)
            weights[point, read] = 2 * np.array(read, np.uint64) + 3
        phase = step % turn_of(pattern, width)
        values = ((points + 1) * 40503 + 9973 * phase + weights @ values & MASK).astype(np.uint64)
    return values.astype(np.uint32)


def require_reference(result: NDArray[np.uint32], pattern: str, steps: int) -> int:
    """Compare the result of a program with NumPy.

    Returns:
        The checksum: the sum of all points modulo 2^32.

    Raises:
        SystemExit: If a point differs.
    """
    expected = reference(pattern, result.size, steps)
    wrong = np.flatnonzero(result != expected)
    if wrong.size:
        point = int(wrong[0])
        raise SystemExit(
            f"WRONG: {wrong.size} of {result.size} points differ from NumPy in pattern {pattern} after {steps} steps; "
            f"point {point} holds {result[point]} instead of {expected[point]}."
        )
    return int(expected.sum(dtype=np.uint64)) & MASK


def compute(iterations: int) -> None:
    """The work of a task on a CPU: a native loop that holds neither the GIL nor memory bandwidth."""
    if iterations:
        hashlib.pbkdf2_hmac("sha1", b"task", b"bench", iterations)


# The work of a task on a GPU: all multiprocessors multiply and add, as fast as they can with four warps each scheduler.
GRID, BLOCK = 264, 256
SOURCE = r"""
__device__ void compute(int iterations, unsigned* next) {
    float x = 1.0f + threadIdx.x;
    #pragma unroll 16
    for (int i = 0; i < iterations; ++i) x = fmaf(x, 0.5f, 0.5f);
    if (x < 0) *next = 0; // never, but the compiler cannot know
}

__device__ bool is_first() { return blockIdx.x == 0 && threadIdx.x == 0; }

__device__ unsigned value_of(const unsigned* previous, long long point, long long width, int pattern, int bit,
                             unsigned phase) {
    unsigned value = 40503u * (unsigned)(point + 1) + 9973u * phase;
    long long first = point, last = point;
    if (pattern == 0) return value;
    if (pattern == 1) {
        first = point > 0 ? point - 1 : 0;
        last = point + 1 < width ? point + 1 : point;
    }
    if (pattern == 2) {
        const long long partner = point ^ (1ll << bit);
        if (partner < width) value += (2u * (unsigned)partner + 3u) * previous[partner];
    }
    if (pattern == 3) first = last = point / 2;
    if (pattern == 4) first = 0, last = width - 1;
    for (long long j = first; j <= last; ++j) value += (2u * (unsigned)j + 3u) * previous[j];
    return value;
}
"""


@dataclass(frozen=True)
class Point:
    """One granularity of a sweep."""

    iterations: int
    #: Wall time of a step over the tasks of one device.
    us_per_task: float
    steps: int

    @property
    def rate(self) -> float:
        """Iterations per microsecond and device."""
        return self.iterations / self.us_per_task


def sweep(run: Callable[[int, int], float], tasks_per_device: int, longest_us: float, sample_s: float) -> list[Point]:
    """Measure a program from long tasks down to some that take it mostly overhead.

    Args:
        run: Runs a number of iterations per task for a number of steps, and returns the seconds; the same on all ranks.
        tasks_per_device: In each step.
        longest_us: About how long the longest tasks are; more, if they are not effective then.
        sample_s: About how long a sample is.

    Returns:
        The points, by falling iterations.
    """

    def measure(iterations: int) -> Point:
        step_s = run(iterations, FEWEST_STEPS) / FEWEST_STEPS
        steps = int(min(MOST_STEPS, max(FEWEST_STEPS, sample_s / step_s)))
        samples = [run(iterations, steps) / steps for _ in range(SAMPLES)]
        return Point(iterations, statistics.median(samples) * 1e6 / tasks_per_device, steps)

    run(1, FEWEST_STEPS)
    points = [measure(_longest(run, tasks_per_device, longest_us))]
    # One slow point may be a disturbance, two are overhead.
    while any(point.rate > 0.4 * full_rate(points) for point in points[-2:]) and points[-1].iterations > 1:
        points.append(measure(points[-1].iterations // 2))
    peak = full_rate(points)
    for _ in range(BISECTIONS):
        crossing = _crossing(points, peak)
        if crossing is None or points[crossing - 1].iterations <= points[crossing].iterations + 1:
            break
        middle = math.isqrt(points[crossing - 1].iterations * points[crossing].iterations)
        points.insert(crossing, measure(middle))
    return points


def _longest(run: Callable[[int, int], float], tasks_per_device: int, longest_us: float) -> int:
    """Iterations at which tasks take so long, and double the work would not get done at a clearly higher rate."""
    iterations, best_rate, in_vain = 64, 0.0, 0
    while iterations < MOST_ITERATIONS:
        us_per_task = run(iterations, FEWEST_STEPS) * 1e6 / FEWEST_STEPS / tasks_per_device
        rate = iterations / us_per_task
        in_vain = in_vain + 1 if rate < 1.2 * best_rate else 0  # once may be a disturbance
        best_rate = max(best_rate, rate)
        if us_per_task > 50 * longest_us or (us_per_task > longest_us and in_vain > 1):
            break
        iterations *= 2
    return iterations


def full_rate(points: Sequence[Point]) -> float:
    """Iterations per microsecond and device with hardly any overhead: the best of the longest tasks of a sweep."""
    return max(point.rate for point in points[:3])


def _crossing(points: Sequence[Point], peak: float) -> int | None:
    """Index of the point behind the last one that reaches half of the peak, None if there are not both."""
    effective = [index for index, point in enumerate(points) if point.rate >= peak / 2]
    return effective[-1] + 1 if effective and effective[-1] + 1 < len(points) else None


def metg_us(points: Sequence[Point], peak: float) -> float | None:
    """The METG(50 %), interpolated between the points around it.

    Args:
        points: Of one sweep, by falling iterations.
        peak: Iterations per microsecond and device without any overhead.

    Returns:
        Microseconds; None if even the longest tasks are less than half effective, or if the shortest are not.
    """
    crossing = _crossing(points, peak)
    if crossing is None:
        return None
    above, below = points[crossing - 1], points[crossing]
    weight = (above.rate - peak / 2) / (above.rate - below.rate)
    return math.exp((1 - weight) * math.log(above.us_per_task) + weight * math.log(below.us_per_task))


class PatternProgram(Protocol):
    """A pattern of some width, as one of the programs runs it."""

    def check(self) -> int:
        """Compare a run with NumPy; the checksum."""

    def time(self, iterations: int, steps: int) -> float:
        """Seconds for some steps, the same on all ranks."""


def measure(make: Callable[[str, int], PatternProgram], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Check and sweep the patterns of a program; its figures.

    Args:
        make: Makes the program of a pattern and its width.
        options: Those of `metg`, with one number of devices.
    """
    figures = []
    for pattern in options.patterns:
        program = make(pattern, options.devices[0] * options.tasks_per_device)
        checksum = program.check()
        points = sweep(program.time, options.tasks_per_device, options.longest_us, options.sample_seconds)
        figures.append({"pattern": pattern, "checksum": checksum, "points": [vars(point) for point in points]})
    return figures
