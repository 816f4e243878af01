# SPDX-License-Identifier: MIT
"""Checks random programs, on several processes.

    python -m tests.property.check_programs --programs 20000

Each program runs on all its ranks in one process, through the real generators, engine and receive arbiter, on poisoned
memories, in a random order of events; then the verifier proves that no other order could have gone wrong. It needs
records of all tasks, which repetitions from a template do not make.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed

from tests.property.distribution import Distribution
from tests.property.program_strategy import programs
from tests.property.programs import Program
from tests.property.simulator import World
from tests.verification.verifier import verify

DEFAULT_SEED = 20_000


@dataclass
class Outcome:
    """Of one shard."""

    distribution: Distribution = field(default_factory=Distribution)
    failure: str = ""
    programs_until_failure: int = 0


def check_program(program: Program, distribution: Distribution) -> None:
    world = World(program)
    paths = world.run()
    if world.num_expanded:
        paths["repetition from a template"] += world.num_expanded
    else:
        verify(program, world.traces, world.meaning)
    distribution.add(program, paths)


def check_shard(seed: int, count: int, shrink: bool = True) -> Outcome:
    """`count` programs that depend on `seed` only; stops at the first failure and shrinks it."""
    outcome = Outcome()
    started = 0

    @with_seed(seed)
    @settings(
        max_examples=count,
        derandomize=False,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(programs())
    def check(program: Program) -> None:
        nonlocal started
        started += 1
        try:
            check_program(program, outcome.distribution)
        except BaseException:
            outcome.programs_until_failure = outcome.programs_until_failure or started
            raise

    try:
        check()
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what this looks for)
        # the verifier and the simulator show the program themselves, in fewer lines
        error.__notes__ = [note for note in getattr(error, "__notes__", []) if "check(" not in note]
        outcome.failure = "".join(traceback.format_exception(error, limit=-8))
    return outcome


def check_programs(count: int, seed: int = DEFAULT_SEED, processes: int | None = None, shrink: bool = True) -> Outcome:
    """Spreads `count` programs over processes; the result of one of them that failed, else of all together."""
    number = processes or min(8, len(os.sched_getaffinity(0)))
    if number == 1:
        return check_shard(seed, count, shrink)  # in this process: coverage is written when it exits
    share = -(-count // number)
    arguments = [(seed + shard, share, shrink) for shard in range(number)]
    with multiprocessing.get_context("spawn").Pool(number) as pool:
        outcomes = pool.starmap(check_shard, arguments, chunksize=1)
    failed = [outcome for outcome in outcomes if outcome.failure]
    if failed:
        return min(failed, key=lambda outcome: outcome.programs_until_failure)
    for outcome in outcomes[1:]:
        outcomes[0].distribution.merge(outcome.distribution)
    return outcomes[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--counts", action="store_true", help="print the counts of the table as JSON")
    options = parser.parse_args()
    start = time.monotonic()
    outcome = check_programs(options.programs, options.seed, options.processes, not options.no_shrink)
    if outcome.failure:
        print(outcome.failure)
        print(f"failed at program {outcome.programs_until_failure}")
        return 1
    if options.counts:
        print(json.dumps(outcome.distribution.counts()))
        return 0
    print(outcome.distribution.table())
    print(f"{outcome.distribution.programs / (time.monotonic() - start):.1f} programs/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
