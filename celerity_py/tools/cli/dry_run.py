# SPDX-License-Identifier: MIT
"""`celerity-py dry-run app.py --ranks 128 --devices 4`: plans a program for many ranks, and executes nothing."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celerity_py.executor.network.pacing import num_cores
from celerity_py.executor.quantities import format_bytes
from celerity_py.runtime.outputs import path_of_rank
from celerity_py.tools.cli.planned_run import PlannedRun, plan_program
from celerity_py.tools.cli.run import program_words
from celerity_py.tools.cli.words import CommandError, add_command, names_files, positive
from celerity_py.vocabulary.tables import Table, write_tables

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands

#: More ranks than that are shown as the least, the middle and the most of each figure.
_MOST_COLUMNS: Final = 6
_FIRST_DEVICE_MEMORY: Final = 2
_LINKS: Final = {
    "host_to_device": "host to device",
    "device_to_host": "device to host",
    "between_devices": "device to device",
    "on_device": "within a device",
    "on_host": "within the host",
}


class Figure(NamedTuple):
    """A row of the table."""

    name: str
    of: Callable[[dict[str, Any]], float]
    show: Callable[[float], str]


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "dry-run",
        execute,
        "Plan a program for many ranks, and execute nothing.",
        "Tells of each planned rank the instructions, the bytes per link, the memory, and the time of planning. Ends "
        "with the exit status of the program. "
        "Options that this command does not know go to the program.",
    )
    names_files(parser.add_argument("program", metavar="FILE", help="the program"))
    parser.add_argument("--ranks", type=positive, required=True, metavar="N", help="how many ranks")
    parser.add_argument("--devices", type=positive, default=1, metavar="D", help="devices of each rank (1)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--all", action="store_true", help="plan each rank; by default the first, the middle and the last"
    )
    which.add_argument("--only", type=_ranks, metavar="LIST", help="the ranks to plan, such as 0,5,127")
    parser.add_argument("--json", action="store_true", help="print the figures of each planned rank as JSON")
    parser.set_defaults(takes_rest=True)


def _ranks(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected ranks such as 0,5,127, not {text!r}") from None


def execute(options: argparse.Namespace) -> int:
    """Plan the chosen ranks, each in a process of its own, as many at a time as there are cores."""
    ranks = _chosen(options)
    program = program_words(None, [options.program, *options.rest])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(min(len(ranks), num_cores())) as pool:
        plans = list(pool.map(lambda rank: _plan(rank, options, program, Path(folder)), ranks))
    figures = [{"rank": run.rank, "status": run.status, **_figures(plan)} for plan, run in plans]
    if options.json:
        print(json.dumps({"ranks": options.ranks, "devices": options.devices, "planned": figures}, indent=2))
    else:
        title = f"{options.program}: planned {_told(ranks)} of {options.ranks}, with {options.devices} device(s) each"
        write_tables([title, _table(ranks, figures)], sys.stdout)
    # Other ranks tell the same warnings.
    return next((run for _, run in plans if run.status), plans[0][1]).pass_on()


def _chosen(options: argparse.Namespace) -> list[int]:
    if options.all:
        return list(range(options.ranks))
    chosen: list[int] = options.only or sorted({0, options.ranks // 2, options.ranks - 1})
    if chosen[0] < 0 or chosen[-1] >= options.ranks:
        wrong = next(rank for rank in chosen if not 0 <= rank < options.ranks)
        raise CommandError(f"--only names rank {wrong}, but the ranks are 0 to {options.ranks - 1}.")
    return chosen


def _plan(
    rank: int, options: argparse.Namespace, program: Sequence[str], folder: Path
) -> tuple[dict[str, Any], PlannedRun]:
    """The statistics of one planned rank, and the end of its program.

    Raises:
        CommandError: If the program makes no queue.
    """
    wanted = folder / "rank"
    run = plan_program(program, rank, options.ranks, options.devices, {"CELERITY_STATS": str(wanted)})
    written = path_of_rank(str(wanted), rank, options.ranks)
    if not written.exists():
        run.refuse("is no plan")
    return json.loads(written.read_text(encoding="utf-8")), run


# ---- figures


def _figures(statistics: dict[str, Any]) -> dict[str, Any]:
    """The figures of a rank, under their names in JSON; times in seconds."""
    scheduler, plan = statistics["scheduler"], statistics["plan"]
    peaks = [memory["peak_bytes"] for memory in plan["memories"]]
    return {
        "tasks": scheduler["tasks"],
        "planning_s": scheduler["busy_s"],
        "instructions": {kind: number for kind, number in plan["instructions"].items() if number},
        "copied_bytes": plan["copied_bytes"],
        "sent_bytes": plan["sent_bytes"],
        "received_bytes": plan["received_bytes"],
        "peak_host_bytes": sum(peaks[1:_FIRST_DEVICE_MEMORY]),
        "peak_device_bytes": peaks[_FIRST_DEVICE_MEMORY:],
    }


def _rows(figures: Sequence[dict[str, Any]]) -> list[Figure]:
    kinds = list(dict.fromkeys(kind for rank in figures for kind in rank["instructions"]))
    num_devices = max(len(rank["peak_device_bytes"]) for rank in figures)
    links = [link for link in _LINKS if any(rank["copied_bytes"][link] for rank in figures)]
    return [
        Figure("time of planning", lambda rank: rank["planning_s"], lambda value: f"{1e3 * value:.1f} ms"),
        Figure("per task", lambda rank: rank["planning_s"] / rank["tasks"], lambda value: f"{1e6 * value:.1f} µs"),
        Figure("tasks", lambda rank: rank["tasks"], _whole),
        Figure("instructions", lambda rank: sum(rank["instructions"].values()), _whole),
        *(Figure(f"  {kind}", _instructions(kind), _whole) for kind in kinds),
        *(Figure(f"copied {_LINKS[link]}", _copied(link), _size) for link in links),
        Figure("sent", lambda rank: sum(rank["sent_bytes"].values()), _size),
        Figure("sent to so many ranks", lambda rank: len(rank["sent_bytes"]), _whole),
        Figure("received", lambda rank: rank["received_bytes"], _size),
        Figure("peak of host memory", lambda rank: rank["peak_host_bytes"], _size),
        *(Figure(f"peak of device {device}", _peak(device), _size) for device in range(num_devices)),
    ]


def _instructions(kind: str) -> Callable[[dict[str, Any]], float]:
    return lambda rank: rank["instructions"].get(kind, 0)


def _copied(link: str) -> Callable[[dict[str, Any]], float]:
    return lambda rank: rank["copied_bytes"][link]


def _peak(device: int) -> Callable[[dict[str, Any]], float]:
    return lambda rank: dict(enumerate(rank["peak_device_bytes"])).get(device, 0)


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _size(value: float) -> str:
    return format_bytes(int(value))


def _told(ranks: Sequence[int]) -> str:
    return f"ranks {', '.join(map(str, ranks))}" if len(ranks) <= _MOST_COLUMNS else f"{len(ranks)} ranks"


def _table(ranks: Sequence[int], figures: Sequence[dict[str, Any]]) -> Table:
    """A row per figure, and a column per rank; with many ranks, the extremes and the middle."""
    is_short = len(ranks) <= _MOST_COLUMNS
    rows = [["", *(f"rank {rank}" for rank in ranks)] if is_short else ["", "least", "middle", "most", "most on"]]
    for name, of, show in _rows(figures):
        values = [of(rank) for rank in figures]
        if is_short:
            rows.append([name, *map(show, values)])
        else:
            most = max(values)
            where = "all" if min(values) == most else f"rank {ranks[values.index(most)]}"
            rows.append([name, show(min(values)), show(median_low(values)), show(most), where])
    return Table(rows, has_heads=True, is_numeric=True)
