# SPDX-License-Identifier: MIT
"""The graphs of a run, as `queue.graphs()` returns them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from celerity_py.graphs.drawing import Cluster, to_svg, write_dot
from celerity_py.graphs.nodes import CommandNode, Dependency, Node
from celerity_py.graphs.reading import read
from celerity_py.graphs.stories import Sightings, Storyteller
from celerity_py.scheduler.errors import UsageError

if TYPE_CHECKING:
    from celerity_py._native import GraphLog
    from celerity_py.configuration import TaskWindow

_DRAWING_LIMIT_S: Final = 60.0


class Graph:
    """One graph of a run: its nodes, and its text and picture by graphviz. A notebook shows the picture.

    It does not change. Any thread may use it, on any rank by itself.

    Attributes:
        name: "task", "command" or "instruction".
        title: The first line of the picture.
        nodes: All nodes. The `repr` of a node says all about it.
    """

    __slots__ = ("_clusters", "_crossing", "name", "nodes", "title")

    def __init__(
        self, name: str, title: str, clusters: Sequence[Cluster], crossing: Sequence[tuple[str, Dependency]] = ()
    ) -> None:
        self.name = name
        self.title = title
        self.nodes: tuple[Node, ...] = tuple(node for cluster in clusters for node in cluster.nodes)
        self._clusters = clusters
        self._crossing = crossing

    def dot(self) -> str:
        """The graph as text in the language of graphviz."""
        return write_dot(self.title, self._clusters, self._crossing)

    def svg(self, limit_s: float = _DRAWING_LIMIT_S) -> str:
        """The graph as a picture.

        Args:
            limit_s: The largest time for the drawing, in seconds.

        Raises:
            ResourceError: If graphviz is not installed, fails, or takes longer than `limit_s`.
        """
        return to_svg(self.dot(), f"{self.name} graph", limit_s)

    def _repr_svg_(self) -> str | None:
        return None if shutil.which("dot") is None else self.svg()

    def __repr__(self) -> str:
        hint = "" if shutil.which("dot") else "; install graphviz to see it as a picture"
        return f"<{self.title}: {len(self.nodes)} nodes{hint}>"


class Graphs:
    """The three graphs of a run up to now, for a window of its tasks.

    They do not change, and `story` tells of the same moment. Any thread may use them, on any rank by itself.

    Attributes:
        task: The same on all ranks: one node per submit, and horizons.
        command: The shares of the tasks, and what ranks exchange for them. Up to 64 ranks; of more, those of this rank.
        instruction: The operations of this rank, each with the reason why it exists.
    """

    __slots__ = ("_storyteller", "_window", "command", "instruction", "task")

    def __init__(self, log: GraphLog, window: TaskWindow, seen: Sightings | None = None) -> None:
        kept = log.task_numbers()
        chosen = _choose(kept, window)
        snapshot = read(log, chosen.start, chosen.stop)
        tasks = snapshot.tasks
        labels = {node.task: node.label for node in tasks}
        shown = _describe_tasks(chosen, kept, window)
        commands = sorted(snapshot.commands, key=lambda node: node.rank)
        ranks = f"{snapshot.num_ranks} ranks" if snapshot.has_all_ranks else f"rank {snapshot.rank}"
        whose = f" of rank {snapshot.rank}" if snapshot.num_ranks > 1 else ""
        self.task = Graph("task", f"Tasks {shown}", [Cluster("tasks", "", tasks)])
        self.command = Graph(
            "command",
            f"Commands of {ranks if snapshot.num_ranks > 1 else 'the only rank'}, {shown}",
            [
                Cluster(f"R{rank}", f"rank {rank}" if snapshot.num_ranks > 1 else "", list(nodes))
                for rank, nodes in groupby(commands, lambda node: node.rank)
            ],
            _transfers(commands),
        )
        self.instruction = Graph(
            "instruction",
            f"Instructions{whose}, {shown}",
            [
                Cluster(f"T{task}", labels[task], list(nodes))
                for task, nodes in groupby(snapshot.instructions, lambda node: node.task)
            ],
        )

        self._window = window
        own = [node for node in commands if node.rank == snapshot.rank]
        self._storyteller = Storyteller(tasks, own, snapshot.instructions, seen or Sightings({}, None, dict))

    def story(self, task: int | str) -> str:
        """Tell what happened to a task on this rank, a line per fact.

        Args:
            task: The number of a task, such as 7 for T7, or the name of a task: then the newest one of that name.

        Returns:
            Its line in the program, the tasks before it, its commands, and its instructions. Each instruction says
            whether it is complete, issued, or for which others it waits. With `CELERITY_TRACE` it says where and when
            it ran.

        Raises:
            UsageError: If the graphs have no such task.
        """
        found = self._storyteller.find(task)
        if found is None:
            raise UsageError(
                f"graphs.story({task!r}): the window {self._window} has no such task. Give its number or name as in "
                f"the task graph, or a wider window, as in queue.graphs(':')."
            )
        return "\n  ".join(self._storyteller.tell(found))

    def tell_of_submission(self, number: int, most: int) -> list[str]:
        """A short story for reports: `most` lines, or none of a submission that is not kept."""
        found = self._storyteller.find_submission(number)
        return [] if found is None else self._storyteller.tell_briefly(found, most)

    def __repr__(self) -> str:
        return f"<Graphs: {self.task!r}, {self.command!r}, {self.instruction!r}>"


def _choose(kept: Sequence[tuple[int, int]], window: TaskWindow) -> range:
    """The numbers of the tasks in a window; `kept` has the numbers of all tasks, and of horizons up to them."""
    if not kept:
        return range(0)
    counted = 0 if window.unit == "tasks" else 1
    end_of_all = kept[-1][counted] + 1

    def place(limit: int | None, default: int) -> int:
        if limit is None:
            return default
        return max(end_of_all + limit, 0) if limit < 0 else limit

    first, end = place(window.first, 0), place(window.end, end_of_all)
    chosen = [numbers[0] for numbers in kept if first <= numbers[counted] < end]
    return range(chosen[0], chosen[-1] + 1) if chosen else range(0)


def _describe_tasks(chosen: range, kept: Sequence[tuple[int, int]], window: TaskWindow) -> str:
    if not chosen:
        return f"none{f' of T{kept[0][0]} to T{kept[-1][0]}' if kept else ''} in the window {window}"
    newest = kept[-1][0]
    shown = f"T{chosen[0]} to T{chosen[-1]}"
    return shown if chosen == range(1, newest + 1) else f"{shown} of T1 to T{newest}"


def _transfers(commands: Sequence[CommandNode]) -> list[tuple[str, Dependency]]:
    """An edge from each push to the command of each target that receives its data."""
    receivers: dict[Any, str] = {
        (node.transfer, node.rank): node.key for node in commands if node.transfer is not None and not node.targets
    }
    return [
        (receivers[node.transfer, rank], Dependency(node.key, "transfer"))
        for node in commands
        for rank in node.targets
        if (node.transfer, rank) in receivers
    ]
