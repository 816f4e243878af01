# SPDX-License-Identifier: MIT
"""Runs an illegal program on one rank: the steps of the program, and the mistake."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.property.illegal_replays import make_mistake
from tests.property.mistake import Illegal, Tampering
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
    Step,
)
from tests.verification.elements import UserBox

ODD_RANK = 1


class Plain:
    """Submits the steps of a program; bodies touch the elements of their accesses, except in one tampered task."""

    def __init__(self, queue: Any, tampering: Tampering | None) -> None:
        self.queue = queue
        self.tampering = tampering
        self.buffers: dict[int, Any] = {}
        self.objects: dict[int, Any] = {}
        self.kept: list[Any] = []

    def run(self, steps: tuple[Step, ...]) -> None:
        fences = []
        for place, step in enumerate(steps):
            how = self.tampering.how if self.tampering is not None and self.tampering.place == place else ""
            if how in CALLS:
                CALLS[how](self.queue)
            make_mistake(self, how)
            if isinstance(step, BufferDecl):
                self.buffers[step.number] = self._make(step, how)
            elif isinstance(step, Destroy):
                self.buffers.pop(step.buffer, None)
            elif isinstance(step, Flush):
                self.queue.flush()
            elif isinstance(step, Kernel | HostTask):
                self._submit(step, how)
            elif isinstance(step, Fence):
                fences.append(self._fence(step))
            elif isinstance(step, ObjectFence):
                fences.append(self.queue.fence(self._object(step.object), on="all" if step.on_all else "master"))
            else:
                assert isinstance(step, Epoch), step
                (self.queue.barrier if step.action == "barrier" else self.queue.wait)()
        for future in fences:
            future.result()
        self.queue.wait()
        for view in self.kept:
            view[...]

    def _make(self, decl: BufferDecl, how: str) -> Any:
        import celerity_py as celerity

        dtype = np.uint32 if decl.element_size_bytes == 4 else np.uint64
        if decl.initial == "none":
            return celerity.Buffer(decl.shape, dtype, name=decl.name)
        values = np.arange(int(np.prod(decl.shape)), dtype=dtype).reshape(decl.shape) + (1 if how == "contents" else 0)
        values = np.asarray(values, dtype)
        if decl.initial == "array":
            return celerity.Buffer.from_array(values, name=decl.name)
        if how == "other function":
            return celerity.Buffer.from_function(decl.shape, dtype, lambda box: values[box.slices] + 1, name=decl.name)
        return celerity.Buffer.from_function(decl.shape, dtype, lambda box: values[box.slices], name=decl.name)

    def _object(self, number: int) -> Any:
        import celerity_py as celerity

        if number not in self.objects:
            self.objects[number] = celerity.HostObject([])
        return self.objects[number]

    def _fence(self, step: Fence) -> Any:
        from tests.verification.contexts import native_box

        on, to = "all" if step.on_all else "master", "device" if step.to_device else "host"
        return self.queue.fence(self.buffers[step.buffer], native_box(step.box), on=on, to=to)

    def _submit(self, task: Kernel | HostTask, how: str) -> None:
        import celerity_py as celerity
        from tests.property.live_arguments import hints_of, mapper_for
        from tests.verification.contexts import native_box

        def body(chunk: Any, *arguments: Any) -> None:
            BODIES.get(how, Call.touch)(Call(self, chunk, task, arguments))

        def another(chunk: Any, *arguments: Any) -> None:
            Call(self, chunk, task, arguments).touch()

        arguments = [getattr(self.buffers[a.buffer], a.mode)(mapper_for(a.mapper, task.box)) for a in task.accesses]
        name = "odd" if how == "other name" else "task"
        if isinstance(task, HostTask):
            where: Any = native_box(task.box) if task.on == "split" else task.on
            arguments += [self._object(each).side_effect() for each in task.objects]
            options = {"name": name, "unordered": task.unordered, "constrain": task.granularity}
            self.queue.host_task(body, *arguments, on=where, **options)
            return
        for r in task.reductions:
            operation: Any = np.bitwise_xor if r.op in ON_HOST else r.op
            identity = 0 if r.op in ON_HOST else None
            target = self.buffers[r.buffer]
            arguments.append(celerity.reduction(target, operation, r.include_current, identity=identity))
        arguments.append(2 if how == "other scalar" else 1)
        self.queue.parallel_for(
            native_box(task.box),
            another if how == "other kernel" else body,
            *arguments,
            name=name,
            hints=hints_of(task),
            constrain=task.granularity,
        )


@dataclass
class Call:
    """Of a body, for one chunk."""

    plain: Plain
    chunk: Any
    task: Kernel | HostTask
    arguments: tuple[Any, ...]

    def views(self, *modes: str) -> list[tuple[Access, Any, list[UserBox]]]:
        """Those with one of these modes, or all; with the boxes that the access declares."""
        from tests.verification.contexts import user_box

        box = user_box(self.chunk.box)
        return [
            (access, view, access.mapper.region(box, self.task.box, view.shape_box.shape))
            for access, view in zip(self.task.accesses, self.arguments, strict=False)
            if not modes or access.mode in modes
        ]

    def touch(self, write: Callable[[Any, UserBox], None] | None = None) -> None:
        """Read and write as the accesses declare; `write` is for those that overwrite."""
        from tests.verification.contexts import native_box

        for access, view, boxes in self.views():
            for box in boxes:
                if access.mode != "write":
                    view[native_box(box)].sum()
                if access.mode == "write" and write is not None:
                    write(view, box)
                elif access.mode != "read":
                    view[native_box(box)] = 3
        for out in self.arguments[len(self.task.accesses) :]:
            if hasattr(out, "combine"):
                out.combine(np.ones(out.array.shape, np.uint32))


# ---- mistakes in bodies


def _raise(call: Call) -> None:
    raise ArithmeticError("a mistake in a kernel")


def _read_beyond(call: Call) -> None:
    from tests.verification.contexts import native_box

    call.touch()
    for _, view, boxes in call.views("read"):
        for box in boxes:
            view[native_box(tuple((low, high + 1) for low, high in box))].sum()


def _write_read(call: Call) -> None:
    from tests.verification.contexts import native_box

    for _, view, boxes in call.views("read"):
        for box in boxes:
            view[native_box(box)] = 3
    call.touch()


def _keep(call: Call) -> None:
    from tests.verification.contexts import native_box

    call.touch()
    call.plain.kept += [view[native_box(box)] for _, view, boxes in call.views() for box in boxes]


def _keep_view(call: Call) -> None:
    call.touch()
    call.plain.kept += [view for _, view, _ in call.views()]


def _write_all_but_some(view: Any, box: UserBox) -> None:
    from tests.verification.contexts import native_box

    low, high = box[0]
    if high - low > 2:
        view[native_box(((low + 2, high), *box[1:]))] = 3


def _write_local(view: Any, box: UserBox) -> None:
    """As if each chunk began at zero."""
    from tests.verification.contexts import native_box

    view[native_box(tuple((0, high - low) for low, high in box))] = 3


def _write_between(call: Call) -> None:
    call.touch()
    for _, view, boxes in call.views("write", "read_write"):
        if boxes:
            view.array[...] = 3


def _use_captured(call: Call) -> None:
    next(iter(call.plain.buffers.values()))[...]


def _use_as_array(call: Call) -> None:
    [view * 2 for _, view, _ in call.views()]


BODIES: dict[str, Callable[[Call], None]] = {
    "raise": _raise,
    "submit": lambda call: call.plain.queue.wait(),
    "read beyond": _read_beyond,
    "write read": _write_read,
    "keep": _keep,
    "keep view": _keep_view,
    "leave some": lambda call: call.touch(_write_all_but_some),
    "local indices": lambda call: call.touch(_write_local),
    "between boxes": _write_between,
    "captured buffer": _use_captured,
    "view as array": _use_as_array,
    "assign a fraction": lambda call: call.touch(lambda view, box: view.__setitem__(..., 0.5)),
}


# ---- wrong calls


def _ignore(*_: Any) -> None:
    """A body that does nothing."""


def _launch(queue: Any, *arguments: Any, space: Any = 4, body: Any = _ignore, **options: Any) -> None:
    queue.parallel_for(space, body, *arguments, **options)
    queue.wait()


def _table() -> Any:
    import celerity_py as celerity

    return celerity.Buffer.from_array(np.zeros((4, 6), np.uint32), name="table")


def _total() -> Any:
    import celerity_py as celerity

    return celerity.reduction(celerity.Buffer(1, np.uint32, name="total"), "sum")


def _read_with(queue: Any, mapper: Any) -> None:
    _launch(queue, _table().read(mapper))


def _slice_at(queue: Any) -> None:
    from celerity_py import access

    _launch(queue, _table().read(access.slice(1, at=6)))


def _uncalled_mapper(queue: Any) -> None:
    from celerity_py import access

    _read_with(queue, access.all)


def _pure_of_a_list(queue: Any) -> None:
    from celerity_py import Box, access

    ends = [4, 6]
    _read_with(queue, access.pure(lambda chunk: Box((0, 0), ends)))


def _mapper_that_submits(queue: Any) -> None:
    def mapper(chunk: Any) -> Any:
        queue.wait()

    _read_with(queue, mapper)


def _fence_beyond(queue: Any) -> None:
    from celerity_py import Box

    queue.fence(_table(), Box((0, 0), (5, 6))).result()


def _far_away(queue: Any) -> None:
    from celerity_py import Box

    _launch(queue, space=Box((0,), (4,)).shift(2**63 - 1))


def _many_parts(queue: Any) -> None:
    from celerity_py import hints

    _launch(queue, hints=[hints.oversubscribe(2**62)])


def _two_reductions(queue: Any) -> None:
    total = _total()
    _launch(queue, total, total)


def _combine(value: Any) -> Callable[[Any], None]:
    return lambda queue: _launch(queue, _total(), body=lambda chunk, out: out.combine(value))


def _reducer_as_number(queue: Any) -> None:
    _launch(queue, _total(), body=lambda chunk, out: out + 1)


def _write_argument(queue: Any) -> None:
    _launch(queue, np.zeros(4), body=lambda chunk, values: values.__setitem__(0, 1))


def _host_task(body: Any) -> Callable[[Any], None]:
    def call(queue: Any) -> None:
        from celerity_py import access

        queue.host_task(body, _table().read(access.all()), on="once")
        queue.wait()

    return call


_KEPT: list[Any] = []


def _fail(*_: Any) -> None:
    raise ArithmeticError("a mistake in a task")


def _keep_in_host_task(part: Any, view: Any) -> None:
    _KEPT.append(view[...])


def _wrong_function(queue: Any) -> None:
    import celerity_py as celerity
    from celerity_py import access

    buffer = celerity.Buffer.from_function((4, 6), np.uint32, lambda box: np.zeros(5, np.uint32), name="made")
    _launch(queue, buffer.read(access.all()))


def _configure(queue: Any) -> None:
    import celerity_py as celerity

    celerity.configure(check=True)


def _fork(queue: Any) -> None:
    """The child reports its exception, and the parent fails after that."""
    child = os.fork()
    if child == 0:
        try:
            queue.wait()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            report(error, "a child", time.time())
        os._exit(1)
    os.waitpid(child, 0)
    raise ArithmeticError("the child has ended")


CALLS: dict[str, Callable[[Any], None]] = {
    "a bare buffer as an argument": lambda queue: _launch(queue, _table()),
    "a future as an argument": lambda queue: _launch(queue, queue.fence(_table())),
    "a list of accesses": lambda queue: _launch(queue, [_table().read(lambda chunk: chunk.box)]),
    "an access without a call": lambda queue: _launch(queue, _table().read),
    "a mapper without a call": _uncalled_mapper,
    "a buffer as an array": lambda queue: np.sum(_table()),
    "an index space of 2**64 items": lambda queue: _launch(queue, space=2**64),
    "an index space of four dimensions": lambda queue: _launch(queue, space=(2, 2, 2, 2)),
    "a slice at an index that is none": _slice_at,
    "a fence beyond the buffer": _fence_beyond,
    "coordinates beyond 64 bits": _far_away,
    "a hint of 2**62 parts": _many_parts,
    "a constraint of other dimensions": lambda queue: _launch(queue, constrain=(1, 1)),
    "a pure mapper of a list": _pure_of_a_list,
    "a mapper submits": _mapper_that_submits,
    "two reductions into one buffer": _two_reductions,
    "a reducer as a number": _reducer_as_number,
    "a fraction combined into integers": _combine(0.5),
    "an array argument is written": _write_argument,
    "a host task raises": _host_task(_fail),
    "a host task keeps an array": _host_task(_keep_in_host_task),
    "from_function returns another shape": _wrong_function,
    "a setting after the start": _configure,
    "a forked child waits": _fork,
    "raise outside": _fail,
}


# ---- the process


def report(error: BaseException, who: str, began_s: float) -> None:
    """One line for whoever has started this process: the classes of an error, of its bases and of its causes."""
    names: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        names += [cls.__name__ for cls in type(cause).__mro__ if cls.__module__.startswith("celerity_py")]
        names.append(type(cause).__name__)
        cause = cause.__cause__
    text = str(error).split("\n")[0][:300]
    line = f"[{who}] REPORTED {','.join(dict.fromkeys(names))} after {time.time() - began_s:.1f} s: {text}\n"
    os.write(2, line.encode())


def run_illegal(illegal: Illegal) -> int:
    """Run a program as one of its ranks, and report its exception."""
    import celerity_py as celerity
    from celerity_py.executor.network.launch_detection import find_place

    place = find_place(os.environ)
    is_odd = illegal.odd_steps is not None and place is not None and place.rank == ODD_RANK
    tampering = illegal.odd_tampering if is_odd and illegal.odd_tampering else illegal.tampering
    if tampering is not None and tampering.how == "other settings":
        os.environ["CELERITY_HORIZON_STEP"] = "7"
    steps = tuple(illegal.program.steps) if not is_odd or illegal.odd_steps is None else illegal.odd_steps
    rank = 0
    began_s = time.time()
    try:
        with celerity.Queue() as queue:
            rank = celerity.rank()
            began_s = time.time()
            Plain(queue, tampering).run(steps)
    except BaseException as error:
        report(error, f"rank {rank}", began_s)
        sys.stdout.flush()
        raise
    return 0
