# SPDX-License-Identifier: MIT
"""Puts one mistake into each of many random programs, runs them, and says which were reported by the right error.

    python -m tests.property.illegal_programs --programs 200
    python -m tests.property.illegal_programs --programs 1 --seed 42 --only "kernel differs"

A program is a process per rank of its own, since a mistake that is reported ends it. Program i comes from seed + i
alone. Whoever has reported nothing when `--time-limit-s` is over counts as one that hangs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.elements import UserBox
from tests.property.draws import SeededDraws, choice
from tests.property.mistakes import MISTAKES, Illegal, Tampering
from tests.property.program_generator import seeded_program
from tests.property.programs import BufferDecl, Destroy, Fence, Flush, HostTask, Kernel, Step

ODD_RANK = 1
LIMIT_S = 10.0
"""Within which a mistake must be reported."""
_PROGRAMS_TRIED = 40


def illegal_program(seed: int, only: str = "") -> Illegal:
    """The first of some random programs into which a random mistake fits."""
    draws = SeededDraws(seed)
    kinds = [kind for kind in MISTAKES if only in kind]
    for attempt in range(_PROGRAMS_TRIED * len(kinds)):
        change = MISTAKES[kinds[seed % len(kinds)] if attempt < _PROGRAMS_TRIED else choice(draws, kinds)]
        program = seeded_program(seed * _PROGRAMS_TRIED + attempt)
        if len(program.steps) < 40 and (made := change(draws, program)) is not None:
            return made
    raise ValueError(f"no program has room for a mistake of {kinds}")


# ---- in the process of a rank


class Plain:
    """Submits the steps of a program; bodies touch what their accesses say, except for one that was tampered with."""

    def __init__(self, queue: Any, tampering: Tampering | None) -> None:
        self.queue = queue
        self.tampering = tampering
        self.buffers: dict[int, Any] = {}
        self.kept: list[Any] = []

    def run(self, steps: tuple[Step, ...]) -> None:
        fences = []
        for place, step in enumerate(steps):
            how = self.tampering.how if self.tampering is not None and self.tampering.place == place else ""
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
            elif step.action == "barrier":
                self.queue.barrier()
            else:
                self.queue.wait()
        for future in fences:
            future.result()
        self.queue.wait()

    def _make(self, decl: BufferDecl, how: str) -> Any:
        import celerity_py as celerity

        dtype = np.uint32 if decl.element_size_bytes == 4 else np.uint64
        if decl.initial == "none":
            return celerity.Buffer(decl.shape, dtype, name=decl.name)
        values = np.arange(int(np.prod(decl.shape)), dtype=dtype).reshape(decl.shape) + (1 if how == "contents" else 0)
        values = np.asarray(values, dtype)
        if decl.initial == "array":
            return celerity.Buffer.from_array(values, name=decl.name)
        return celerity.Buffer.from_function(decl.shape, dtype, lambda box: values[box.slices], name=decl.name)

    def _fence(self, step: Fence) -> Any:
        from tests.contexts import native_box

        return self.queue.fence(self.buffers[step.buffer], native_box(step.box), on="all" if step.on_all else "master")

    def _submit(self, task: Kernel | HostTask, how: str) -> None:
        import celerity_py as celerity
        from celerity_py import hints
        from tests.contexts import native_box
        from tests.property.live_run import mapper_for

        def body(chunk: Any, *arguments: Any) -> None:
            self._touch(chunk, task, arguments, how)

        def another(chunk: Any, *arguments: Any) -> None:
            self._touch(chunk, task, arguments, how)

        arguments = [getattr(self.buffers[a.buffer], a.mode)(mapper_for(a.mapper, task.box)) for a in task.accesses]
        name = "odd" if how == "other name" else "task"
        if isinstance(task, HostTask):
            where: Any = native_box(task.box) if task.on == "split" else task.on
            self.queue.host_task(body, *arguments, on=where, name=name)
            return
        given: list[Any] = [hints.split_2d()] if task.split_2d else []
        if task.oversubscribe > 1:
            given.append(hints.oversubscribe(task.oversubscribe))
        if task.border:
            given.append(hints.border_first(task.border))
        arguments += [
            celerity.reduction(self.buffers[r.buffer], r.op, include_current=r.include_current) for r in task.reductions
        ]
        arguments.append(2 if how == "other scalar" else 1)
        self.queue.parallel_for(
            native_box(task.box),
            another if how == "other kernel" else body,
            *arguments,
            name=name,
            hints=given,
            constrain=task.granularity,
        )

    def _touch(self, chunk: Any, task: Kernel | HostTask, arguments: tuple[Any, ...], how: str) -> None:
        from tests.contexts import native_box, user_box

        box = user_box(chunk.box)
        if how == "raise":
            raise ArithmeticError("a mistake in a kernel")
        if how == "submit":
            self.queue.wait()
        for access, view in zip(task.accesses, arguments, strict=False):
            region = access.mapper.region(box, task.box, view.shape_box.shape)
            for part in region:
                if access.mode != "write":
                    view[native_box(part)].sum()
                if how == "read beyond" and access.mode == "read":
                    view[native_box(_grown(part))].sum()
                if access.mode == "write" and how == "leave some":
                    _write_all_but_some(view, part)
                elif access.mode != "read" or how == "write read":
                    view[native_box(part)] = 3
                if how == "keep":
                    self.kept.append(view[native_box(part)])
        for out in arguments[len(task.accesses) :]:
            if hasattr(out, "combine"):
                out.combine(np.uint32(1))


def _grown(box: UserBox) -> UserBox:
    return tuple((low, high + 1) for low, high in box)


def _write_all_but_some(view: Any, box: UserBox) -> None:
    from tests.contexts import native_box

    low, high = box[0]
    if high - low > 2:
        view[native_box(((low + 2, high), *box[1:]))] = 3


def run_child(seed: int, only: str) -> int:
    import celerity_py as celerity

    illegal = illegal_program(seed, only)
    rank = 0
    began_s = time.time()
    try:
        with celerity.Queue() as queue:
            rank = celerity.rank()
            began_s = time.time()
            is_odd = illegal.odd_steps is not None and rank == ODD_RANK
            steps = tuple(illegal.program.steps) if not is_odd or illegal.odd_steps is None else illegal.odd_steps
            tampering = illegal.odd_tampering if is_odd and illegal.odd_tampering else illegal.tampering
            Plain(queue, tampering).run(steps)
    except BaseException as error:
        names = [type(error).__name__]
        cause: BaseException | None = error
        while (cause := cause.__cause__ if cause is not None else None) is not None:
            names.append(type(cause).__name__)
        text = str(error).split("\n")[0][:300]
        report = f"[rank {rank}] REPORTED {','.join(names)} after {time.time() - began_s:.1f} s: {text}"
        print(report, file=sys.__stderr__, flush=True)
        raise
    return 0


# ---- the process that starts them


@dataclass(frozen=True)
class Machine:
    num_ranks: int
    devices: str
    transport: str
    limit_s: float


@dataclass
class Verdict:
    kind: str
    outcome: str
    """"right", "other error", "silent" or "hangs"."""
    seconds: float
    text: str = ""


def judge(seed: int, illegal: Illegal, only: str, machine: Machine) -> Verdict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CELERITY_")}
    environment |= {"CELERITY_DEVICES": machine.devices, "PYTHONPATH": os.environ.get("PYTHONPATH", ".")}
    num_ranks, limit_s = machine.num_ranks, machine.limit_s
    if num_ranks > 1:
        environment["CELERITY_TRANSPORT"] = machine.transport
    if illegal.needs_check:
        environment["CELERITY_CHECK"] = "1"
    command = [sys.executable, "-m", "tests.property.illegal_programs", "--child", "--seed", str(seed), "--only", only]
    if num_ranks > 1:
        command = ["mpiexec", "-n", str(num_ranks), *command]
    start_s = time.monotonic()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
        return Verdict(illegal.kind, "hangs", limit_s, output[-2000:])
    seconds = time.monotonic() - start_s
    reports = re.findall(r"REPORTED (\S+) after ([\d.]+) s: (.*)", output)
    if process.returncode == 0:
        return Verdict(illegal.kind, "silent", seconds, output[-500:])
    right = [float(after) for names, after, _ in reports if set(names.split(",")) & set(illegal.expected)]
    if right:
        late = min(right) > LIMIT_S
        return Verdict(illegal.kind, "late" if late else "right", min(right))
    texts = "; ".join(f"{names}: {text}" for names, _, text in reports) or output[-1500:]
    return Verdict(illegal.kind, "other error", seconds, texts)


@dataclass
class Summary:
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    slowest: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.kind][verdict.outcome] += 1
        if verdict.outcome == "right":
            self.slowest[verdict.kind] = max(self.slowest[verdict.kind], verdict.seconds)

    def table(self) -> str:
        total: Counter[str] = sum(self.counts.values(), Counter())
        rows = [
            f"{kind:<40} {dict(counts)}  slowest report {self.slowest[kind]:.1f} s"
            for kind, counts in sorted(self.counts.items())
        ]
        share = 100 * total["right"] / max(1, sum(total.values()))
        return "\n".join([*rows, f"all: {dict(total)}, {share:.1f} % reported by the right error within {LIMIT_S} s"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="mistakes whose name contains this")
    parser.add_argument("--ranks", type=int, default=2, help="at least 2 for ranks that differ")
    parser.add_argument("--devices", default="cpu:2")
    parser.add_argument("--time-limit-s", type=float, default=40.0, help="for one program, start and end included")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time; a failed one waits for 3 s")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run_child(options.seed, options.only)
    summary = Summary()

    def check(seed: int) -> tuple[int, Machine, Verdict]:
        illegal = illegal_program(seed, options.only)
        alone = illegal.odd_steps is None and not illegal.needs_ranks and seed % 2 == 0
        transport = choice(SeededDraws(seed), ("host", "direct"))
        machine = Machine(1 if alone else options.ranks, options.devices, transport, options.time_limit_s)
        return seed, machine, judge(seed, illegal, options.only, machine)

    with ThreadPoolExecutor(options.jobs) as pool:
        for seed, machine, verdict in pool.map(check, range(options.seed, options.seed + options.programs)):
            summary.add(verdict)
            if verdict.outcome != "right":
                print(f"seed {seed} {machine} {verdict.outcome}: {verdict.kind}: {verdict.text[:700]}", flush=True)
    print(summary.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
