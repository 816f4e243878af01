# SPDX-License-Identifier: MIT
"""Several programs on one GPU at the same time: on one runtime, in processes of their own, and on streams by hand.

    python -m cluster_jobs.benchmarks.dags.sharing --case MP-1 --size medium --output results/mp1.json
    python -m cluster_jobs.benchmarks.dags.sharing --case MP-2 --size 15000000000 --prefetch on
    python -m cluster_jobs.benchmarks.dags.sharing --case latency,starvation --ways priorities,one,mps
    python -m cluster_jobs.benchmarks.dags.sharing --case latency --ways priorities,split,mps --share 0.25
    python -m cluster_jobs.benchmarks.dags.sharing --backend cpu          # only tries it out

MP-1 and MP-2 start all programs at the same moment and measure when the last one and the one with the highest priority
have ended. With --prefetch off, each run copies its inputs from the host; with on, they are on the GPU already. In
`latency` a small program asks again and again, beside one that fills the GPU. `starvation` shows how the lowest of
three queues progresses while the highest always has work. The inputs of these two are always on the GPU.

Ways: priorities, one runtime with a queue and a priority per program; one, one runtime without priorities; split, in
the case `latency`, as priorities, with a share of the multiprocessors for the small program; slices, a process per
program, between which the GPU divides its time; mps, the same under NVIDIA's Multi-Process Service, which the benchmark
starts and stops; streams, streams by hand with the priorities of their programs. All of them launch the same kernels.
The ways take turns. Their processes start first, and each compares small runs with NumPy. The results of the measured
size are the same in all ways, to the bit, before and after they are measured.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from cluster_jobs.benchmarks import launching, report
from cluster_jobs.benchmarks.cuda_driver import Driver, count_devices
from cluster_jobs.benchmarks.dags import sharing_measure, sharing_table
from cluster_jobs.benchmarks.dags.sharing_measure import ON_CPU, WAYS
from cluster_jobs.benchmarks.dags.sharing_processes import Job, Setting
from cluster_jobs.benchmarks.dags.sharing_programs import CASES, SIZES, build, bytes_of
from cluster_jobs.benchmarks.dags.sharing_runners import SUBMITS

#: The part of a case's time that its processes take to check themselves again and to end.
_END_SHARE = 0.1
#: Runs of the saturating programs in a row, and of the others; the pause of the small program between two requests.
_RUNS, _PAUSE_S = 4, 0.0005


def _look_at_gpu() -> tuple[int, float | None]:
    """The number of GPUs, and the free bytes of the first one; for a process of its own, because it starts CUDA."""
    if not (count := count_devices()):
        return 0, None
    driver = Driver(0)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return count, float(free.value)


def measure(case: str, options: argparse.Namespace, until: float) -> dict[str, Any]:
    """A case in one size: its rows and problems."""
    kind = CASES[case]
    is_start = case.startswith("MP")
    setting = Setting(
        kind,
        build(kind, options.size),
        build(kind, "tiny"),
        ahead=options.prefetch == "on" or not is_start,
        is_cuda=options.backend == "cuda",
        submit=options.submit,
        traces=options.traces,
        share=options.share,
    )
    megabytes = sum(bytes_of(program) for program in setting.programs) / 1e6
    about = {key: getattr(options, key) for key in ("submit", "share")}
    about |= {"case": case, "megabytes": megabytes, "prefetch": "on" if setting.ahead else "off"}
    print(f"{case}: {megabytes:.0f} MB made, {until - time.monotonic():.0f} s left", flush=True)
    chosen = [way for way in options.ways if way != "split" or case == "latency"]
    groups = sharing_measure.groups_that_fit(chosen, setting, options.free_bytes)
    if len(groups) > 1:
        print(f"{case}: the GPU has no room for all ways at once; they run in groups: {groups}", flush=True)
    found: dict[str, Any] = {}
    for number, names in enumerate(groups):
        left = (until - time.monotonic()) / (len(groups) - number)
        end = time.monotonic() + left * (1 - _END_SHARE)
        with sharing_measure.running(names, setting) as ways:
            print(f"{case}: {', '.join(way.name for way in ways)} run, {end - time.monotonic():.0f} s left", flush=True)
            if ways:
                found |= _measure(case, ways, setting, options, end)
    found = {way: figures for way, figures in found.items() if way not in setting.problems}
    rows_of = {"latency": sharing_table.rows_of_latency, "starvation": sharing_table.rows_of_progress}
    rows = rows_of.get(case, sharing_table.rows_of_starts)(about, found)
    order = list(WAYS)
    rows.sort(key=lambda row: order.index(row["way"]))
    return {
        "rows": rows,
        "problems": [f"{case}, {way}: {text}" for way, text in setting.problems.items()],
    }


def _measure(
    case: str, ways: Sequence[sharing_measure.Way], setting: Setting, options: argparse.Namespace, until: float
) -> dict[str, Any]:
    if case == "latency":
        jobs = {0: Job(1, _PAUSE_S), 1: Job(_RUNS)}
        return sharing_measure.measure_loops(ways, setting, jobs, options.rounds, until)
    if case == "starvation":
        jobs = {0: Job(_RUNS), 1: Job(_RUNS), 2: Job(1), 3: Job(1)}
        seconds = max(1.0, (until - time.monotonic()) / len(ways) / 1.5)
        return sharing_measure.measure_progress(ways, setting, jobs, min(seconds, options.longest_s))
    return sharing_measure.measure_starts(ways, setting, options.rounds, until)


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """All cases, one after the other."""
    about = {key: getattr(options, key) for key in ("backend", "size", "ways", "rounds", "seconds")}
    figures: dict[str, Any] = {**about, "rows": [], "problems": []}
    deadline = time.monotonic() + options.seconds
    for number, case in enumerate(options.case):
        until = time.monotonic() + (deadline - time.monotonic()) / (len(options.case) - number)
        found = measure(case, options, until)
        sharing_table.show(found["rows"])
        for key, items in found.items():
            figures[key] += items
        report.write(options.output, **figures)
    return figures


def _size(text: str) -> str | int:
    if text in SIZES:
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be {', '.join(SIZES)}, or bytes of all programs together, not {text}")


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line, and fill in what depends on the machine."""
    parser = report.argument_parser(__doc__)
    cases, ways = tuple(CASES), tuple(WAYS)
    case_help = f"{','.join(CASES)} (default MP-1)"
    parser.add_argument("--case", type=report.names_among(cases), default=["MP-1"], help=case_help)
    size_help = f"{', '.join(SIZES)}, or bytes of all programs (default small, on CPUs tiny)"
    parser.add_argument("--size", type=_size, help=size_help)
    parser.add_argument("--prefetch", choices=("on", "off"), default="off", help="inputs are on the GPU before a start")
    parser.add_argument("--ways", type=report.names_among(ways), default=list(ways), help=",".join(WAYS))
    submit_help = "to one runtime: the steps of all programs in turns, or replays of recordings (default turns)"
    parser.add_argument("--submit", choices=SUBMITS, default="turns", help=submit_help)
    share_help = "of the multiprocessors, for the small program of split (default 0.25)"
    parser.add_argument("--share", type=float, default=0.25, help=share_help)
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="runtimes write their timelines there")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count, at most (default 7)")
    parser.add_argument("--seconds", type=float, help="time for everything (default 120, on CPUs 10)")
    parser.add_argument("--longest-s", type=float, default=10, help="most seconds of a starvation loop (default 10)")
    launching.add_backend(parser)
    options = parser.parse_args(arguments)
    options.free_bytes = None

    def count() -> int:
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
            available, options.free_bytes = process.submit(_look_at_gpu).result()
        return available

    launching.settle_backend(parser, options, count)
    if options.backend == "cpu":
        options.ways = [way for way in options.ways if way in ON_CPU]
        if not options.ways:
            parser.error("MPS and programs by hand need a GPU, and there is none")
    if options.ways == ["split"] and "latency" not in options.case:
        parser.error("the way split measures the case latency only")
    if not 0 < options.share < 1:
        parser.error(f"--share is above 0 and below 1, not {options.share:g}")
    options.size = options.size or ("small" if options.backend == "cuda" else "tiny")
    options.seconds = options.seconds or (120.0 if options.backend == "cuda" else 10.0)
    if options.rounds < sharing_measure.FEWEST_ROUNDS:
        parser.error(f"--rounds is at least {sharing_measure.FEWEST_ROUNDS}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, and write the JSON file if asked to; 1 if anything went wrong."""
    options = options_of(arguments)
    if options.traces:
        options.traces.mkdir(parents=True, exist_ok=True)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the daemon of MPS as well
    try:
        figures = run_all(options)
    finally:
        signal.signal(signal.SIGTERM, before)
    return report.status_of(figures["problems"])


if __name__ == "__main__":
    raise SystemExit(main())
