# SPDX-License-Identifier: MIT
"""The cost of issuing work, ours against hand-written CuPy: `python -m cluster_jobs.benchmarks.micro.dispatch`.

*Issue*: a host task holds back the plan until it is complete, and a latch kernel, on which everything depends, holds
back the GPU while it is issued. So the time is that of the host alone: from the opening of the gate until the last
instruction is on its stream. It is measured for few and for many operations; the slope counts. By hand, the same
operations are enqueued behind the same latch.

*End to end*: from the first call until the wait returns, for tasks that do not depend on each other.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.cuda_driver import count_devices
from cluster_jobs.benchmarks.micro.dispatch_by_hand import LATCH, HandWritten

FEW, MANY = 100, 700
STRIDE = 32  # elements between the words that are copied, so that no two copies are one
POLL_S = 30e-6
TIMEOUT_S = 2.5  # the latch gives up after 3 s
SOURCE = r"""
__global__ void nothing(celerity::chunk<1> chunk, celerity::accessor<const int, 1> a,
                        celerity::accessor<const int, 1> b, celerity::accessor<int, 1> out) {}
"""
ALONE_SOURCE = "__global__ void alone(celerity::chunk<1> chunk) {}\n"
LATCH_SOURCE = (
    r"""
__global__ void latch(celerity::chunk<1> chunk, celerity::accessor<const int, 1> gate, celerity::accessor<int, 1> held,
                      unsigned long long address, int number) {
    if (threadIdx.x != 0) return;
    const auto flag = (volatile int*)address;"""
    + LATCH
)


def _nothing(chunk: celerity.Chunk, a: celerity.View, b: celerity.View, out: celerity.View) -> None:
    """On the CPU backend, to try the program out."""


def _alone(chunk: celerity.Chunk) -> None:
    """On the CPU backend, to try the program out."""


def _look(part: celerity.Part, word: celerity.View) -> None:
    """A host task that makes a copy necessary."""


def _latch(chunk: celerity.Chunk, gate: celerity.View, held: celerity.View, flag: int, number: int) -> None:
    deadline = time.monotonic() + 3
    while ctypes.c_int.from_address(flag).value < number and time.monotonic() < deadline:
        time.sleep(1e-4)


nothing = celerity.kernel(cpu=_nothing, cuda=celerity.CudaKernel(SOURCE, "nothing", block=(32,)))
alone = celerity.kernel(cpu=_alone, cuda=celerity.CudaKernel(ALONE_SOURCE, "alone", block=(32,)))
latch = celerity.kernel(cpu=_latch, cuda=celerity.CudaKernel(LATCH_SOURCE, "latch", block=(32,)))


class Ours:
    """The same operations as tasks."""

    def __init__(self, queue: celerity.Queue, flag_address: int) -> None:
        self.queue = queue
        self.flag_address = flag_address
        zero = np.zeros(1, np.int32)
        self.gate = celerity.Buffer.from_array(zero, name="gate")
        self.held = celerity.Buffer.from_array(zero, name="held")
        self.constant = celerity.Buffer.from_array(zero, name="constant")
        self.words = celerity.Buffer.from_array(np.zeros(MANY * STRIDE, np.int32), name="words")
        self.everything, self.own = access.all(), access.one_to_one()
        self.whole = access.fixed(celerity.Box((0,), (MANY * STRIDE,)))
        self.word_mappers = [access.fixed(celerity.Box((STRIDE * n,), (STRIDE * n + 1,))) for n in range(MANY)]
        # Memory of the device and of the host for all of it at once.
        self._submit(self.words.write(self.whole))
        queue.host_task(_look, self.words.read(self.everything))

    @functools.cached_property
    def outputs(self) -> list[celerity.Buffer]:
        """Of the tasks end to end. Not while issue is measured: more buffers, longer looks at the statistics."""
        return [celerity.Buffer.from_array(np.zeros(1, np.int32), name=f"out{index}") for index in range(MANY)]

    def _submit(self, output: Any) -> None:
        """A kernel with three accesses, which depends on the latch."""
        inputs = (self.held.read(self.everything), self.constant.read(self.everything))
        self.queue.parallel_for(1, nothing, *inputs, output)

    # Work behind the latch; each returns the number of instructions that are issued early.

    def kernels(self, count: int) -> int:
        """Independent kernels with three accesses."""
        for mapper in self.word_mappers[:count]:
            self._submit(self.words.write(mapper))
        return count

    def copies(self, count: int) -> int:
        """Host tasks that read one word each of a buffer that a kernel behind the latch writes."""
        self._submit(self.words.write(self.whole))
        for mapper in self.word_mappers[:count]:
            self.queue.host_task(_look, self.words.read(mapper), unordered=True)
        return count + 1

    def issue(self, submit: Callable[[int], int], count: int) -> float:
        """Seconds from the opening of the gate until everything is issued.

        A look waits until the executor has issued all that it can, so a few looks are enough for an exact time.
        """
        queue, opened = self.queue, threading.Event()
        begun = time.perf_counter()
        flag = ctypes.c_int.from_address(self.flag_address)
        number = flag.value + 1

        def gate(part: celerity.Part, view: celerity.View) -> None:
            nonlocal begun
            opened.wait()
            begun = time.perf_counter()

        queue.host_task(gate, self.gate.write(self.everything), unordered=True)
        queue.parallel_for(
            1, latch, self.gate.read(self.everything), self.held.write(self.own), self.flag_address, number
        )
        expected = self._issued_early() + submit(count)
        queue.flush()
        queue._runtime.scheduler.wait_until_planned()
        opened.set()
        deadline = time.perf_counter() + TIMEOUT_S
        while (missing := expected - self._issued_early()) > 0 and time.perf_counter() < deadline:
            time.sleep(POLL_S)  # the gate needs the interpreter
        seconds = time.perf_counter() - begun
        flag.value = number
        queue.wait()
        if missing > 0:
            raise RuntimeError(f"{missing} of {count} operations were not issued within {TIMEOUT_S} s")
        return seconds

    def _issued_early(self) -> int:
        return int(self.queue._runtime.executor.statistics()["issued_early"])

    def end_to_end(self, count: int, *, with_accesses: bool) -> float:
        """Microseconds per independent task until all have run."""
        queue = self.queue
        queue.wait()
        begun = time.perf_counter()
        for index in range(count):
            if with_accesses:
                self._submit(self.outputs[index % MANY].write(self.own))
            else:
                queue.parallel_for(1, alone)
        queue.wait()
        return (time.perf_counter() - begun) * 1e6 / count


def _slope_us(issue: Callable[[int], float], rounds: int) -> float:
    """Microseconds per operation: what many cost more than few, measured in turns."""
    issue(MANY)
    return statistics.median(issue(MANY) - issue(FEW) for _ in range(rounds)) / (MANY - FEW) * 1e6


def measure_issue(queue: celerity.Queue, hand: HandWritten | None, rounds: int) -> list[dict[str, Any]]:
    """The rows on the host's time."""
    spare = ctypes.c_int(0)
    ours = Ours(queue, ctypes.addressof(spare) if hand is None else hand.flag_memory.ptr)
    rows = []
    for name, what in (
        ("kernels", "CudaKernel with three accesses, issue"),
        ("copies", "copy of 4 bytes to the host, issue"),
    ):
        own_us = _slope_us(functools.partial(ours.issue, getattr(ours, name)), rounds)
        hand_us = None if hand is None else _slope_us(functools.partial(hand.issue, getattr(hand, name)), rounds)
        rows.append({"what": what, "ours_us": own_us, "by_hand_us": hand_us})
    return rows


def measure_end_to_end(
    queue: celerity.Queue, hand: HandWritten | None, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The rows on independent tasks."""
    ours = Ours(queue, 0)
    rows = []
    for with_accesses, what in ((False, "independent empty task, end to end"), (True, "the same with three accesses")):
        runs: list[float] = []
        by_hand: list[float] = []
        for _ in range(options.rounds + 1):  # in turns
            runs.append(ours.end_to_end(options.tasks, with_accesses=with_accesses))
            if hand is not None:
                by_hand.append(hand.end_to_end(options.tasks) / options.tasks * 1e6)
        hand_us = statistics.median(by_hand[1:]) if by_hand else None
        rows.append({"what": what, "ours_us": statistics.median(runs[1:]), "by_hand_us": hand_us, "runs_us": runs[1:]})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    lines = []
    for row in rows:
        ours, by_hand = row["ours_us"], row["by_hand_us"]
        ratio = ours / by_hand if ours and by_hand else None
        lines.append((row["what"], *map(report.number, (ours, by_hand, ratio))))
    report.show("Dispatch, µs", ("what", "ours", "by hand", "ours / by hand"), lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=5000, help="tasks end to end (default 5000)")
    parser.add_argument("--rounds", type=int, default=15, help="repetitions, of which the median counts (default 15)")
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda", help="cpu only tries the program out")
    options = parser.parse_args(arguments)
    if options.backend == "cuda" and count_devices() == 0:
        parser.error("there is no CUDA device; --backend cpu tries the program out")
    celerity.configure(backend=options.backend, devices="cpu:1" if options.backend == "cpu" else "0,")
    hand = None if options.backend == "cpu" else HandWritten(MANY)
    # Behind the latch host tasks pile up, and a horizon among them would hold back what follows it.
    celerity.configure(run_ahead=512, horizon_max_parallelism=8192)
    with celerity.Queue() as queue:
        rows = measure_issue(queue, hand, options.rounds)
    celerity.configure(run_ahead=None, horizon_max_parallelism=None)
    with celerity.Queue() as queue:
        rows += measure_end_to_end(queue, hand, options)
    show(rows)
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
