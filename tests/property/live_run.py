# SPDX-License-Identifier: MIT
"""One random program on a running runtime: its buffers, kernels that compare the data they read, and its fences."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import celerity_py as celerity
from celerity_py import Region
from celerity_py.cuda.device_arrays import is_cupy_dtype
from celerity_py.runtime.lifecycle import current
from celerity_py.vocabulary.foreign_arrays import to_numpy
from celerity_py.vocabulary.static_types import FencePlace, FenceRanks
from tests.property.host_reductions import PairReductions, contribute, reduction_by_callable
from tests.property.interpreter import (
    UNINITIALISED,
    WORD_MASK,
    Meaning,
    Words,
    fold_by_element,
    initial_words,
    interpret,
)
from tests.property.live_arguments import hints_of, mapper_for
from tests.property.native_kernels import NativeKernels
from tests.property.nothing import Nothing
from tests.property.programs import (
    ON_HOST,
    Access,
    BufferDecl,
    Destroy,
    Epoch,
    Fence,
    Flush,
    HostTask,
    Kernel,
    ObjectFence,
    Program,
    Step,
    Task,
)
from tests.verification.contexts import native_box, user_box
from tests.verification.elements import UserBox, full_box

Values = npt.NDArray[Any]

_DELAY_CYCLES = 200_000


@dataclass(frozen=True)
class Options:
    """Settings of the runs; the same on all ranks."""

    programs_per_runtime: int = 25
    jitter_percent: int = 10
    """Of the kernels and host tasks start late, so that what does not wait for them finds nothing."""
    native_percent: int = 50
    """Of the kernels that can be written in CUDA C++ are, where there are GPUs."""
    time_limit_s: float = 60.0
    """For one program."""
    shrink_s: float = 60.0
    vary_machine: bool = False
    """CPU devices, transport and ways to execute differ from runtime to runtime as well."""


_SMALL_DTYPES = (np.uint32, np.uint8, np.float32, np.uint16)
_LARGE_DTYPES = (np.uint64, np.float64, np.complex128, (np.int32, (2, 1)))  # the last one: element=(2, 1)


def dtype_of(decl: BufferDecl) -> np.dtype[Any]:
    """One that fits the size of an element, if the program gives it."""
    size_bytes, number = decl.kind
    dtypes: tuple[Any, ...] = _SMALL_DTYPES if size_bytes == 4 else _LARGE_DTYPES
    result: np.dtype[Any] = np.dtype(dtypes[number])
    return result


def to_values(decl: BufferDecl, words: Words) -> Values:
    """Contents of a whole buffer, with as much of each word as an element holds exactly."""
    dtype = dtype_of(decl)
    if dtype.shape:
        values = np.stack([words, words ^ np.uint64(0x5555)], axis=-1)
    elif dtype == np.complex128:
        values = (words & WORD_MASK) + 1j * (words & np.uint64(0xFFFF))
    elif dtype.kind == "f":
        values = words & np.uint64(0xFF_FFFF if dtype.itemsize == 4 else 0xFFFF_FFFF)
    elif dtype.itemsize == 8:  # the word in each half
        values = words * np.uint64(0x1_0000_0001)
    else:
        values = words
    return np.asarray(values).astype(dtype.base).reshape((*decl.shape, *dtype.shape))


def slices_of(box: UserBox) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in box)


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
    """One kernel or host task: its body, the data it has to find, and the data it has to leave."""

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
        others = arguments[len(accesses) :]
        if isinstance(self.task, HostTask):
            for users in others:  # of each host object
                users.append(self.number)
            return
        for position, out in enumerate(others):
            places = tuple(
                slice(low - first, high - first) for (low, high), (first, _) in zip(box, self.task.box, strict=True)
            )
            items = self.contributions[position][places].reshape(-1)
            reduction = self.task.reductions[position]
            target = self.after[reduction.buffer]
            if reduction.op in ON_HOST:
                numbers = np.arange(self.contributions[position].size).reshape(self.contributions[position].shape)
                elements = numbers[places].reshape(-1) % target.size
                contribute(out, reduction.op, items, elements, target.shape, int(errors))
                continue
            if target.size == 1:
                out.combine(_fold_on_device(xp, reduction.op, xp.asarray(items)) + errors.astype(xp.uint32))
                continue
            numbers = np.arange(self.contributions[position].size).reshape(self.contributions[position].shape)
            elements = numbers[places].reshape(-1) % target.size
            if self.number % 2 and xp is np:
                out.combine_at(np.unravel_index(elements, target.shape), items)
                out.array[...] += errors.astype(np.uint32)
            else:
                share = fold_by_element(reduction.op, items.astype(np.uint64), elements, target.size)
                out.combine(xp.asarray(share.astype(np.uint32).reshape(target.shape)) + errors.astype(xp.uint32))

    def _count_errors(self, xp: Any, item: Access, view: Any, chunk: UserBox) -> Any:
        expected = self.before[item.buffer]
        errors = xp.zeros((), xp.int64)
        for box in item.mapper.region(chunk, self.task.box, expected.shape[: view.ndim]):
            found = view[native_box(box)]
            wrong = xp.count_nonzero(found != xp.asarray(expected[slices_of(box)]))
            self._errors.append((f"S{self.number} {item}: chunk {chunk} finds wrong elements in {box}", wrong))
            errors = errors + wrong
        return errors

    def _overwrite(self, xp: Any, item: Access, view: Any, chunk: UserBox, errors: Any) -> None:
        values = self.after[item.buffer]
        for box in item.mapper.region(chunk, self.task.box, values.shape[: view.ndim]):
            view[native_box(box)] = xp.asarray(values[slices_of(box)]) + errors.astype(values.dtype)


def _fold_on_device(xp: Any, op: str, items: Any) -> Any:
    if op in {"sum", "prod"}:
        return getattr(items, op)(dtype=xp.uint32)
    return getattr(items, op)()


class ProgramRun:
    """One program on a running runtime, next to others before and after it."""

    def __init__(
        self, program: Program, queues: Sequence[celerity.Queue], options: Options, native: NativeKernels
    ) -> None:
        self.program = program
        self.queues = queues
        """By priority."""
        self.queue = queues[0]
        """Of the present task."""
        self.native = native
        self.meaning: Meaning = interpret(program)
        self.delays = Delays(options.jitter_percent, random.Random(program.settings.seed))
        self.errors: list[tuple[str, Any]] = []
        self.mismatches: list[str] = []
        self._choices = random.Random(program.settings.seed + 1)
        self._model = Model()
        self.ways: set[str] = set()
        """Names of the ways in which tasks were written, for tables."""
        self._native_percent = options.native_percent
        self._shapes = {number: decl.shape for number, decl in program.buffers.items()}
        self._dtypes = {number: dtype_of(decl) for number, decl in program.buffers.items()}
        self._buffers: dict[int, celerity.Buffer] = {}
        self._fences: list[tuple[str, Any, Values]] = []
        self._borrowed: list[Values] = []
        self._objects = {each: celerity.HostObject[list[int]]([]) for each in program.objects}
        self._users: dict[int, list[int]] = {each: [] for each in program.objects}
        self._object_fences: list[tuple[str, Any, list[int]]] = []

    def run(self) -> list[str]:
        """Returns what went wrong, as text."""
        number = 0
        for step in self.program.steps:
            number += isinstance(step, Task)
            self.queue = self.queues[self.program.settings.priority_of(number)]
            self._apply(number, step)
            if self._buffers and self._choices.random() < 0.03:
                self._do_nothing(number)
        self._fence_what_is_left()
        self._buffers.clear()
        for where, future, expected in self._fences:
            self._compare(where, future.result(), expected)
        for where, future, users in self._object_fences:
            self._compare_users(where, future.result(), users)
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
        elif isinstance(step, Kernel) and step.operation != "kernel":
            self._submit_small_operation(number, step)
        elif isinstance(step, Kernel):
            self._submit_kernel(number, step)
        elif isinstance(step, HostTask):
            where: Any = native_box(step.box) if step.on == "split" else step.on
            self.queue.host_task(
                self._function(OracleTask(self, number, step)),
                *self._accesses(step),
                *(self._objects[each].side_effect() for each in step.objects),
                on=where,
                name=f"S{number}",
                unordered=step.unordered,
                constrain=step.granularity,
            )
            for each in step.objects:
                self._users[each].append(number)
        elif isinstance(step, ObjectFence):
            future = self.queue.fence(self._objects[step.object], on="all" if step.on_all else "master")
            self._object_fences.append((f"S{number} {step}", future, list(self._users[step.object])))
        elif isinstance(step, Fence):
            result = self.meaning.tasks[number].before[step.buffer]
            values = to_values(result.decl, result.words)[slices_of(step.box)]
            on: FenceRanks = "all" if step.on_all else "master"
            self._fence(f"S{number}", step.buffer, step.box, values, on, to="device" if step.to_device else "host")
            if self._choices.random() < 0.3:  # most programs wait for some of their fences at once, some for none
                where_fence, future, expected = self._fences[-1]
                self._compare(where_fence, future.result(), expected)
        else:
            assert isinstance(step, Epoch), step
            (self.queue.barrier if step.action == "barrier" else self.queue.wait)()

    def _make_buffer(self, decl: BufferDecl) -> celerity.Buffer:
        dtype = dtype_of(decl)
        if decl.initial == "none":
            return celerity.Buffer(decl.shape, dtype.base, element=dtype.shape, name=decl.name)
        contents = to_values(decl, initial_words(decl))
        if decl.initial == "array":
            copy = self._choices.random() < 0.5
            self._borrowed.append(contents)
            return celerity.Buffer.from_array(
                _placed(contents, decl.device), element=dtype.shape, name=decl.name, copy=copy
            )
        if decl.initial == "local":
            boxes = [native_box(part.box) for part in decl.parts if part.rank % celerity.size() == celerity.rank()]
            places = [part.device for part in decl.parts if part.rank % celerity.size() == celerity.rank()]
            given = [(box, _placed(contents[box.slices], place)) for box, place in zip(boxes, places, strict=True)]
            return celerity.Buffer.from_local(decl.shape, dtype.base, given, element=dtype.shape, name=decl.name)
        return celerity.Buffer.from_function(
            decl.shape, dtype.base, lambda box: contents[box.slices], element=dtype.shape, name=decl.name
        )

    def _accesses(self, task: Kernel | HostTask) -> list[Any]:
        result = []
        for item in task.accesses:
            buffer = self._buffers[item.buffer]
            result.append(getattr(buffer, item.mode)(mapper_for(item.mapper, task.box)))
        return result

    def _submit_small_operation(self, number: int, task: Kernel) -> None:
        written, *read = task.accesses
        target, there = self._buffers[written.buffer], native_box(task.box)
        state = self.meaning.tasks[number].after[written.buffer]
        whole = native_box(full_box(state.decl.shape))
        if task.operation == "fill":
            value = to_values(state.decl, state.words)[slices_of(task.box)][(0,) * len(task.box)]
            self.queue.fill(target, value, None if there == whole else there)
            return
        (here,) = read[0].mapper.region(task.box, task.box, self._shapes[read[0].buffer])
        self.queue.copy(target, self._buffers[read[0].buffer], there, native_box(here))

    def _submit_kernel(self, number: int, task: Kernel) -> None:
        given = hints_of(task)
        oracle = OracleTask(self, number, task)
        arguments = self._accesses(task)
        # Most tasks look alike: native code repeats the checks of an earlier one.
        is_repeated = self._choices.random() < 0.8
        kernel: Any = None if is_repeated else self._function(oracle)
        if is_repeated:
            kinds = tuple(getattr(argument.port, "kind", None) for argument in arguments)
            kernel = _REPEATED.setdefault((len(task.box), kinds, *given), celerity.kernel(_run_oracle))
        pairs = PairReductions(self.queue, f"S{number}")
        for each in task.reductions:
            target = self._buffers[each.buffer]
            if each.op == "argmin":
                arguments.append(pairs.begin(target, each))
            elif each.op == "join":
                arguments.append(reduction_by_callable(target, each))
            else:
                arguments.append(celerity.reduction(target, each.op, include_current=each.include_current))
        wants_native = self._choices.random() * 100 < self._native_percent
        if wants_native and self.native.can_run(task, self._shapes, self._dtypes):
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
        pairs.end()

    def _do_nothing(self, number: int) -> None:
        self.ways.add("nothing to do")
        buffer = self._choices.choice(list(self._buffers.values()))
        if wrong := Nothing(self.queue, self._choices).call(buffer):
            self.mismatches.append(f"after S{number}: {wrong}")

    def _function(self, oracle: OracleTask) -> Callable[..., None]:
        """A function of its own, or a method of an object, which may be one that earlier tasks have used."""
        way = self._choices.random()
        if way < 0.5:
            return _with_name(oracle)
        self.ways.add("a kernel as a method")
        model = Model()
        if way < 0.6:
            self.ways.add("a method whose attribute changes")
            self.queue.wait()  # a task runs later than its submit, so that its attributes may change only now
            model = self._model
        model.number = oracle.number
        _ORACLES[oracle.number] = oracle
        return model.step

    def _fence(
        self,
        where: str,
        number: int,
        box: UserBox,
        expected: Values,
        on: FenceRanks = "all",
        *,
        to: FencePlace = "host",
    ) -> None:
        whole = full_box(self._shapes[number])
        future = self.queue.fence(self._buffers[number], None if box == whole else native_box(box), on=on, to=to)
        self._fences.append((f"{where} fence of b{number} {box}", future, expected))

    def _fence_what_is_left(self) -> None:
        for number in self._buffers:
            state = self.meaning.final[number]
            values = to_values(state.decl, state.words)
            for box in initialised_boxes(state.versions.reshape(state.decl.shape)):
                self._fence("the end,", number, box, values[slices_of(box)])

    def _compare_users(self, where: str, found: list[int] | None, expected: list[int]) -> None:
        """Rank 0 has a part of each task; other ranks have parts of some."""
        if found is None:
            return
        found = list(found)  # later tasks may be using the object right now
        if found != sorted(found) or (celerity.is_master() and found[: len(expected)] != expected):
            self.mismatches.append(f"{where}: used by {found}, not by {expected} first")

    def _compare(self, where: str, found: Values | None, expected: Values) -> None:
        if found is None:  # a fence on the master, seen by another rank
            return
        found = to_numpy(found, "A fence gives")  # also from a GPU
        wrong = np.argwhere(found != expected)
        if found.shape != expected.shape or len(wrong):
            places = ", ".join(str(tuple(map(int, place))) for place in wrong[:4])
            self.mismatches.append(f"{where}: {len(wrong)} of {expected.size} elements are wrong, first at {places}")


def _placed(array: Any, device: int) -> Any:
    """The array, or a copy on a GPU of this rank."""
    devices = current().devices
    if not devices.is_cuda or device < 0 or not is_cupy_dtype(array.dtype):
        return array
    import cupy

    with cupy.cuda.Device(devices.ordinals[device % devices.count]):
        return cupy.asarray(array)


#: Of the program that runs.
_ORACLES: dict[int, OracleTask] = {}


#: By the kinds of their arguments.
_REPEATED: dict[Any, Any] = {}


def _run_oracle(chunk: Any, *arguments: Any) -> None:
    *rest, number = arguments
    _ORACLES[number](chunk, *rest)


class Model:
    """Has a kernel as a method, which uses an attribute."""

    number = 0

    def step(self, chunk: Any, *arguments: Any) -> None:
        _ORACLES[self.number](chunk, *arguments)


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
