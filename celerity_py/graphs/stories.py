# SPDX-License-Identifier: MIT
"""What happened to a task: its line in the program, its plan, what ran where and when, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from celerity_py.graphs.nodes import CommandNode, Dependency, InstructionNode, TaskNode

_MOST_BLOCKERS = 3


class Sightings(NamedTuple):
    """What the run knows of its tasks beyond the plan, at a moment."""

    #: The lines that have submitted, by number of the submission.
    sites: Mapping[int, str]
    #: The ages in seconds of the instructions that are issued and not complete, by number. None: nobody knows.
    active: Mapping[int, float] | None
    #: Reads the timeline: where and when each instruction ran, by number. Empty without a timeline.
    read_runs: Callable[[], Mapping[int, str]]


class Storyteller:
    """Tells of tasks and their instructions on this rank.

    Args:
        tasks: All tasks that are known.
        commands: Those of this rank.
        instructions: Those of this rank.
        seen: What is known of them.
    """

    def __init__(
        self,
        tasks: Iterable[TaskNode],
        commands: Iterable[CommandNode],
        instructions: Iterable[InstructionNode],
        seen: Sightings,
    ) -> None:
        self._tasks = {node.key: node for node in tasks}
        self._commands = list(commands)
        self._instructions = {node.number: node for node in instructions}
        self._seen = seen

    def find(self, task: int | str) -> TaskNode | None:
        """A task by its number, or the newest one of a name."""
        if isinstance(task, int):
            return self._tasks.get(f"T{task}")
        return next((node for node in reversed(self._tasks.values()) if node.name == task), None)

    def find_submission(self, number: int) -> TaskNode | None:
        """The task of a submission."""
        return next((node for node in self._tasks.values() if node.submission == number), None)

    def tell(self, task: TaskNode) -> list[str]:
        """The story, a line per fact."""
        own = self._instructions_of(task)
        runs = self._seen.read_runs()
        lines = [*self._tell_origin(task)]
        lines += [f"{node.label}: {'; '.join(node.lines)}" for node in self._commands if node.task == task.task]
        lines += [f"{node.label}: {self._state(node, runs)}" for node in own]
        if not own:
            lines.append("no instructions: the planner holds its commands back, or this rank has no share")
        return lines

    def tell_briefly(self, task: TaskNode, most: int) -> list[str]:
        """The origin of the task, and its instructions that are not complete: `most` lines in all."""
        open_ones = [node for node in self._instructions_of(task) if self._is_open(node)]
        lines = [*self._tell_origin(task), *(f"{node.label}: {self._state(node, {})}" for node in open_ones)]
        if len(lines) > most:
            lines[most - 1 :] = [f"and {len(lines) - most + 1} more lines"]
        return lines

    def _instructions_of(self, task: TaskNode) -> list[InstructionNode]:
        return [node for node in self._instructions.values() if node.task == task.task]

    def _tell_origin(self, task: TaskNode) -> Sequence[str]:
        site = self._seen.sites.get(task.submission)
        first = task.label + (f", submitted at {site}" if site else "")
        after = ", ".join(map(self._name, task.dependencies))
        return [first, f"after {after}"] if after else [first]

    def _name(self, dependency: Dependency) -> str:
        known = self._tasks.get(dependency.on)
        return str(dependency) if known is None else str(dependency).replace(dependency.on, known.label, 1)

    def _is_open(self, node: InstructionNode) -> bool:
        active = self._seen.active or {}
        return node.number in active or bool(self._find_blockers(node)[0])

    def _state(self, node: InstructionNode, runs: Mapping[int, str]) -> str:
        ran = runs.get(node.number, "")
        if ran or self._seen.active is None:
            return ran or "planned"
        blockers, is_sure = self._find_blockers(node)
        names = self._name_all(blockers)
        if node.number in self._seen.active:
            return f"issued {self._seen.active[node.number]:.1f} s ago{f', behind {names}' if names else ''}"
        if names:
            return f"waits for {names}"
        return "complete" if is_sure else "complete, or waits for what is not kept"

    def _find_blockers(self, node: InstructionNode) -> tuple[list[int], bool]:
        """The active instructions before a node, the nearest ones; and whether all nodes on the way are known."""
        active = self._seen.active or {}
        oldest = min(active, default=0)
        found, seen, left, is_sure = [], {node.number}, [node.number], True
        while left:
            for number in self._predecessors(left.pop()):
                if number in seen or number < oldest or not active:
                    continue  # what is older than all that is under way is complete
                seen.add(number)
                if number in active:
                    found.append(number)
                elif number in self._instructions:
                    left.append(number)
                else:
                    is_sure = False
        return sorted(found), is_sure

    def _predecessors(self, number: int) -> list[int]:
        return [dependency.number for dependency in self._instructions[number].dependencies]

    def _name_all(self, numbers: Sequence[int]) -> str:
        shown = ", ".join(map(self._name_instruction, numbers[:_MOST_BLOCKERS]))
        more = len(numbers) - _MOST_BLOCKERS
        return f"{shown} and {more} more" if more > 0 else shown

    def _name_instruction(self, number: int) -> str:
        known = self._instructions.get(number)
        task = self._tasks.get(f"T{known.task}") if known is not None else None
        what = f"I{number} {known.kind.replace('_', ' ')}" if known is not None else f"I{number}"
        return what if task is None else f"{what} of {task.label}"
