# SPDX-License-Identifier: MIT
"""Runs many random programs, some hundred at a time in processes of their own, and prints what occurred in them.

    python -m tests.property.many_programs simulated --programs 100000 --processes 16 --seed 1
    python -m tests.property.many_programs live --programs 3000 --ranks 2
    python -m tests.property.many_programs recorded --programs 3000

`simulated`: on all their ranks in one process, in a random order of events. `live`: on the runtime of this machine,
with other CPU devices for every few programs. `recorded`: live, with recordings and replays. `templates`: the plans of
replays with and without templates. Illegal programs have a command of their own, `tests.property.illegal_programs`.

A process that fails, or takes too long, is shown with the command that repeats it. The others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

_SHOWN_LINES = 80
#: So that a run which somebody ends early has told how far it came.
_PROGRAMS_PER_LINE = 1000


@dataclass(frozen=True)
class Kind:
    module: str
    programs_per_process: int
    options: tuple[str, ...] = ()
    may_have_ranks: bool = False


KINDS = {
    "simulated": Kind("check_programs", 200, ("--processes", "1", "--no-shrink")),
    "templates": Kind("template_programs", 100),
    "live": Kind("live_programs", 100, ("--vary-machine",), may_have_ranks=True),
    "recorded": Kind("recorded_programs", 40, may_have_ranks=True),
}
#: Numbers that are no share of the programs.
TOTALS = ("programs", "tasks", "native kernels", "repeated", "replays", "repetitions", "expanded")


@dataclass(frozen=True)
class Share:
    """The programs of one process."""

    kind: Kind
    seed: int
    count: int
    ranks: int

    @property
    def command(self) -> list[str]:
        numbers = ["--programs", str(self.count), "--seed", str(self.seed)]
        command = [sys.executable, "-m", f"tests.property.{self.kind.module}", *numbers, *self.kind.options, "--counts"]
        return ["mpiexec", "-n", str(self.ranks), *command] if self.ranks > 1 else command

    def run(self, limit_s: float) -> tuple[Counter[str], str]:
        """The counts of the programs, or the reason why there are none."""
        process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
            ending = f"ends with status {process.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            ending = f"has not ended after {limit_s:g} s"
        lines = output.splitlines()
        if process.returncode == 0 and lines:
            return Counter(json.loads(lines[-1])), ""
        return Counter(), "\n".join([*lines[-_SHOWN_LINES:], f"{ending}: {shlex.join(self.command)}"])


def shares_of(options: argparse.Namespace) -> list[Share]:
    """Seeds lie as far apart as the programs of a process need."""
    kind = KINDS[options.kind]
    most = kind.programs_per_process
    return [
        Share(kind, options.seed + first, min(most, options.programs - first), options.ranks)
        for first in range(0, options.programs, most)
    ]


def run_shares(options: argparse.Namespace) -> Iterator[tuple[Counter[str], str]]:
    deadline_s = time.monotonic() + options.total_time_limit_s

    def run(share: Share) -> tuple[Counter[str], str] | None:
        return share.run(options.time_limit_s) if time.monotonic() < deadline_s else None

    with ThreadPoolExecutor(max(1, options.processes // options.ranks)) as pool:
        for ended in as_completed([pool.submit(run, share) for share in shares_of(options)]):
            result = ended.result()
            if result is not None:
                yield result


def table(counts: Counter[str]) -> str:
    """Shares of the programs, and totals above them."""
    programs = max(1, counts["programs"])
    lines = [f"{name:<40} {counts[name]:>10}" for name in TOTALS if name in counts]
    lines += [f"{name:<40} {100 * counts[name] / programs:8.1f} %" for name in sorted(counts) if name not in TOTALS]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="at a time, ranks included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1, help="of each live program; mpiexec starts more than one")
    parser.add_argument("--time-limit-s", type=float, default=900.0, help="for one process")
    parser.add_argument("--total-time-limit-s", type=float, default=float("inf"), help="start no process after that")
    options = parser.parse_args()
    if options.ranks > 1 and not KINDS[options.kind].may_have_ranks:
        parser.error(f"programs that are {options.kind} have ranks of their own")
    start_s = time.monotonic()
    counts: Counter[str] = Counter()
    failures = 0
    shown = 0
    for found, failure in run_shares(options):
        counts += found
        if counts["programs"] >= shown + _PROGRAMS_PER_LINE:
            shown = counts["programs"]
            print(f"{shown} programs are right after {time.monotonic() - start_s:.0f} s", flush=True)
        if failure:
            failures += 1
            print(failure, flush=True)
    elapsed_s = time.monotonic() - start_s
    print(table(counts))
    print(
        f"{counts['programs']} of {options.programs} programs are right, in {elapsed_s:.0f} s with {options.processes} "
        f"processes; {failures} process(es) failed"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
