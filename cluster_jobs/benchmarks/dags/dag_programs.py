# SPDX-License-Identifier: MIT
"""The six programs with which GrCUDA's scheduler was measured, written anew from their specification.

Differences from the originals: results of sums and extrema are overwritten, so that the host resets nothing between
runs; HITS uses the transposed matrix, and a thread per row; ML standardizes each feature over all rows, with a block
per feature; DL's arrays have no unused rim. None of them changes a dependency between kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks.dags import dag_kernels as kernels
from cluster_jobs.benchmarks.dags.dag_kernels import FOLD_BLOCKS, FOLD_THREADS, DagKernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mode = Literal["read", "write", "read_write"]


@dataclass(frozen=True)
class Use:
    """An access of a step to a buffer."""

    buffer: str
    mode: Mode
    mapper: Any


def reads(buffer: str, mapper: Any = None) -> Use:
    """Read all of a buffer, or the region of the mapper."""
    return Use(buffer, "read", mapper or access.all())


def writes(buffer: str, mapper: Any = None) -> Use:
    """Overwrite the items' own elements, or the region of the mapper."""
    return Use(buffer, "write", mapper or access.one_to_one())


def updates(buffer: str, mapper: Any = None) -> Use:
    """Read and write the items' own elements, or the region of the mapper."""
    return Use(buffer, "read_write", mapper or access.one_to_one())


@dataclass(frozen=True)
class Step:
    """A launch."""

    kernel: DagKernel
    space: tuple[int, ...]
    args: tuple[Use | int, ...]
    #: Threads per block and blocks, where the kernel does not take any.
    block: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None


@dataclass
class Program:
    """Buffers and steps. One device is meant: kernels that fold run on one."""

    name: str
    #: The least number of waits between streams, by any scheduler.
    least_waits: int
    results: tuple[str, ...]
    tolerance: float
    #: Buffers that the host writes anew before each run, where data comes from the host; in the order of first use.
    dirty: tuple[str, ...] = ()
    #: The results of which the host reads an element after each run, where data goes to the host.
    read_back: tuple[str, ...] = ()
    #: A run continues from the results of the run before.
    is_iterative: bool = False
    buffers: dict[str, NDArray[Any]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    _expected: dict[int, dict[str, NDArray[Any]]] = field(default_factory=dict, repr=False)

    def zeros(self, shape: int | tuple[int, ...], *names: str) -> None:
        """Add buffers of zeros."""
        self.buffers |= {name: np.zeros(shape, np.float32) for name in names}

    def add(self, kernel: DagKernel, space: int | tuple[int, ...], *args: Use | int, **launch: Any) -> None:
        """Append a step."""
        self.steps.append(Step(kernel, (space,) if isinstance(space, int) else space, args, **launch))

    def fold(self, kernel: DagKernel, result: str, *args: Use | int) -> None:
        """Append a step that folds everything into one element."""
        self.zeros(FOLD_BLOCKS, f"{result}_partials")
        self.buffers[f"{result}_arrived"] = np.zeros(1, np.int32)
        self.buffers.setdefault(result, np.zeros(1, np.float32))
        scratch = (updates(f"{result}_partials", access.all()), updates(f"{result}_arrived"), writes(result))
        self.add(kernel, 1, *args, *scratch, block=(FOLD_THREADS,), grid=(FOLD_BLOCKS,))

    def inputs(self) -> set[str]:
        """Buffers whose initial contents are used: those that no step overwrites before any reads them."""
        written: set[str] = set()
        found: set[str] = set()
        for step in self.steps:
            uses = [arg for arg in step.args if isinstance(arg, Use)]
            found |= {use.buffer for use in uses if use.mode != "write"} - written
            written |= {use.buffer for use in uses if use.mode != "read"}
        return found

    def written(self) -> set[str]:
        """Buffers that steps write."""
        return {arg.buffer for step in self.steps for arg in step.args if isinstance(arg, Use) and arg.mode != "read"}

    def expected(self, runs: int = 1) -> dict[str, NDArray[Any]]:
        """The results by NumPy, one step after the other; kept."""
        runs = runs if self.is_iterative else 1
        if runs not in self._expected:
            arrays = {name: array.copy() for name, array in self.buffers.items()}
            for _ in range(runs):
                for step in self.steps:
                    step.kernel.numpy(*(arrays[arg.buffer] if isinstance(arg, Use) else arg for arg in step.args))
            self._expected[runs] = {name: arrays[name] for name in self.results}
        return self._expected[runs]

    def check(self, results: dict[str, NDArray[Any]], runs: int) -> None:
        """Compare with NumPy.

        Raises:
            AssertionError: If a result differs.
        """
        for name, expected in self.expected(runs).items():
            if expected.dtype.kind == "i":  # classes: scores that are almost equal may change places
                wrong = np.mean(results[name] != expected)
                assert wrong < 0.01, f"{self.name}: {wrong:.1%} of {name} differ from NumPy"
                continue
            bounds = {"rtol": self.tolerance, "atol": self.tolerance * np.abs(expected).max()}
            np.testing.assert_allclose(results[name], expected, **bounds, err_msg=f"{self.name}: {name}")


# ---- the six


def vec(size: int = 1 << 16) -> Program:
    """VEC: two squares, and the sum of their differences."""
    program = Program("VEC", 1, ("result",), 1e-3, dirty=("x", "y"), read_back=("result",))
    numbers = np.arange(1, size + 1, dtype=np.float64)
    for name, scale in (("x", 1), ("y", 2)):
        program.buffers[name] = (scale / numbers).astype(np.float32)
        program.zeros(size, f"{name}1")
        program.add(kernels.square, size, reads(name, access.one_to_one()), writes(f"{name}1"))
    program.fold(kernels.difference_sum, "result", reads("x1"), reads("y1"), size)
    return program


def black_scholes(size: int = 1 << 14) -> Program:
    """B&S: call prices of ten stocks, independent of each other."""
    prices_of, calls = (tuple(f"{letter}{stock}" for stock in range(10)) for letter in "xy")
    program = Program("B&S", 0, calls, 1e-9, dirty=prices_of, read_back=calls)
    prices = np.random.default_rng(1).uniform(59.5, 60.5, size)
    for stock in range(10):
        program.buffers[f"x{stock}"] = prices.copy()
        program.buffers[f"y{stock}"] = np.zeros(size)
        program.add(kernels.black_scholes, size, reads(f"x{stock}", access.one_to_one()), writes(f"y{stock}"))
    return program


def img(size: int = 256) -> Program:
    """IMG: a photograph, its subject sharpened and its background blurred."""
    program = Program("IMG", 4, ("image3",), 1e-4, dirty=("image",), read_back=("image3",))
    program.buffers["image"] = np.random.default_rng(2).random((size, size), np.float32)
    space = (size, size)
    program.zeros(space, "blur_s", "blur_l", "blur_u", "mask_s", "mask_l", "sharp", "image2", "image3")
    own = access.one_to_one()
    for suffix, diameter, sigma in (("s", 3, 1), ("l", 5, 10), ("u", 3, 5)):
        offsets = np.arange(diameter) - diameter // 2
        weights = np.exp(-(offsets[:, np.newaxis] ** 2 + offsets**2) / (2 * sigma**2))
        program.buffers[f"filter_{suffix}"] = (weights / weights.sum()).astype(np.float32)
        radius = diameter // 2
        uses = (
            reads("image", access.neighborhood(radius, radius)),
            reads(f"filter_{suffix}"),
            writes(f"blur_{suffix}"),
        )
        program.add(kernels.blur, space, *uses, size, radius)
    for suffix in ("s", "l"):
        around = access.neighborhood(1, 1)
        program.add(kernels.sobel, space, reads(f"blur_{suffix}", around), writes(f"mask_{suffix}"), size)
    program.fold(kernels.maximum, "most", reads("mask_l"), size)
    program.fold(kernels.minimum, "least", reads("mask_l"), size)
    program.add(kernels.extend, space, updates("mask_l"), reads("least"), reads("most"))
    program.add(kernels.unsharpen, space, reads("image", own), reads("blur_u", own), writes("sharp"))
    for a, b, mask, out in (("sharp", "blur_l", "mask_l", "image2"), ("image2", "blur_s", "mask_s", "image3")):
        program.add(kernels.combine, space, reads(a, own), reads(b, own), reads(mask, own), writes(out))
    return program


def ml(size: int = 1 << 11, *, from_host: bool = False) -> Program:
    """ML: ridge regression and naive Bayes of the same rows, and the class on which they agree best.

    With `from_host` the scores are added to what the host has written there, as in the original.
    """
    features, classes = 200, 10
    program = Program("ML", 1, ("r1", "r2", "best"), 2e-3, read_back=("best",))
    generator = np.random.default_rng(3)
    program.buffers["x"] = generator.integers(0, 10, (size, features), np.int32)
    for names, shape in ((("w_nb", "w_rr"), (classes, features)), (("prior", "intercept"), (classes,))):
        program.buffers |= {name: generator.random(shape, np.float32) for name in names}
    rows, columns, scores, own = access.slice(1), access.slice(0), (size, classes), access.one_to_one()
    program.zeros((size, features), "z")
    program.zeros(scores, "r1", "r2")
    program.zeros(size, "most", "l")
    program.buffers["best"] = np.zeros(size, np.int32)
    program.add(
        kernels.standardize, features, reads("x", columns), writes("z", columns), size, block=(256,), grid=(features,)
    )
    if from_host:
        program.dirty = ("r1", "r2")
        program.buffers["r1"] += program.buffers["prior"]
        program.add(kernels.bayes_onto, scores, reads("x"), reads("w_nb"), updates("r1"), features)
        program.add(kernels.ridge_onto, scores, reads("z"), reads("w_rr"), updates("r2"), features)
    else:
        program.add(kernels.bayes, scores, reads("x"), reads("w_nb"), reads("prior"), writes("r1"), features)
        program.add(kernels.ridge, scores, reads("z"), reads("w_rr"), writes("r2"), features)
    program.add(kernels.row_maximum, size, reads("r1", rows), writes("most"), classes)
    program.add(kernels.add_row, scores, reads("intercept"), updates("r2"))
    program.add(kernels.log_sum, size, reads("r1", rows), reads("most", own), writes("l"), classes)
    program.add(kernels.softmax, size, updates("r2", rows), classes)
    program.add(kernels.exponentiate, scores, updates("r1"), reads("l"))
    program.add(kernels.softmax, size, updates("r1", rows), classes)
    program.add(kernels.argmax, size, reads("r1", rows), reads("r2", rows), writes("best"), classes)
    return program


def hits(size: int = 1 << 14, iterations: int = 5, *, is_regular: bool = False) -> Program:
    """HITS: hubs and authorities of a graph with three edges out of each vertex.

    The graph is random or, with `is_regular`, has three edges into each vertex as well, and weights. A large regular
    graph is made in seconds, because its transposed matrix needs no sorting.
    """
    ends = ("auth1", "hub1")
    program = Program("HITS", 18 if iterations == 5 else -1, ends, 1e-3, read_back=ends, is_iterative=True)
    program.dirty = ("begin_t", "column_t", "value_t", "hub1", "begin", "column", "value", "auth1")
    program.buffers["begin"] = np.arange(0, 3 * size + 1, 3, dtype=np.int32)
    for name in ("value", "value_t"):
        program.buffers[name] = np.ones(3 * size, np.int32)
    if is_regular:
        program.buffers["begin_t"] = program.buffers["begin"].copy()
        program.buffers["column"], program.buffers["column_t"] = _regular_edges(size)
        # The edges out of a vertex weigh 1, 2 or 3. With equal weights all scores would be equal, and hide mistakes.
        program.buffers["value"] += np.repeat(np.arange(size, dtype=np.int32) % 3, 3)
        program.buffers["value_t"] += program.buffers["column_t"] % 3
    else:
        target = np.random.default_rng(4).integers(0, size, 3 * size, np.int32)
        order = np.argsort(target, kind="stable")
        program.buffers["column"] = target
        program.buffers["begin_t"] = np.append(0, np.cumsum(np.bincount(target, minlength=size))).astype(np.int32)
        program.buffers["column_t"] = (order // 3).astype(np.int32)
    for name in ("auth1", "auth2", "hub1", "hub2"):
        program.buffers[name] = np.ones(size, np.float32)
    sides = (("auth", "hub", "_t"), ("hub", "auth", ""))
    for _ in range(iterations):
        for side, other, suffix in sides:
            matrix = (reads(f"begin{suffix}"), reads(f"column{suffix}"), reads(f"value{suffix}"))
            program.add(kernels.spmv, size, *matrix, reads(f"{other}1"), writes(f"{side}2"))
        for side, _, _ in sides:
            program.fold(kernels.total, f"{side}_norm", reads(f"{side}2"), size)
        for side, _, _ in sides:
            own = reads(f"{side}2", access.one_to_one())
            program.add(kernels.divide, size, own, reads(f"{side}_norm"), writes(f"{side}1"))
    return program


def _regular_edges(size: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The ends of three edges out of each vertex, and the origins of the three edges into it.

    Edge k of vertex i leads to `a_k * i + b_k` modulo the size. With `a_k` coprime to the size, this is a permutation,
    and neighbours have ends that lie far apart.
    """
    ends, origins = np.empty((size, 3), np.int32), np.empty((size, 3), np.int32)
    vertices = np.arange(size, dtype=np.int64)
    for edge, part in enumerate((0.618, 0.414, 0.303)):
        factor = next(number for number in range(int(part * size) or 1, 2 * size + 2) if math.gcd(number, size) == 1)
        shift = (edge + 1) * size // 5
        ends[:, edge] = (factor * vertices + shift) % size
        origins[:, edge] = pow(factor, -1, size) * (vertices - shift) % size
    return ends.reshape(-1), origins.reshape(-1)


def dl(size: int = 256) -> Program:
    """DL: two images go through the same small network, and how similar the ends are."""
    program = Program("DL", 1, ("z", "result"), 1e-3, dirty=("x", "y"), read_back=("result",))
    generator = np.random.default_rng(5)
    middle = (size + 1) // 2 - 1
    pooled = middle // 5
    last = (pooled + 1) // 2 - 1
    program.buffers["w1"] = generator.uniform(-1, 1, (8, 9)).astype(np.float32)
    program.buffers["w2"] = generator.uniform(-1, 1, (16, 72)).astype(np.float32)
    for name in ("x", "y"):
        program.buffers[name] = generator.random((size, size, 1), np.float32)
        for level, extents in enumerate(((middle, middle, 8), (pooled, pooled, 8), (last, last, 16)), 1):
            program.zeros(extents, f"{name}{level}")
    shape = (2 * last, last, 16)
    program.zeros(shape, "z")
    program.buffers["w"] = (generator.uniform(-1, 1, shape) / np.prod(shape)).astype(np.float32)
    for name in ("x", "y"):
        program.add(kernels.convolve, (middle, middle, 8), reads(name), reads("w1"), writes(f"{name}1"), 1)
    for name in ("x", "y"):
        program.add(kernels.pool, (pooled, pooled, 8), reads(f"{name}1"), writes(f"{name}2"))
    for name in ("x", "y"):
        program.add(kernels.convolve, (last, last, 16), reads(f"{name}2"), reads("w2"), writes(f"{name}3"), 8)
    program.add(kernels.concatenate, shape, reads("x3"), reads("y3"), writes("z"), last)
    program.fold(kernels.dot, "result", reads("z"), reads("w"), *shape)
    return program


_MAKERS = (("VEC", vec), ("B&S", black_scholes), ("IMG", img), ("ML", ml), ("HITS", hits), ("DL", dl))
PROGRAMS: dict[str, Callable[..., Program]] = dict(_MAKERS)


# ---- on our runtime


class ResidentProgram:
    """A program on the runtime, with its buffers; after one run they lie on the device.

    Args:
        program: What to run.
        queue: Where to submit it.
        hold_us: How long each kernel lasts at least.
        renewed: Buffers that `renew` writes before the first run, and which need no contents until then.
    """

    def __init__(
        self, program: Program, queue: celerity.Queue, hold_us: int = 0, renewed: Collection[str] = ()
    ) -> None:
        self.program = program
        self.queue = queue
        inputs = program.inputs() - set(renewed)
        self.buffers = {
            name: celerity.Buffer.from_array(array, name=name)
            if name in inputs
            else celerity.Buffer(array.shape, array.dtype, name=name)
            for name, array in program.buffers.items()
        }
        self.runs = 0
        made: dict[Any, Any] = {}
        self._launches: list[tuple[tuple[int, ...], Any, tuple[Any, ...]]] = []
        for step in program.steps:
            key = (step.kernel.name, step.block, step.grid)
            if key not in made:
                made[key] = self._kernel(step, hold_us)
            args = tuple(
                getattr(self.buffers[arg.buffer], arg.mode)(arg.mapper) if isinstance(arg, Use) else arg
                for arg in step.args
            )
            self._launches.append((step.space, made[key], args))

    @staticmethod
    def _kernel(step: Step, hold_us: int) -> Any:
        kernel = step.kernel
        cuda = celerity.CudaKernel(kernel.source(hold_us), kernel.name, block=step.block, grid=step.grid)

        def cpu(chunk: celerity.Chunk, *args: Any) -> None:
            kernel.numpy(*(arg.array if isinstance(arg, celerity.View) else arg for arg in args))

        return celerity.kernel(cpu=cpu, cuda=cuda, name=kernel.name)

    def run(self) -> None:
        """Submit all steps, and count the run; does not wait."""
        self.submit_steps()
        self.runs += 1

    def submit_steps(self) -> None:
        """Submit all steps; does not wait."""
        for number in range(len(self._launches)):
            self.submit_step(number)

    def submit_step(self, number: int) -> None:
        """Submit one step; does not wait."""
        space, kernel, args = self._launches[number]
        self.queue.parallel_for(space, kernel, *args)

    def renew(self, names: Collection[str]) -> None:
        """Submit a host task that gives buffers their initial contents; does not wait."""
        sources = [self.program.buffers[name] for name in names]

        def write(part: celerity.Part, *views: celerity.View) -> None:
            for view, source in zip(views, sources, strict=True):
                view[...] = source

        self.queue.host_task(write, *(self.buffers[name].write(access.all()) for name in names), name="renew")

    def copy_ahead(self, names: Collection[str]) -> None:
        """Submit kernels that read buffers and do nothing, so that their contents go to the device; does not wait."""
        for name in names:
            array = self.program.buffers[name]
            kind = {"f4": "float", "f8": "double", "i4": "int"}[array.dtype.str[1:]]
            kernel = DagKernel(f"touch_{kind}_{array.ndim}", 1, f"const {kind} data[{array.ndim}]", "", lambda _: None)
            step = Step(kernel, (1,), (reads(name),), block=(32,), grid=(1,))
            self.queue.parallel_for(1, self._kernel(step, 0), self.buffers[name].read(access.all()))

    def read_back(self) -> dict[str, Any]:
        """Ask for an element of each result that the host reads; futures by name."""
        buffers = {name: self.buffers[name] for name in self.program.read_back}
        return {
            name: self.queue.fence(buffer, celerity.Box((0,) * buffer.ndim, (1,) * buffer.ndim))
            for name, buffer in buffers.items()
        }

    def results(self) -> dict[str, NDArray[Any]]:
        """Fetch the results. Collective."""
        futures = {name: self.queue.fence(self.buffers[name]) for name in self.program.results}
        return {name: future.result() for name, future in futures.items()}

    def count_waits(self) -> dict[str, int]:
        """Waits between streams in one run with resident data, as the engine and, where it counts, the driver says."""
        self.run()
        self.queue.wait()
        before = _waits(self.queue)
        self.run()
        self.queue.wait()
        return {name: count - before[name] for name, count in _waits(self.queue).items()}


def _waits(queue: celerity.Queue) -> dict[str, int]:
    executor = queue.statistics().executor
    by_driver = executor["driver_calls"].get("cuStreamWaitEvent", 0)
    return {"lane_waits": executor["lane_waits"], "driver_waits": by_driver}
