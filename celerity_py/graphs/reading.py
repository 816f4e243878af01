# SPDX-License-Identifier: MIT
"""Makes the nodes of the three graphs of the records that the scheduler keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from celerity_py.graphs.explanations import Explainer
from celerity_py.graphs.nodes import (
    Access,
    CommandNode,
    Dependency,
    InstructionNode,
    NamedBuffer,
    Node,
    TaskNode,
    show_part,
    to_box,
    to_region,
    with_buffers,
)
from celerity_py.vocabulary.notation import show

if TYPE_CHECKING:
    from celerity_py._native import GraphLog

_Records: TypeAlias = "Sequence[Mapping[str, Any]]"
_Node = TypeVar("_Node", bound=Node)
#: An edge from a node of these kinds stands for all nodes before it, whatever its reason was.
_ORDERING = frozenset({"horizon", "epoch"})
_MEMORY = frozenset({"alloc", "free"})


class Snapshot(NamedTuple):
    """The nodes of some tasks."""

    tasks: tuple[TaskNode, ...]
    commands: tuple[CommandNode, ...]
    instructions: tuple[InstructionNode, ...]
    rank: int
    num_ranks: int
    #: Whether the commands are those of all ranks.
    has_all_ranks: bool


def read(log: GraphLog, first: int, end: int) -> Snapshot:
    """The nodes of the kept tasks from `first` to before `end`."""
    tasks, allocs, buffers = log.snapshot(first, end)
    return _Reader(tasks, allocs, buffers, log.num_ranks).read(log)


class _Reader:
    def __init__(self, tasks: _Records, allocs: _Records, buffers: _Records, num_ranks: int) -> None:
        self._tasks = tasks
        self._allocs = allocs
        self._num_ranks = num_ranks
        self._buffers = {each["id"]: NamedBuffer(each["id"], each["name"], each["dims"]) for each in buffers}
        self._dims = {task["id"]: task["dims"] for task in tasks}
        self._task_kinds = {task["id"]: task["kind"] for task in tasks}
        self._labels = {task["id"]: self._label(task) for task in tasks}
        self._command_kinds: dict[tuple[int, int], str] = {
            (record["rank"], record["id"]): record["kind"] for task in tasks for record in task["commands"]
        }

    def read(self, log: GraphLog) -> Snapshot:
        instructions = [record for task in self._tasks for record in task["instructions"]]
        explainer = Explainer(instructions, self._allocs, self._labels, self._dims, self._buffers)
        return Snapshot(
            _name_buffers(map(self._task, self._tasks)),
            _name_buffers(self._command(record) for task in self._tasks for record in task["commands"]),
            tuple(self._instruction(record, explainer) for record in instructions),
            log.rank,
            log.num_ranks,
            log.knows_all_ranks,
        )

    def _label(self, task: Mapping[str, Any]) -> str:
        label, kind = f"T{task['id']}", task["kind"]
        if kind == "horizon":
            return f"{label} horizon {task['num_horizons']}"
        if kind == "fence":
            subjects = [str(self._buffers[buffer]) for buffer, _ in task["reads"]]
            subjects += [f"host object {number}" for number in task["side_effects"]]
            return f"{label} fence of {', '.join(subjects) or 'nothing'}"
        return f'{label} epoch "{task["name"]}"' if kind == "epoch" else f'{label} "{task["name"]}"'

    def _task(self, task: Mapping[str, Any]) -> TaskNode:
        accesses = self._accesses(task)
        lines = []
        if task["kind"] in {"device_kernel", "host_task"}:
            space = f" {show(to_box(task['index_space'], task['dims']))}" if task["dims"] else ""
            lines.append(f"{task['kind'].replace('_', ' ')}{space}")
        reduced = {reduction["buffer"]: reduction for reduction in task["reductions"]}
        lines += [str(access) for access in accesses if access.verb == "reads" or access.buffer.id not in reduced]
        lines += [f"reduces {self._buffers[buffer]} by {_operation(each)}" for buffer, each in reduced.items()]
        if task["kind"] != "fence":
            lines += [_side_effect(number) for number in task["side_effects"]]
        dependencies = _dependencies(task["dependencies"], task["kind"], "T", self._task_kinds.get)
        return TaskNode(
            f"T{task['id']}",
            task["kind"],
            task["id"],
            self._labels[task["id"]],
            tuple(lines),
            dependencies,
            accesses,
            task["num_horizons"],
            task["name"],
            task["submission"],
        )

    def _command(self, record: Mapping[str, Any]) -> CommandNode:
        rank, task = record["rank"], record["task"]
        prefix = f"R{rank}.C" if self._num_ranks > 1 else "C"
        kinds = self._command_kinds
        dependencies = _dependencies(
            record["dependencies"], record["kind"], prefix, lambda number: kinds.get((rank, number))
        )
        return CommandNode(
            f"{prefix}{record['id']}",
            record["kind"],
            task,
            f"{prefix}{record['id']} {record['kind'].replace('_', '-')}",
            tuple(self._describe_command(record)),
            dependencies,
            self._accesses(record),
            rank,
            record.get("transfer"),
            tuple(target for target, _ in record.get("targets", ())),
        )

    def _describe_command(self, record: Mapping[str, Any]) -> list[str]:
        label, kind = self._labels[record["task"]], record["kind"]
        if kind == "execution":
            dims = self._dims[record["task"]]
            share = f" {show_part(to_region(record['blocks'] or [record['chunk']], dims))}" if dims else ""
            return [f"{label}{share}", *map(str, self._accesses(record))]
        if kind == "push":
            buffer = self._buffers[record["transfer"][1]]
            parts = [
                f"{buffer} {show_part(to_region(boxes, buffer.dims))} to R{rank}" for rank, boxes in record["targets"]
            ]
            return [*parts, f"read there by {label}"]
        if kind == "await_push":
            buffer = self._buffers[record["transfer"][1]]
            return [f"{buffer} {show_part(to_region(record['awaited'], buffer.dims))}", f"read here by {label}"]
        if kind == "reduction":
            buffer = self._buffers[record["transfer"][1]]
            return [
                f"{buffer} by {_operation(record['reduction'])}",
                f"the partial results of {len(record['contributors'])} ranks; read by {label}",
            ]
        return [label]

    def _instruction(self, record: Mapping[str, Any], explainer: Explainer) -> InstructionNode:
        what, why = explainer.explain(record)
        pairs = list(zip(record["dependencies"], record["kinds"], strict=True))
        task = record["key"][0]
        return InstructionNode(
            f"I{record['id']}",
            record["kind"],
            task,
            f"I{record['id']} {what}",
            (why,) if why else (),
            _dependencies(pairs, record["kind"], "I", explainer.kind_of),
            (),
            why,
        )

    def _accesses(self, record: Mapping[str, Any]) -> tuple[Access, ...]:
        return tuple(
            Access(verb, self._buffers[buffer], to_region(boxes, self._buffers[buffer].dims))
            for verb in ("reads", "writes")
            for buffer, boxes in record[verb]
            if boxes
        )


def _side_effect(number: int) -> str:
    return f"uses host object {number}" if number else "in the order of host tasks"


def _operation(reduction: Mapping[str, Any]) -> str:
    name: str = reduction["callable_name"] if reduction["op"] == "callable" else reduction["op"]
    return name


def _dependencies(
    pairs: Iterable[tuple[int, str]], kind: str, prefix: str, kind_of: Callable[[int], str | None]
) -> tuple[Dependency, ...]:
    def judge(number: int, told: str) -> str:
        kinds = {kind, kind_of(number)}
        return "order" if kinds & _ORDERING else "memory" if kinds & _MEMORY else told

    return tuple(Dependency(f"{prefix}{number}", judge(number, told)) for number, told in pairs)


def _name_buffers(nodes: Iterable[_Node]) -> tuple[_Node, ...]:
    by_key = {node.key: node for node in nodes}
    return tuple(
        replace(
            node,
            dependencies=tuple(
                with_buffers(each, by_key[each.on].accesses, node.accesses) if each.on in by_key else each
                for each in node.dependencies
            ),
        )
        for node in by_key.values()
    )
