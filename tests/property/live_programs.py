# SPDX-License-Identifier: MIT
"""Runs random programs through the real runtime: real ranks, devices, threads and messages.

    python -m tests.property.live_programs --programs 200
    mpiexec -n 4 python -m tests.property.live_programs --programs 200 --seed 7

Program i comes from seed + i alone, so that `--seed <its seed> --programs 1` runs it again. `CELERITY_` variables
choose backend, devices and transport; lookahead and horizons vary from runtime to runtime unless a variable fixes them.

Every kernel compares what it reads with what the sequential interpreter has there, and leaves what the interpreter
leaves, changed by the number of wrong elements that it saw. So a wrong input shows at the task that reads it, and in
the contents of every buffer from then on.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import celerity_py as celerity
from celerity_py import Region, access, hints, lifecycle
from tests.contexts import native_box, native_region, user_box
from tests.elements import UserBox, full_box
from tests.mappers import Mapper
from tests.property.interpreter import (
    UNINITIALISED,
    Meaning,
    UninitialisedReadError,
    Words,
    initial_words,
    interpret,
)
from tests.property.native_kernels import NativeKernels
from tests.property.program_generator import seeded_program
from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Epoch,
    Fence,
    Flush,
    HostTask,
    Kernel,
    Program,
    Settings,
    Step,
    Task,
)

Values = npt.NDArray[Any]

_DELAY_CYCLES = 200_000
_VARIED = ("lookahead", "horizon_step", "horizon_max_parallelism")


@dataclass(frozen=True)
class Options:
    """How programs are run; the same on all ranks."""

    programs_per_runtime: int = 25
    jitter_percent: int = 10
    """Of the kernels and host tasks start late, so that what does not wait for them finds nothing."""
    native_percent: int = 50
    """Of the kernels that can be written in CUDA C++ are, where there are GPUs."""
    time_limit_s: float = 60.0
    """For one program."""
    shrink_s: float = 60.0


def dtype_of(decl: BufferDecl) -> np.dtype[Any]:
    return np.dtype(np.uint32 if decl.element_size_bytes == 4 else np.uint64)


def to_values(decl: BufferDecl, words: Words) -> Values:
    """Contents of a whole buffer; a larger element holds its word in each half."""
    if decl.element_size_bytes == 4:
        return words.astype(np.uint32).reshape(decl.shape)
    assert decl.element_size_bytes == 8
    return (words * np.uint64(0x1_0000_0001)).reshape(decl.shape)


def slices_of(box: UserBox) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in box)


def mapper_for(mapper: Mapper, whole: UserBox) -> Any:
    """The mapper as a user writes it."""
    if mapper.is_callable:

        def custom(chunk: Any, buffer_shape: tuple[int, ...]) -> Any:
            boxes = mapper.region(user_box(chunk.box), whole, buffer_shape)
            return native_region(boxes) if len(boxes) != 1 else native_box(boxes[0])

        return custom
    if mapper.kind == "fixed":
        boxes = mapper.arguments
        return access.fixed(native_region(boxes) if len(boxes) > 1 else native_box(boxes[0]))
    if mapper.kind == "slice":
        dim, *index = mapper.arguments
        return access.slice(dim, at=index[0] if index else None)
    if mapper.kind == "neighborhood":
        extents, shape = mapper.arguments
        return access.neighborhood(*extents, shape=shape)
    make: Callable[..., Any] = getattr(access, mapper.kind)
    return make(*mapper.arguments)


@dataclass
class Delays:
    """Late starts, here and there: a task that does not wait for its inputs then certainly reads something else."""

    percent: int
    random: random.Random

    def draw(self) -> bool:
        return self.random.random() * 100 < self.percent

    def run(self, xp: Any) -> None:
        if xp is np:
            time.sleep(0.001)
        else:
            _spin_kernel(xp)((1,), (1,), (np.int64(_DELAY_CYCLES),))


def _spin_kernel(xp: Any) -> Any:
    source = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while(clock64() - t < n) {} }'
    return xp.RawKernel(source, "spin")  # compiled once: CuPy remembers by source


class OracleTask:
    """One kernel or host task: its body, and what it has to find and to leave."""

    def __init__(self, run: ProgramRun, number: int, task: Kernel | HostTask) -> None:
        self.number = number
        self.task = task
        self.is_late = run.delays.draw()
        meaning = run.meaning.tasks[number]
        self.before = {n: to_values(state.decl, state.words) for n, state in meaning.before.items()}
        self.after = {n: to_values(state.decl, state.words) for n, state in meaning.after.items()}
        self.contributions: list[Values] = [items.astype(np.uint32) for items in meaning.contributions]
        self._delays = run.delays
        self._errors = run.errors

    def __call__(self, chunk: Any, *arguments: Any) -> None:
        xp = getattr(chunk, "xp", np)
        box = user_box(chunk.box)
        if self.is_late:
            self._delays.run(xp)
        accesses = list(zip(self.task.accesses, arguments, strict=False))
        errors = xp.zeros((), xp.int64)
        for item, view in accesses:
            if item.mode != "write":
                errors = errors + self._count_errors(xp, item, view, box)
        for item, view in accesses:
            if item.mode != "read":
                self._overwrite(xp, item, view, box, errors)
        for position, out in enumerate(arguments[len(accesses) :]):
            places = tuple(
                slice(low - first, high - first) for (low, high), (first, _) in zip(box, self.task.box, strict=True)
            )
            items = xp.asarray(self.contributions[position][places]).reshape(-1)
            assert isinstance(self.task, Kernel)
            out.combine(_fold_on_device(xp, self.task.reductions[position].op, items) + errors.astype(xp.uint32))

    def _count_errors(self, xp: Any, item: Access, view: Any, chunk: UserBox) -> Any:
        expected = self.before[item.buffer]
        errors = xp.zeros((), xp.int64)
        for box in item.mapper.region(chunk, self.task.box, expected.shape):
            found = view[native_box(box)]
            wrong = xp.count_nonzero(found != xp.asarray(expected[slices_of(box)]))
            self._errors.append((f"S{self.number} {item}: chunk {chunk} finds wrong elements in {box}", wrong))
            errors = errors + wrong
        return errors

    def _overwrite(self, xp: Any, item: Access, view: Any, chunk: UserBox, errors: Any) -> None:
        values = self.after[item.buffer]
        for box in item.mapper.region(chunk, self.task.box, values.shape):
            view[native_box(box)] = xp.asarray(values[slices_of(box)]) + errors.astype(values.dtype)


def _fold_on_device(xp: Any, op: str, items: Any) -> Any:
    if op in {"sum", "prod"}:
        return getattr(items, op)(dtype=xp.uint32)
    return getattr(items, op)()


class ProgramRun:
    """One program on a running runtime, next to others before and after it."""

    def __init__(self, program: Program, queue: celerity.Queue, options: Options, native: NativeKernels) -> None:
        self.program = program
        self.queue = queue
        self.native = native
        self.meaning: Meaning = interpret(program)
        self.delays = Delays(options.jitter_percent, random.Random(program.settings.seed))
        self.errors: list[tuple[str, Any]] = []
        self.mismatches: list[str] = []
        self._choices = random.Random(program.settings.seed + 1)
        self._native_percent = options.native_percent
        self._shapes = {number: decl.shape for number, decl in program.buffers.items()}
        self._buffers: dict[int, celerity.Buffer] = {}
        self._fences: list[tuple[str, Any, Values]] = []
        self._borrowed: list[Values] = []

    def run(self) -> list[str]:
        """Returns what went wrong, as text."""
        number = 0
        for step in self.program.steps:
            number += isinstance(step, Task)
            self._apply(number, step)
        self._fence_what_is_left()
        self._buffers.clear()
        for where, future, expected in self._fences:
            self._compare(where, future.result(), expected)
        self.queue.wait()
        _ORACLES.clear()
        self.mismatches += [f"{where}: {int(count)}" for where, count in self.errors if int(count)]
        self.mismatches += self.native.take_errors()
        return self.mismatches

    def _apply(self, number: int, step: Step) -> None:
        if isinstance(step, BufferDecl):
            self._buffers[step.number] = self._make_buffer(step)
        elif isinstance(step, Destroy):
            del self._buffers[step.buffer]
        elif isinstance(step, Flush):
            self.queue.flush()
        elif isinstance(step, Kernel):
            self._submit_kernel(number, step)
        elif isinstance(step, HostTask):
            where: Any = native_box(step.box) if step.on == "split" else step.on
            self.queue.host_task(
                _with_name(OracleTask(self, number, step)),
                *self._accesses(step),
                on=where,
                name=f"S{number}",
                unordered=step.unordered,
            )
        elif isinstance(step, Fence):
            result = self.meaning.tasks[number].before[step.buffer]
            values = to_values(result.decl, result.words)[slices_of(step.box)]
            self._fence(f"S{number}", step.buffer, step.box, values, on="all" if step.on_all else "master")
            if self._choices.random() < 0.3:  # most programs wait for some of their fences at once, some for none
                where_fence, future, expected = self._fences[-1]
                self._compare(where_fence, future.result(), expected)
        elif step.action == "barrier":
            self.queue.barrier()
        else:
            assert isinstance(step, Epoch)
            self.queue.wait()

    def _make_buffer(self, decl: BufferDecl) -> celerity.Buffer:
        if decl.initial == "none":
            return celerity.Buffer(decl.shape, dtype_of(decl), name=decl.name)
        contents = to_values(decl, initial_words(decl))
        if decl.initial == "array":
            copy = self._choices.random() < 0.5
            self._borrowed.append(contents)
            return celerity.Buffer.from_array(contents, name=decl.name, copy=copy)
        return celerity.Buffer.from_function(
            decl.shape, dtype_of(decl), lambda box: contents[box.slices], name=decl.name
        )

    def _accesses(self, task: Kernel | HostTask) -> list[Any]:
        result = []
        for item in task.accesses:
            buffer = self._buffers[item.buffer]
            result.append(getattr(buffer, item.mode)(mapper_for(item.mapper, task.box)))
        return result

    def _submit_kernel(self, number: int, task: Kernel) -> None:
        given: list[Any] = []
        if task.split_2d:
            given.append(hints.split_2d())
        if task.oversubscribe > 1:
            given.append(hints.oversubscribe(task.oversubscribe))
        if task.border:
            given.append(hints.border_first(task.border))
        oracle = OracleTask(self, number, task)
        arguments = self._accesses(task)
        # Half of the tasks look alike: native code repeats the checks of an earlier one.
        is_repeated = self._choices.random() < 0.5
        kernel: Any = _with_name(oracle)
        if is_repeated:
            kinds = tuple(getattr(argument.port, "kind", None) for argument in arguments)
            kernel = _REPEATED.setdefault((len(task.box), kinds, *given), celerity.kernel(_run_oracle))
        arguments += [
            celerity.reduction(self._buffers[r.buffer], r.op, include_current=r.include_current)
            for r in task.reductions
        ]
        if self._choices.random() * 100 < self._native_percent and self.native.can_run(task, self._shapes):
            kernel, scalars = self.native.prepare(number, task, oracle, oracle.is_late)
            arguments += scalars
        elif is_repeated:
            arguments.append(number)
            _ORACLES[number] = oracle
        self.queue.parallel_for(
            native_box(task.box),
            kernel,
            *arguments,
            name=None if is_repeated else f"S{number}",
            hints=given,
            constrain=task.granularity,
        )

    def _fence(self, where: str, number: int, box: UserBox, expected: Values, on: str = "all") -> None:
        whole = full_box(self._shapes[number])
        future = self.queue.fence(self._buffers[number], None if box == whole else native_box(box), on=on)
        self._fences.append((f"{where} fence of b{number} {box}", future, expected))

    def _fence_what_is_left(self) -> None:
        for number in self._buffers:
            state = self.meaning.final[number]
            values = to_values(state.decl, state.words)
            for box in initialised_boxes(state.versions.reshape(state.decl.shape)):
                self._fence("the end,", number, box, values[slices_of(box)])

    def _compare(self, where: str, found: Values | None, expected: Values) -> None:
        if found is None:  # a fence on the master, seen by another rank
            return
        wrong = np.argwhere(found != expected)
        if found.shape != expected.shape or len(wrong):
            places = ", ".join(str(tuple(map(int, place))) for place in wrong[:4])
            self.mismatches.append(f"{where}: {len(wrong)} of {expected.size} elements are wrong, first at {places}")


#: Of the program that runs.
_ORACLES: dict[int, OracleTask] = {}


#: By the kinds of their arguments.
_REPEATED: dict[Any, Any] = {}


def _run_oracle(chunk: Any, *arguments: Any) -> None:
    *rest, number = arguments
    _ORACLES[number](chunk, *rest)


def _with_name(task: OracleTask) -> Callable[..., None]:
    def kernel(chunk: Any, *arguments: Any) -> None:
        task(chunk, *arguments)

    return kernel


def initialised_boxes(versions: npt.NDArray[np.int64]) -> list[UserBox]:
    """Boxes that together are all elements that somebody wrote."""
    written = versions != UNINITIALISED
    if written.all():
        return [full_box(versions.shape)]
    places = [native_box(tuple((int(c), int(c) + 1) for c in place)) for place in np.argwhere(written)]
    return [user_box(box) for box in Region(places).boxes]


def smaller_steps(steps: list[Step]) -> Iterator[list[Step]]:
    """Some steps left out, many at first and the last ones first; then single accesses. Not all are legal."""
    size = max(1, len(steps) // 2)
    while size:
        for stop in range(len(steps), 0, -size):
            yield [*steps[: max(0, stop - size)], *steps[stop:]]
        size //= 2
    for place, step in enumerate(steps):
        if isinstance(step, Kernel | HostTask) and len(step.accesses) > 1:
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
    failure: str = ""
    """Of this rank or of another."""


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

    def run(self, first_seed: int, count: int) -> Report:
        try:
            for start in range(first_seed, first_seed + count, self.options.programs_per_runtime):
                stop = min(start + self.options.programs_per_runtime, first_seed + count)
                with self._runtime(seeded_program(start).settings) as (queue, native):
                    for seed in range(start, stop):
                        before = lifecycle.current().submitter.num_submitted
                        self._run_one(seed, queue, native)
                        self.report.repeated += lifecycle.current().submitter.num_submitted - before
                        if self.report.failure:
                            return self.report
            return self.report
        finally:
            self._watchdog.close()

    @contextlib.contextmanager
    def _runtime(self, drawn: Settings) -> Iterator[tuple[celerity.Queue, NativeKernels]]:
        free = [name for name in _VARIED if not os.environ.get(f"CELERITY_{name.upper()}")]
        celerity.configure(**{name: getattr(drawn, name) for name in free})
        self._watchdog.begin("the start of the runtime")
        try:
            with celerity.Queue() as queue:
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
                yield queue, native
                self._watchdog.begin("the end of the runtime")
        finally:
            self._watchdog.end()
        celerity.configure(**dict.fromkeys(free))

    def _run_one(self, seed: int, queue: celerity.Queue, native: NativeKernels) -> None:
        program = seeded_program(seed)
        program = Program(replace(self._settings, seed=seed), program.steps)
        mismatches = self._run_program(program, queue, native)
        self.report.programs += 1
        self.report.tasks += program.task_count
        self.report.native_kernels += native.take_count()
        if self._is_wrong_anywhere(mismatches):
            program, latest = self._shrink(program, queue, native)
            shown = "\n".join((latest or mismatches)[:20])
            self.report.failure = f"seed {seed}:\n{shown}\nin\n{program}"

    def _run_program(self, program: Program, queue: celerity.Queue, native: NativeKernels) -> list[str]:
        self._watchdog.begin(f"\n{program}")
        try:
            return ProgramRun(program, queue, self.options, native).run()
        except celerity.CelerityError:
            print(f"failed in\n{program}", file=sys.__stderr__, flush=True)
            raise
        finally:
            self._watchdog.end()

    def _is_wrong_anywhere(self, mismatches: list[str]) -> bool:
        if self._communicator is None:
            return bool(mismatches)
        return bool(self._communicator.allreduce(len(mismatches)) > 0)

    def _shrink(self, program: Program, queue: celerity.Queue, native: NativeKernels) -> tuple[Program, list[str]]:
        """Leaves out steps for as long as some rank still sees something wrong; what is left, and what it showed."""
        deadline_s = time.monotonic() + self.options.shrink_s
        latest: list[str] = []

        def fails(candidate: Program) -> bool:
            nonlocal latest
            try:
                interpret(candidate)
            except (UninitialisedReadError, KeyError):
                return False
            for _ in range(3):  # it may take a coincidence
                mismatches = self._run_program(candidate, queue, native)
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
    given = vars(parser.parse_args())
    count, seed = given.pop("programs"), given.pop("seed")
    start_s = time.monotonic()
    report = run_programs(seed, count, Options(**given))
    if report.failure:
        print(f"[rank {celerity.rank()}] {report.failure}", flush=True)
        return 1
    if celerity.is_master():
        print(
            f"{report.programs} programs, {report.tasks} tasks, {report.native_kernels} native kernels, "
            f"{report.repeated} repeated submits: all as in the sequential run; {time.monotonic() - start_s:.1f} s on "
            f"{celerity.size()} rank(s)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
