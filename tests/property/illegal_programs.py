# SPDX-License-Identifier: MIT
"""Puts one mistake into each of many random programs, runs them, and says which were reported by the right error.

    python -m tests.property.illegal_programs --programs 3000 --processes 24 --total-time-limit-s 1500
    python -m tests.property.illegal_programs --programs 1 --seed 42 --only "kernel differs"

A program is a process per rank of its own, since a mistake that is reported ends it. Program i comes from seed + i
alone; kinds of mistakes take turns. Whoever has reported nothing when `--time-limit-s` is over hangs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.property.draws import SeededDraws, choice
from tests.property.illegal_run import run_illegal
from tests.property.mistake import Illegal
from tests.property.misuse import ALL_MISTAKES
from tests.property.program_generator import seeded_program

LIMIT_S = 10.0
"""Within which a mistake must be reported."""
_PROGRAMS_TRIED = 200
_MOST_STEPS = 40


def illegal_program(seed: int, only: str = "") -> Illegal:
    """The first of some random programs into which a mistake fits; seeds take turns with the kinds."""
    kinds = [kind for kind in ALL_MISTAKES if only in kind]
    kind = only if only in ALL_MISTAKES else kinds[seed % len(kinds)]
    draws = SeededDraws(seed)
    for attempt in range(_PROGRAMS_TRIED):
        program = seeded_program(seed * _PROGRAMS_TRIED + attempt)
        if len(program.steps) < _MOST_STEPS and (made := ALL_MISTAKES[kind](draws, program)) is not None:
            return made
    raise ValueError(f"no program has room for the mistake {kind!r}")


@dataclass(frozen=True)
class Machine:
    num_ranks: int
    devices: str
    transport: str
    limit_s: float


OUTCOMES = ("right", "late", "other error", "silent", "hangs")


@dataclass
class Verdict:
    kind: str
    outcome: str
    """One of OUTCOMES."""
    seconds: float
    text: str = ""


def machine_for(seed: int, illegal: Illegal, options: argparse.Namespace) -> Machine:
    """Mistakes that one rank can make are made by one or by several."""
    if illegal.one_device:
        return Machine(1, "cpu:1", "auto", options.time_limit_s)
    draws = SeededDraws(seed)
    alone = illegal.odd_steps is None and not illegal.needs_ranks and draws.integer(0, 1) == 0
    transport = choice(draws, ("host", "direct"))
    return Machine(1 if alone else options.ranks, options.devices, transport, options.time_limit_s)


def environment_for(illegal: Illegal, machine: Machine) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CELERITY_")}
    environment |= {"CELERITY_DEVICES": machine.devices, "PYTHONPATH": os.environ.get("PYTHONPATH", ".")}
    if machine.num_ranks > 1:
        environment["CELERITY_TRANSPORT"] = machine.transport
    if illegal.needs_check:
        environment["CELERITY_CHECK"] = "1"
    return environment | dict(illegal.environment)


def judge(seed: int, illegal: Illegal, machine: Machine) -> Verdict:
    """Run a program in processes of its own, and find out how its mistake was reported."""
    environment = environment_for(illegal, machine)
    num_ranks, limit_s = machine.num_ranks, machine.limit_s
    command = [sys.executable, "-m", "tests.property.illegal_programs", "--child", "--seed", str(seed)]
    command += ["--only", illegal.kind]
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
    slowest_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    wrong: list[str] = field(default_factory=list)

    def add(self, seed: int, machine: Machine, verdict: Verdict) -> None:
        self.counts[verdict.kind][verdict.outcome] += 1
        if verdict.outcome in {"right", "late"}:
            self.slowest_s[verdict.kind] = max(self.slowest_s[verdict.kind], verdict.seconds)
        if verdict.outcome != "right":
            self.wrong.append(f'--seed {seed} --only "{verdict.kind}": {verdict.outcome}, {machine}')

    def table(self) -> str:
        total: Counter[str] = sum(self.counts.values(), Counter())
        rows: list[tuple[str, ...]] = [("kind of mistake", "tried", *OUTCOMES, "slowest s")]
        for kind, counts in [*sorted(self.counts.items()), ("all", total)]:
            slowest_s = self.slowest_s[kind] if kind in self.counts else max(self.slowest_s.values(), default=0)
            numbers = [str(counts[outcome] or "-") for outcome in OUTCOMES]
            rows.append((kind, str(sum(counts.values())), *numbers, f"{slowest_s:.1f}"))
        lines = [f"{first:<40}" + "".join(f"{cell:>12}" for cell in cells) for first, *cells in rows]
        share = 100 * total["right"] / max(1, sum(total.values()))
        lines.append(f"{share:.2f} % of {sum(total.values())} reported by the right error within {LIMIT_S:g} s")
        return "\n".join([*lines, *(["not right:", *self.wrong] if self.wrong else [])])


def judge_all(options: argparse.Namespace) -> Iterator[tuple[int, Machine, Verdict]]:
    """Several at a time, in the order of their seeds, until the time is over."""
    deadline_s = time.monotonic() + options.total_time_limit_s

    def check(seed: int) -> tuple[int, Machine, Verdict] | None:
        if time.monotonic() > deadline_s:
            return None
        illegal = illegal_program(seed, options.only)
        machine = machine_for(seed, illegal, options)
        return seed, machine, judge(seed, illegal, machine)

    with ThreadPoolExecutor(options.processes) as pool:
        for result in pool.map(check, range(options.seed, options.seed + options.programs)):
            if result is not None:
                yield result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=len(ALL_MISTAKES), help="one of each kind if left out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="mistakes whose name contains this; that one, if it is a name")
    parser.add_argument("--ranks", type=int, default=2, help="at least 2 for ranks that differ")
    parser.add_argument("--devices", default="cpu:2")
    parser.add_argument("--time-limit-s", type=float, default=40.0, help="for one program, start and end included")
    parser.add_argument("--total-time-limit-s", type=float, default=float("inf"), help="start no program after that")
    parser.add_argument("--processes", type=int, default=1, help="programs at a time, each of up to --ranks processes")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not any(options.only in kind for kind in ALL_MISTAKES):
        parser.error(f"no kind of mistake contains {options.only!r}")
    if options.child:
        return run_illegal(illegal_program(options.seed, options.only))
    summary = Summary()
    start_s = time.monotonic()
    for seed, machine, verdict in judge_all(options):
        summary.add(seed, machine, verdict)
        if verdict.outcome != "right":
            print(f"seed {seed} {machine} {verdict.outcome}: {verdict.kind}: {verdict.text[:700]}", flush=True)
    print(summary.table())
    tried = sum(sum(counts.values()) for counts in summary.counts.values())
    print(f"{tried} of {options.programs} programs tried in {time.monotonic() - start_s:.0f} s")
    return 1 if summary.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
