# SPDX-License-Identifier: MIT
"""Builds deliberately broken cores, and requires that random programs find each of them.

    python tests/mutants/run.py [--only TEXT ...] [--seeds 3] [--jobs 1] [--folder build/mutants]

The sources are copied and built once. Each job has a copy of the built folder, so that a mutant costs a few files.
Prints how many programs each mutant survived, when it is known. A mutant that survives 500, or its own limit, is a
failure.
"""

from __future__ import annotations

import argparse
import os
import queue
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants import sources  # noqa: E402  (run as a script, the tests are no package)
from tests.mutants.mutation import Mutation  # noqa: E402
from tests.mutants.mutations import MUTATIONS  # noqa: E402
from tests.mutants.workplace import Workplace  # noqa: E402

SAME = "// SPDX-License-Identifier: MIT\n"
NOTHING = Mutation("no mutation, which must survive", "scheduler/core/geometry/split.cpp", SAME, SAME)


def judge(workplaces: queue.Queue[Workplace], mutation: Mutation, seeds: int) -> bool:
    """Whether the random programs find the mutant."""
    workplace = workplaces.get()
    start = time.monotonic()
    try:
        results = workplace.judge(mutation, seeds)
    except (RuntimeError, ValueError) as error:
        print(f"{error}\n  fails              {mutation.name}", flush=True)
        return False
    finally:
        workplaces.put(workplace)
    median = statistics.median(count for count, _ in results)
    print(f"{median:6.0f} programs  {time.monotonic() - start:5.1f} s  {mutation.name}: {results[0][1]}", flush=True)
    return median <= mutation.limit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="run the mutants whose name contains one of these")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants")
    options = parser.parse_args()
    original = options.folder.resolve() / "original"
    sources.copy_sources(original / "tree")
    steps = sources.build(original / "tree", original / "output")
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    workplaces: queue.Queue[Workplace] = queue.Queue()
    for job in range(options.jobs):
        workplaces.put(Workplace(original, original.parent / f"job{job}", steps, threads))
    chosen = [mutation for mutation in MUTATIONS if any(text in mutation.name for text in options.only)]
    # The longest come first, so that the last job does not work alone. Many files include a header.
    chosen.sort(key=lambda mutation: (mutation.limit, mutation.file.endswith(".hpp")), reverse=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(judge, workplaces, mutation, options.seeds): mutation for mutation in (NOTHING, *chosen)}
        missed = [running[done].name for done in as_completed(running) if not done.result()]
    return summarise(missed, len(chosen))


def summarise(missed: list[str], num_mutants: int) -> int:
    if NOTHING.name not in missed:
        print("The random programs fail without any mutation already.")
        return 1
    missed.remove(NOTHING.name)
    print(f"{num_mutants - len(missed)} of {num_mutants} mutants found")
    for name in missed:
        print(f"  missed: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
