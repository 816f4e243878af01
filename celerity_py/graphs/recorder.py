# SPDX-License-Identifier: MIT
"""The graphs that a run keeps, and the files that PRINT_GRAPHS asks for."""

from __future__ import annotations

import logging
import time
import weakref
from typing import TYPE_CHECKING

from celerity_py import _native
from celerity_py.configuration import parse_window
from celerity_py.graphs.graphs import Graph, Graphs
from celerity_py.graphs.stories import Sightings
from celerity_py.scheduler.errors import ArgumentTypeError, ResourceError, UsageError
from celerity_py.timeline.tracks import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from celerity_py._native import Executor, Scheduler
    from celerity_py.configuration import Configuration, TaskWindow
    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.timeline.recorder import Tracer
    from celerity_py.vocabulary.submissions import Submission

_log = logging.getLogger(__name__)


class GraphRecorder:
    """Keeps the graphs of this rank.

    Args:
        rank: Of this process.
        size: The number of ranks.
        window: The tasks that people want to see.
        tells_of_all: Whether this process writes the graphs that all ranks have in common.
        tracer: Has the timeline, if there is one.
        has_failed: Whether the run has failed, and nothing is known of its instructions any more.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        window: TaskWindow,
        *,
        tells_of_all: bool,
        tracer: Tracer | None,
        has_failed: Callable[[], bool],
    ) -> None:
        self.rank = rank
        self.size = size
        self.window = window
        self.tells_of_all = tells_of_all
        limits: dict[str, int] = {}
        # Tasks at the start of a long run are still there at its end.
        if window.unit == "tasks" and (window.first or 0) >= 0:
            limits["first"] = window.first or 0
            if window.end is not None and window.end >= 0:
                limits["end"] = window.end
        self.is_written = False
        self.log = _native.GraphLog(size, rank, **limits)
        #: The lines of the newest submits, by number.
        self._sites: dict[int, str] = {}
        self._tracer = tracer
        self._has_failed = has_failed
        self._executor: Executor | None = None

    def note_submission(self, number: int, submission: Submission, _started_ns: int = 0) -> None:
        """Keep the line of a submit, for as many as the graphs keep tasks."""
        self._sites[number] = submission.site
        if len(self._sites) > _native.GraphLog.max_tasks:
            del self._sites[next(iter(self._sites))]

    def watch(self, executor: Executor | None) -> _native.GraphLog:
        """Let stories tell of the execution, too, if there is one; return the log, for the scheduler."""
        self._executor = executor
        return self.log

    def _look(self) -> Sightings:
        active = None
        executor = self._executor
        if executor is not None and not self._has_failed():
            active = {entry.instruction: entry.age_s for entry in executor.active_instructions()}
        lanes = executor.lanes() if executor is not None else ()
        tracer_of = (lambda: None) if self._tracer is None else weakref.ref(self._tracer)
        return Sightings(dict(self._sites), active, lambda: _read_runs(tracer_of(), lanes))

    def graphs(self, window: TaskWindow | None = None) -> Graphs:
        """The graphs as planned up to now, for a window of the kept tasks."""
        return Graphs(self.log, window or self.window, self._look())

    def write(self, folder: Path, write_file: Callable[[Path, Callable[[Path], object]], None], limit_s: float) -> None:
        """Write the graphs that this rank tells about, once: the texts first, as pictures may take long.

        Args:
            folder: Where.
            write_file: Called with each path, and a function that writes there.
            limit_s: Seconds for all pictures together.
        """
        if self.is_written:
            return
        self.is_written = True
        graphs = self.graphs()
        if self.tells_of_all and not graphs.task.nodes:
            _log.warning(
                "PRINT_GRAPHS_WINDOW=%s shows no task of this run. Choose another window, such as '-20:' for the last "
                "20 tasks or ':' for all.",
                self.window,
            )
        named = self._name(graphs)
        for name, graph in named.items():
            text = graph.dot()
            write_file(folder / f"{name}.dot", lambda path, text=text: path.write_text(text, encoding="utf-8"))  # type: ignore[misc]
        deadline_s = time.monotonic() + limit_s
        for name, graph in named.items():
            try:
                picture = graph.svg(max(deadline_s - time.monotonic(), 0.1))
            except ResourceError as error:
                _log.warning("PRINT_GRAPHS: %s The text is in %s.", error, folder / f"{name}.dot")
                continue
            write_file(folder / f"{name}.svg", lambda path, text=picture: path.write_text(text, encoding="utf-8"))  # type: ignore[misc]

    def _name(self, graphs: Graphs) -> dict[str, Graph]:
        suffix = f".{self.rank}" if self.size > 1 else ""
        named = {f"instructions{suffix}": graphs.instruction}
        if self.tells_of_all:
            named["tasks"] = graphs.task
        if self.log.knows_all_ranks:
            if self.tells_of_all:
                named["commands"] = graphs.command
        else:
            named[f"commands{suffix}"] = graphs.command
        return named


def _read_runs(tracer: Tracer | None, lanes: Sequence[tuple[str, int]]) -> dict[int, str]:
    """Where and when each instruction ran, by the timeline."""
    if tracer is None:
        return {}
    runs: dict[int, str] = {}
    shift_ns = tracer.clock.offset_ns - tracer.clock.origin_ns
    for track, slices in Timeline(tracer, lanes).ordered_tracks():
        for item in slices:
            if "instruction" in item.args and item.kind not in {"issue", "launch"}:
                begin_ms, end_ms = (1e-6 * (time_ns + shift_ns) for time_ns in (item.start_ns, item.end_ns))
                runs[item.args["instruction"]] = f"{track}, {begin_ms:.3f} to {end_ms:.3f} ms"
    return runs


def start_graphs(
    settings: Configuration, communicator: Communicator, tracer: Tracer | None, has_failed: Callable[[], bool]
) -> GraphRecorder | None:
    """Make the recorder of this rank if the settings want graphs."""
    if not settings.print_graphs:
        return None
    _log.info("PRINT_GRAPHS: each repetition of a recording is planned by itself, without templates and CUDA graphs.")
    return GraphRecorder(
        settings.dry_run_rank or communicator.rank,
        settings.dry_run_ranks or communicator.size,
        settings.print_graphs_window,
        tells_of_all=communicator.rank == 0,
        tracer=tracer,
        has_failed=has_failed,
    )


def graphs_of(recorder: GraphRecorder | None, scheduler: Scheduler, window: str | None) -> Graphs:
    """The graphs of a run, for `queue.graphs`.

    Raises:
        UsageError: If the run keeps no graphs, or the window is not understood.
    """
    if recorder is None:
        raise UsageError(
            "queue.graphs(): this run keeps no graphs. Ask for them before the first Buffer or Queue: with "
            "CELERITY_PRINT_GRAPHS=1, or with celerity.configure(print_graphs=True)."
        )
    if not isinstance(window, str | None):
        raise ArgumentTypeError(f"queue.graphs(): the window must be a str such as '-20:', not {window!r}.")
    try:
        chosen = None if window is None else parse_window(window)
    except ValueError as error:
        raise UsageError(f"queue.graphs({window!r}): expected {error}.") from None
    scheduler.wait_until_planned()
    return recorder.graphs(chosen)
