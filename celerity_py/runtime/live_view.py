# SPDX-License-Identifier: MIT
"""The lines of `CELERITY_LIVE=1`: each second the activity of each rank, on rank 0's standard error.

With rich installed it is a small table. Launchers put a pipe in the place of the terminal, so the table does not depend
on a terminal.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from celerity_py.executor.failures.failure import print_whole
from celerity_py.executor.quantities import format_bytes
from celerity_py.vocabulary.tables import Table, has_rich, rich_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py._native import Executor, Scheduler
    from celerity_py.executor.delegate import Activity
    from celerity_py.runtime.submissions_in_flight import Completion

_MOST_LINES: Final = 32
_LATE_S: Final = 2.5
_JOIN_S: Final = 1.0  # the terminal may take no more text
_HOST_MEMORY: Final = 1
_FIRST_DEVICE_MEMORY: Final = 2
_PIPE_WIDTH: Final = 140  # characters of a table that no terminal shows
_HEADS: Final = (
    "rank",
    "steps/s",
    "tasks/s",
    "ahead",
    "computing",
    "waiting",
    "planning",
    "starved",
    "blocked",
    "per device",
    "host",
    "waits for",
)


@dataclass(frozen=True)
class RankReport:
    """The activity of a rank since its report before. Shares are parts of that time."""

    rank: int
    steps_per_s: float | None  # done; None without a loop with `celerity.progress`
    tasks_per_s: float  # complete ones: kernels, host tasks, fences, waits
    tasks_ahead: int  # submitted, and not known to be complete
    computing: float  # code of the user ran, on any device
    waiting: float  # nothing computed, and data of another rank was awaited
    waits_for: str  # most often: the rank, and what was awaited last
    starved: float  # nothing was in flight, and the scheduler was planning
    planning: float  # the scheduler was at work
    blocked: float  # the program was too far ahead
    device_bytes: int  # allocated now, on the device with the most
    host_bytes: int
    writing: str  # a file, and how far it is; empty if none is written


class News(NamedTuple):
    """What rank 0 prints at once."""

    seconds: float  # since the begin
    reports: list[tuple[float, RankReport]]  # with the age in seconds
    num_left_out: int  # ranks


class CountsSteps(Protocol):
    """The steps of a loop."""

    def count_done(self) -> int:
        """The number of steps that are done."""


class TellsProgress(Protocol):
    """The files of a rank."""

    def tell(self) -> str:
        """What is written now, and what waits; empty if nothing does."""


class LiveView:
    """Makes the reports of this rank. On rank 0, prints those of all.

    `report` and `take` belong to the executor thread. A thread of its own prints, because a terminal may stop.
    """

    def __init__(
        self,
        rank: int,
        executor: Executor,
        scheduler: Scheduler,
        completion: Completion,
        at_stop: list[Callable[[], None]],
    ) -> None:
        #: Those of the latest loop with `celerity.progress`.
        self.steps: CountsSteps | None = None
        #: Files that host tasks write.
        self.writing: TellsProgress | None = None
        self._rank = rank
        self._executor = executor
        self._scheduler = scheduler
        self._completion = completion
        self._began_s: float | None = None
        self._last: tuple[float, dict[str, float]] | None = None
        self._last_steps: tuple[CountsSteps | None, int] = None, 0
        self._reports: dict[int, tuple[float, RankReport]] = {}  # with the time of arrival
        self._looks: list[Activity] = []  # since the last report
        self._news: SimpleQueue[News | None] = SimpleQueue()
        self._printer: threading.Thread | None = None
        if rank == 0:
            self._printer = threading.Thread(target=self._print, name="celerity-live", daemon=True)
            self._printer.start()
            at_stop.append(self._stop)

    def note(self, activity: Activity) -> None:
        """This rank does so now."""
        self._looks.append(activity)

    def report(self, now_s: float) -> bytes:
        """The activity of this rank since the last call; the first one only begins to measure."""
        looks, self._looks = self._looks, []
        executor: Any = self._executor.statistics()
        scheduler = self._scheduler.statistics()
        submitter, done = self._completion.submitter, self._completion.last_retired
        sums = {
            "done": float(done),
            "starved": executor["starved_seconds"],
            "planning": scheduler["busy_s"],
            "blocked": submitter.blocked_ns * 1e-9,
        }
        if self._began_s is None:
            self._began_s = now_s
        before_s, before = self._last or (now_s, sums)
        self._last = now_s, sums
        span_s = now_s - before_s
        steps_done = self._count_steps()
        rates = {name: (value - before[name]) / span_s if span_s > 0 else 0.0 for name, value in sums.items()}
        memory = [usage["current_bytes"] for usage in executor["memories"]]
        made = RankReport(
            rank=self._rank,
            steps_per_s=None if steps_done is None or span_s <= 0 else round(steps_done / span_s, 1),
            tasks_per_s=round(rates["done"], 1),
            tasks_ahead=submitter.num_submitted - done,
            computing=round(sum(look.is_computing for look in looks) / max(len(looks), 1), 3),
            waiting=round(sum(look.is_waiting for look in looks) / max(len(looks), 1), 3),
            waits_for=_describe_waits([look for look in looks if look.is_waiting]),
            starved=round(rates["starved"], 3),
            planning=round(rates["planning"], 3),
            blocked=round(rates["blocked"], 3),
            device_bytes=max(memory[_FIRST_DEVICE_MEMORY:], default=0),
            host_bytes=memory[_HOST_MEMORY],
            writing="" if self.writing is None else self.writing.tell(),
        )
        return json.dumps(asdict(made)).encode("ascii") if span_s > 0 else b""

    def _count_steps(self) -> int | None:
        """The steps that are done since the last call, of the latest loop."""
        steps = self.steps
        if steps is None:
            return None
        earlier, before = self._last_steps
        done = steps.count_done()
        self._last_steps = steps, done
        return done - before if earlier is steps else done

    def take(self, report: bytes, now_s: float) -> None:
        """A rank has reported; rank 0 reports last, and prints."""
        made = RankReport(**json.loads(report))
        self._reports[made.rank] = now_s, made
        if made.rank == self._rank and self._began_s is not None:
            news = [
                (now_s - arrived_s, report) for _, (arrived_s, report) in sorted(self._reports.items())[:_MOST_LINES]
            ]
            self._news.put(News(now_s - self._began_s, news, len(self._reports) - len(news)))

    def _print(self) -> None:
        show = show_table if has_rich() else show_lines
        while (news := self._news.get()) is not None:
            print_whole(show(news))

    def _stop(self) -> None:
        assert self._printer is not None
        self._news.put(None)
        self._printer.join(_JOIN_S)


def _describe_waits(waits: list[Activity]) -> str:
    if not waits:
        return ""
    [(peer, _)] = Counter(look.peer for look in waits).most_common(1)
    what = next(look.what for look in reversed(waits) if look.peer == peer)
    return f"{'data that no rank has announced' if peer is None else f'rank {peer}'}: {what}"


def _describe_steps(report: RankReport) -> str:
    return "" if report.steps_per_s is None else f"{_number(report.steps_per_s)} steps/s, "


def _describe_writing(report: RankReport) -> str:
    return f"writing {report.writing}" if report.writing else ""


def _number(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"


def describe_report(report: RankReport) -> str:
    """The words of a line."""
    waits_for = f" for {report.waits_for}" if report.waits_for else ""
    return "; ".join(
        (
            f"{_describe_steps(report)}{report.tasks_per_s:.0f} tasks/s, {report.tasks_ahead} ahead",
            f"computing {report.computing:.0%}, waiting {report.waiting:.0%}{waits_for}",
            f"planning {report.planning:.0%}, starved {report.starved:.0%}, blocked {report.blocked:.0%}",
            f"{format_bytes(report.device_bytes)} per device, {format_bytes(report.host_bytes)} on the host",
            *filter(None, [_describe_writing(report)]),
        )
    )


def show_lines(news: News) -> str:
    """A line per rank."""
    lines = []
    for age_s, report in news.reports:
        text = describe_report(report) if age_s < _LATE_S else f"has not reported for {age_s:.0f} s"
        lines.append(f"celerity_py {news.seconds:.0f} s, rank {report.rank}: {text}")
    if news.num_left_out:
        lines.append(f"celerity_py {news.seconds:.0f} s: and {news.num_left_out} more ranks")
    return "\n".join(lines) + "\n"


def show_table(news: News) -> str:
    """The same as a table, by rich."""
    rows: list[tuple[object, ...]] = [_HEADS]
    for age_s, report in news.reports:
        if age_s >= _LATE_S:
            silence = f"has not reported for {age_s:.0f} s"
            rows.append((report.rank, *[""] * (len(_HEADS) - 2), silence))
            continue
        shares = (report.computing, report.waiting, report.planning, report.starved, report.blocked)
        rows.append(
            (
                report.rank,
                "" if report.steps_per_s is None else _number(report.steps_per_s),
                f"{report.tasks_per_s:.0f}",
                report.tasks_ahead,
                *(f"{share:.0%}" for share in shares),
                format_bytes(report.device_bytes),
                format_bytes(report.host_bytes),
                "; ".join(filter(None, (report.waits_for, _describe_writing(report)))),
            )
        )
    table = Table(rows, f"celerity_py {news.seconds:.0f} s", has_heads=True, is_numeric=True)
    rest = [f"and {news.num_left_out} more ranks"] if news.num_left_out else []
    is_terminal = sys.stderr.isatty()
    return rich_text([table, *rest], is_terminal=is_terminal, width=None if is_terminal else _PIPE_WIDTH)
