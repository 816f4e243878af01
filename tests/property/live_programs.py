# SPDX-License-Identifier: MIT
"""Runs random programs through the real runtime: real ranks, devices, threads and messages.

    python -m tests.property.live_programs --programs 200
    mpiexec -n 4 python -m tests.property.live_programs --programs 200 --seed 7

Program i comes from seed + i alone, so that `--seed <its seed> --programs 1` runs it again. `CELERITY_` variables
choose backend, devices and transport; lookahead and horizons vary from runtime to runtime unless a variable fixes them.

Every kernel compares the elements that it reads with those of the sequential interpreter. It leaves the interpreter's
values, changed by the number of wrong elements that it saw. So a wrong input shows at the task that reads it, and in
the contents of every buffer from then on.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import celerity_py as celerity
from celerity_py.executor.network import communicator
from celerity_py.runtime import lifecycle, native_objects
from tests.property.distribution import features
from tests.property.interpreter import UninitialisedReadError, interpret
from tests.property.live_run import Options, ProgramRun
from tests.property.native_kernels import NativeKernels
from tests.property.program_generator import seeded_program
from tests.property.programs import HostTask, Kernel, Program, Settings, Step

_VARIED = ("lookahead", "horizon_step", "horizon_max_parallelism")


def smaller_steps(steps: list[Step]) -> Iterator[list[Step]]:
    """Some steps left out, many at first and the last ones first; then single accesses. Not all are legal."""
    size = max(1, len(steps) // 2)
    while size:
        for stop in range(len(steps), 0, -size):
            yield [*steps[: max(0, stop - size)], *steps[stop:]]
        size //= 2
    for place, step in enumerate(steps):
        is_small = isinstance(step, Kernel) and step.operation != "kernel"
        if isinstance(step, Kernel | HostTask) and len(step.accesses) > 1 and not is_small:
            for n in range(len(step.accesses)):
                fewer = replace(step, accesses=(*step.accesses[:n], *step.accesses[n + 1 :]))
                yield [*steps[:place], fewer, *steps[place + 1 :]]


# ---- many programs


@dataclass
class Report:
    programs: int = 0
    tasks: int = 0
    native_kernels: int = 0
    repeated: int = 0
    """Kernels whose submit was one of native code alone."""
    features: Counter[str] = field(default_factory=Counter)
    """Programs by what occurs in them."""
    failure: str = ""
    """Of this rank or of another."""

    def counts(self) -> dict[str, int]:
        names = ("programs", "tasks", "native_kernels", "repeated")
        return {name.replace("_", " "): getattr(self, name) for name in names} | self.features


class Watchdog:
    """Ends the process when one program takes too long, with all that is known of the reason."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._deadline_s = float("inf")
        self._subject = ""
        self._has_ended = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def begin(self, subject: str) -> None:
        self._subject = subject
        self._deadline_s = time.monotonic() + self._limit_s
        # should the interpreter lock never come free again
        faulthandler.dump_traceback_later(self._limit_s + 15, exit=True, file=2)

    def end(self) -> None:
        self._deadline_s = float("inf")
        faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        self.end()
        self._has_ended.set()

    def _watch(self) -> None:
        while not self._has_ended.wait(0.5):
            if time.monotonic() > self._deadline_s:
                self._give_up()

    def _give_up(self) -> None:
        runtime = lifecycle._current
        rank = -1 if runtime is None else runtime.rank
        lines = [f"[rank {rank}] no end after {self._limit_s} s: {self._subject}"]
        if runtime is not None and runtime.executor is not None:
            lines += [f"[rank {rank}]   {item}" for item in runtime.executor.active_instructions()[:40]]
        print("\n".join(lines), file=sys.__stderr__, flush=True)
        faulthandler.dump_traceback(file=2, all_threads=True)
        time.sleep(2)  # for the other ranks to say the same
        os._exit(3)


class Session:
    """Runs programs, one after the other, on few runtimes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.report = Report()
        self._watchdog = Watchdog(options.time_limit_s)
        self._communicator: Any = None
        self._ways: set[str] = set()
        """Of the latest program."""

    def run(self, first_seed: int, count: int) -> Report:
        try:
            for start in range(first_seed, first_seed + count, self.options.programs_per_runtime):
                stop = min(start + self.options.programs_per_runtime, first_seed + count)
                with self._runtime(seeded_program(start).settings) as (queues, native):
                    for seed in range(start, stop):
                        before = lifecycle.current().submitter.num_repeated
                        self._run_one(seed, queues, native)
                        self.report.repeated += lifecycle.current().submitter.num_repeated - before
                        if self.report.failure:
                            return self.report
            return self.report
        finally:
            self._watchdog.close()

    @contextlib.contextmanager
    def _runtime(self, drawn: Settings) -> Iterator[tuple[list[celerity.Queue], NativeKernels]]:
        varied = {name: getattr(drawn, name) for name in _VARIED} | self._machine(drawn)
        free = {name: value for name, value in varied.items() if not os.environ.get(f"CELERITY_{name.upper()}")}
        celerity.configure(**free)
        ways = native_objects.LANES_WAIT, native_objects.OVERWRITES_WAIT
        sizes = native_objects.LEAST_DIRECT_BYTES, communicator.LARGEST_SMALL_BYTES
        if self.options.vary_machine:
            self._vary_ways(random.Random(drawn.seed + 1))
        self._watchdog.begin("the start of the runtime")
        try:
            with contextlib.ExitStack() as stack:
                queues = [stack.enter_context(celerity.Queue(priority=each)) for each in range(5)]
                runtime: Any = lifecycle._current
                if runtime.size > 1:
                    from mpi4py import MPI

                    self._communicator = MPI.COMM_WORLD
                configuration = runtime.configuration
                self._settings = replace(
                    Settings(num_ranks=runtime.size, num_devices=runtime.num_devices),
                    **{name: getattr(configuration, name) for name in _VARIED},
                )
                native = NativeKernels(is_cuda=runtime.devices.is_cuda)
                yield queues, native
                self._watchdog.begin("the end of the runtime")
        finally:
            self._watchdog.end()
            native_objects.LANES_WAIT, native_objects.OVERWRITES_WAIT = ways
            native_objects.LEAST_DIRECT_BYTES, communicator.LARGEST_SMALL_BYTES = sizes
        celerity.configure(**dict.fromkeys(free))

    @staticmethod
    def _vary_ways(draws: random.Random) -> None:
        native_objects.LANES_WAIT = draws.random() < 0.9
        if "TEST_OVERWRITES_WAIT" not in os.environ:
            native_objects.OVERWRITES_WAIT = draws.choice([True, False])
        native_objects.LEAST_DIRECT_BYTES = draws.choice([0, 65, 4097])
        communicator.LARGEST_SMALL_BYTES = draws.choice([16, 64, 4096])

    def _machine(self, drawn: Settings) -> dict[str, Any]:
        if not self.options.vary_machine:
            return {}
        draws = random.Random(drawn.seed)
        is_sync = draws.random() < 0.1
        return {
            "devices": f"cpu:{drawn.num_devices}",
            "transport": "host" if is_sync else draws.choice(["auto", "host"]),
            "run_ahead": draws.choice([2, 16, 100]),
            "check": draws.random() < 0.3,
            "sync": is_sync,
            "kernel_order": draws.choice(["age", "path", "predecessors"]),
        }

    def _run_one(self, seed: int, queues: list[celerity.Queue], native: NativeKernels) -> None:
        program = seeded_program(seed)
        program = Program(replace(self._settings, seed=seed), program.steps)
        mismatches = self._run_program(program, queues, native)
        self.report.programs += 1
        self.report.tasks += program.task_count
        self.report.features.update(features(program) | self._ways)
        self.report.native_kernels += native.take_count()
        if self._is_wrong_anywhere(mismatches):
            program, latest = self._shrink(program, queues, native)
            shown = "\n".join((latest or mismatches)[:20])
            self.report.failure = f"seed {seed}:\n{shown}\nin\n{program}"

    def _run_program(self, program: Program, queues: list[celerity.Queue], native: NativeKernels) -> list[str]:
        self._watchdog.begin(f"\n{program}")
        try:
            run = ProgramRun(program, queues, self.options, native)
            self._ways = run.ways
            return run.run()
        except celerity.CelerityError:
            print(f"failed in\n{program}", file=sys.__stderr__, flush=True)
            raise
        finally:
            self._watchdog.end()

    def _is_wrong_anywhere(self, mismatches: list[str]) -> bool:
        if self._communicator is None:
            return bool(mismatches)
        return bool(self._communicator.allreduce(len(mismatches)) > 0)

    def _shrink(
        self, program: Program, queues: list[celerity.Queue], native: NativeKernels
    ) -> tuple[Program, list[str]]:
        """Leaves out steps for as long as some rank sees something wrong; returns the rest and the mistakes."""
        deadline_s = time.monotonic() + self.options.shrink_s
        latest: list[str] = []

        def fails(candidate: Program) -> bool:
            nonlocal latest
            try:
                interpret(candidate)
            except (UninitialisedReadError, KeyError):
                return False
            for _ in range(3):  # it may take a coincidence
                mismatches = self._run_program(candidate, queues, native)
                if self._is_wrong_anywhere(mismatches):
                    latest = mismatches
                    return True
            return False

        is_smaller = True
        while is_smaller:
            is_smaller = False
            for steps in smaller_steps(program.steps):
                if self._is_over(deadline_s):
                    return program, latest
                candidate = Program(program.settings, steps)
                if fails(candidate):
                    program, is_smaller = candidate, True
                    break
        return program, latest

    def _is_over(self, deadline_s: float) -> bool:
        over = time.monotonic() > deadline_s
        return over if self._communicator is None else bool(self._communicator.bcast(over))


def run_programs(first_seed: int, count: int, options: Options | None = None) -> Report:
    """Collective; starts and ends runtimes of its own."""
    return Session(options or Options()).run(first_seed, count)


def main() -> int:
    defaults = Options()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs-per-runtime", type=int, default=defaults.programs_per_runtime)
    parser.add_argument("--jitter-percent", type=int, default=defaults.jitter_percent)
    parser.add_argument("--native-percent", type=int, default=defaults.native_percent)
    parser.add_argument("--time-limit-s", type=float, default=defaults.time_limit_s, help="for one program")
    parser.add_argument("--shrink-s", type=float, default=defaults.shrink_s)
    parser.add_argument("--vary-machine", action="store_true", help="CPU devices and transports, too")
    parser.add_argument("--counts", action="store_true", help="print what occurs in the programs as JSON")
    given = vars(parser.parse_args())
    count, seed, wants_counts = given.pop("programs"), given.pop("seed"), given.pop("counts")
    start_s = time.monotonic()
    report = run_programs(seed, count, Options(**given))
    if report.failure:
        print(f"[rank {celerity.rank()}] {report.failure}", flush=True)
        return 1
    if celerity.is_master() and wants_counts:
        print(json.dumps(report.counts()))
    elif celerity.is_master():
        print(
            f"{report.programs} programs, {report.tasks} tasks, {report.native_kernels} native kernels, "
            f"{report.repeated} repeated submits: all as in the sequential run; {time.monotonic() - start_s:.1f} s on "
            f"{celerity.size()} rank(s)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
