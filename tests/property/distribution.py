# SPDX-License-Identifier: MIT
"""Tables of the contents of random programs, which say whether they exercise everything."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

from celerity_py._native_testing import COPY_REASONS, INSTRUCTION_KINDS
from tests.property.loops import loop_features, replay_features
from tests.property.programs import Access, BufferDecl, Destroy, Epoch, Fence, Flush, HostTask, Kernel, Program
from tests.verification.graph_records import Record

COPY_PATHS = (
    *(
        "copy user->host",
        "copy user->device",
        "copy host->device",
        "copy device->host",
        "copy device->device",
        "copy peer",
    ),
    *(
        "copy host->host",
        "copy host->user",
        "copy device->user",
        "copy user->user",
        "copy of several boxes",
    ),
    *(f"copy for {reason}" for reason in COPY_REASONS),
    *("send from device memory", "receive into device memory", "repetition from a template"),
)
REQUIRED_FEATURES = (
    *("a buffer per step", "a buffer per step, with fences", "a buffer per step, many steps"),
    *("a gather per step", "a gather, cyclic", "replay of a task", "replay of several tasks", "a plain loop"),
    "replicated execution",
    "periodic in some dimensions",
)
REQUIRED_PERCENT = 5


@dataclass
class Distribution:
    """Counts programs by what occurs in them."""

    programs: int = 0
    with_path: Counter[str] = field(default_factory=Counter)
    with_feature: Counter[str] = field(default_factory=Counter)
    task_counts: list[int] = field(default_factory=list)
    buffer_counts: list[int] = field(default_factory=list)

    def add(self, program: Program, paths: Counter[str]) -> None:
        self.programs += 1
        self.with_path.update(paths.keys())
        self.with_feature.update(features(program))
        self.task_counts.append(program.task_count)
        self.buffer_counts.append(len(program.buffers))

    def merge(self, other: Distribution) -> None:
        self.programs += other.programs
        self.with_path.update(other.with_path)
        self.with_feature.update(other.with_feature)
        self.task_counts += other.task_counts
        self.buffer_counts += other.buffer_counts

    def percent(self, path: str) -> float:
        return 100 * self.with_path[path] / max(1, self.programs)

    def table(self) -> str:
        rows = [f"{path:<32} {self.percent(path):5.1f} %" for path in (*INSTRUCTION_KINDS, *COPY_PATHS)]
        rows += [f"{name:<32} {100 * n / self.programs:5.1f} %" for name, n in sorted(self.with_feature.items())]
        counts = f"tasks: median {statistics.median(self.task_counts)}, most {max(self.task_counts)}"
        buffers = f"buffers: median {statistics.median(self.buffer_counts)}"
        return "\n".join([f"{self.programs} programs; {counts}; {buffers}", *rows])

    def counts(self) -> dict[str, int]:
        """Programs, tasks, and programs by what occurs in them."""
        return {"programs": self.programs, "tasks": sum(self.task_counts), **self.with_path, **self.with_feature}

    def check(self) -> None:
        """Nothing may be too rare to be tested."""
        rare = [path for path in (*INSTRUCTION_KINDS, *COPY_PATHS) if self.percent(path) < REQUIRED_PERCENT]
        rare += [name for name in REQUIRED_FEATURES if 100 * self.with_feature[name] < REQUIRED_PERCENT * self.programs]
        assert not rare, f"in less than {REQUIRED_PERCENT} % of the programs: {rare}\n{self.table()}"
        assert statistics.median(self.task_counts) >= 12
        assert statistics.median(self.buffer_counts) >= 3


def memory_name(memory: int) -> str:
    return {0: "user", 1: "host"}.get(memory, "device")


def paths_of(record: Record) -> list[str]:
    """The kind of an instruction, and the ways that its data takes."""
    kind = record["kind"]
    result = [kind]
    if kind == "copy":
        source, destination = record["source"][0], record["destination"][0]
        first, second = memory_name(source), memory_name(destination)
        is_peer = first == second == "device" and source != destination
        result += ["copy peer" if is_peer else f"copy {first}->{second}", f"copy for {record['reason']}"]
        if len(record["boxes"]) > 1:
            result.append("copy of several boxes")
    elif kind == "send" and record["source"][0] >= 2:
        result.append("send from device memory")
    elif kind == "receive" and record["destination"][0] >= 2:
        result.append("receive into device memory")
    return result


def features(program: Program) -> set[str]:
    """Names of the features of a program, and of the settings that it runs under."""
    settings = program.settings
    result = (
        loop_features(program)
        | replay_features(program)
        | {
            f"{settings.num_ranks} ranks",
            f"{settings.num_devices} devices",
            f"lookahead {settings.lookahead}",
        }
    )
    result.add(f"horizon step {settings.horizon_step}")
    pairs = settings.num_ranks * (settings.num_ranks - 1) // 2
    if pairs:
        direct = len(settings.direct_pairs)
        result.add("direct transport" if direct == pairs else "mixed transport" if direct else "host transport")
    if settings.single_fifo:
        result.add("single fifo per device")
    result |= {
        f"host object in {type(step).__name__}" for step in program.steps if any(getattr(step, "side_effects", ()))
    }
    for step in program.steps:
        if isinstance(step, BufferDecl):
            places = [step.device, *(part.device for part in step.parts)]
            result |= {f"{len(step.shape)}-D buffer", f"initial {step.initial}"}
            result |= {"initial contents on a device" for place in places if place >= 0}
        elif isinstance(step, Kernel | HostTask):
            result |= {name for access in step.accesses for name in _access_features(access)}
            result.add(f"host task {step.on}" if isinstance(step, HostTask) else f"{len(step.box)}-D kernel")
            if isinstance(step, Kernel):
                result |= _kernel_features(step)
                targets = [program.buffers[reduction.buffer] for reduction in step.reductions]
                if any(max(target.shape, default=1) > 1 for target in targets):
                    result.add("reduction of an array")
        elif isinstance(step, Fence):
            result.add("fence on all ranks" if step.on_all else "fence on rank 0")
            result.add("fence to a device" if step.to_device else "fence to the host")
        elif isinstance(step, Destroy):
            result.add("buffer death")
        elif isinstance(step, Epoch):
            result.add("barrier" if step.action == "barrier" else "wait")
        elif isinstance(step, Flush):
            result.add("flush")
    return result


def _access_features(access: Access) -> set[str]:
    mapper = access.mapper
    name = str(mapper).split("(")[0] if mapper.is_callable else mapper.kind
    result = {f"mode {access.mode}", f"mapper {name}"}
    wrap = mapper.arguments[2] if name == "neighborhood" else False
    if isinstance(wrap, tuple) and len(set(wrap)) > 1:
        result.add("periodic in some dimensions")
    return result


def _kernel_features(kernel: Kernel) -> set[str]:
    result = set()
    for reduction in kernel.reductions:
        result |= {f"reduction {reduction.op}"} | (
            {"reduction includes current"} if reduction.include_current else set()
        )
    if kernel.operation != "kernel":
        result.add(kernel.operation)
    if kernel.granularity is not None:
        result.add("constrained split")
    if kernel.split != "rows":
        result.add(kernel.split)
    if kernel.oversubscribe > 1:
        result.add("oversubscription")
    if kernel.border > 0:
        result.add("border first")
    return result
