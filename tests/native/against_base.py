# SPDX-License-Identifier: MIT
"""The cost of planning in this tree, beside a base commit: `make against-base BASE=HEAD~1`.

Both trees are compiled in the same way, with the compiler of this machine: the scheduler core and the native benchmark
of graph generation, without Python. Six program shapes are planned by both. With valgrind the figures are instructions,
which do not depend on what else the machine does; without it they are times, taken in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "against_base"
MAIN = Path(__file__).with_name("bench_generation.cpp")
FLAGS = ("-std=c++20", "-O3", "-DNDEBUG", "-w", "-pthread")
BENCHMARK = "generation_benchmark.cpp"
#: (topology, ranks, devices per rank)
PROGRAMS = (
    ("soup", 4, 4),
    ("chain", 4, 4),
    ("expanding_tree", 4, 4),
    ("contracting_tree", 4, 4),
    ("wave_sim", 1, 4),
    ("wave_sim", 4, 4),
    ("jacobi", 1, 4),
    ("jacobi", 4, 4),
)
_TIMED_ROUNDS = 40
_REPETITIONS = 5


class CannotCompareError(Exception):
    """There is nothing to compare with, or one of the trees does not build; the message says what."""


def _git(*arguments: str) -> bytes:
    run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False, timeout=120)
    if run.returncode:
        raise CannotCompareError(f"git {' '.join(arguments)}: {run.stderr.decode().strip()}")
    return run.stdout


def find_base() -> str:
    """Find the commit to compare with: where this branch left main, or on main the newest commit of the day before."""
    head = _git("rev-parse", "HEAD").decode().strip()
    for main in ("origin/main", "main"):
        try:
            base = _git("merge-base", "HEAD", main).decode().strip()
        except CannotCompareError:
            continue
        if base != head:
            return base
    date = int(_git("show", "-s", "--format=%ct", "HEAD"))
    older = _git("rev-list", "-1", f"--before={date - 24 * 3600}", "HEAD").decode().strip()
    if not older:
        raise CannotCompareError("no commit is a day older than HEAD: name one with --base")
    return older


def extract(commit: str) -> Path:
    """Lay the files of a commit into a folder of their own."""
    tree = FOLDER / commit[:12]
    if not tree.is_dir():
        with tarfile.open(fileobj=BytesIO(_git("archive", commit))) as archive:
            archive.extractall(tree, filter="data")
    return tree


def build(tree: Path, folder: Path) -> Path:
    """Compile the benchmark with the sources of a tree; returns the program."""
    rooms = (tree / "celerity_py" / "native", tree / "tests" / "native")
    benchmark = next((path for room in rooms for path in room.rglob(BENCHMARK)), None)
    if benchmark is None:
        raise CannotCompareError(f"{tree} has no {BENCHMARK}")
    core = tree / "scheduler" / "core"
    compiler = [os.environ.get("CXX", "c++")]
    if ccache := shutil.which("ccache"):
        compiler.insert(0, ccache)
    includes = [f"-I{path}" for path in (tree, core, benchmark.parent)]
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(item: tuple[int, Path]) -> Path:
        number, source = item
        target = folder / f"{number}_{source.stem}.o"
        _run([*compiler, *FLAGS, *includes, "-c", str(source), "-o", str(target)])
        return target

    sources = [MAIN, benchmark, *sorted(core.rglob("*.cpp"))]
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as workers:
        objects = list(workers.map(compile_one, enumerate(sources)))
    program = folder / "bench_generation"
    _run([compiler[-1], *FLAGS, *map(str, objects), "-o", str(program)])
    return program


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if run.returncode:
        raise CannotCompareError(f"{' '.join(command)}\n{run.stderr.strip()}")
    return run


def count_instructions(program: Path, topology: str, ranks: int, devices: int) -> float:
    """Count the instructions of one round, without those of the process's start."""

    def total(rounds: int) -> int:
        counter = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        run = _run([*counter, str(program), topology, str(ranks), str(devices), str(rounds)])
        found = re.search(r"Collected : (\d+)", run.stderr)
        if found is None:
            raise CannotCompareError(f"valgrind counted nothing:\n{run.stderr.strip()}")
        return int(found[1])

    return float(total(2) - total(1))


def time_in_turns(programs: list[Path], topology: str, ranks: int, devices: int) -> list[float]:
    """Return the microseconds of the best round of each program."""
    best = [float("inf")] * len(programs)
    for _ in range(_REPETITIONS):
        for i, program in enumerate(programs):
            run = _run([str(program), topology, str(ranks), str(devices), str(_TIMED_ROUNDS)])
            best[i] = min(best[i], float(run.stdout))
    return best


def measure(programs: list[Path], *, counts: bool) -> list[tuple[str, float, float]]:
    """The cost of each program shape in the base and in this tree."""
    rows = []
    for topology, ranks, devices in PROGRAMS:
        if counts:
            base, now = (count_instructions(program, topology, ranks, devices) for program in programs)
        else:
            base, now = time_in_turns(programs, topology, ranks, devices)
        rows.append((f"{topology} {ranks}x{devices}", base, now))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="commit to compare with (default: where this branch left main)")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args()
    counts = shutil.which("valgrind") is not None
    try:
        base = _git("rev-parse", "--verify", f"{options.base or find_base()}^{{commit}}").decode().strip()
        if not _git("diff", "--name-only", base, "--", "scheduler/core", f":(glob)**/{BENCHMARK}"):
            print(f"Nothing of the planner differs from {base[:12]}.")
            return 0
        trees = {base[:12]: extract(base), "now": ROOT}
        rows = measure([build(tree, FOLDER / f"{name}.build") for name, tree in trees.items()], counts=counts)
    except CannotCompareError as error:
        print(f"No comparison: {error}")
        return 1
    unit = "instructions" if counts else "microseconds"
    print(f"{unit} to plan, without execution; base: {base[:12]}")
    print(f"{'program, ranks x devices':<26}{'base':>16}{'now':>16}{'now / base':>12}")
    for name, before, after in rows:
        print(f"{name:<26}{before:>16,.0f}{after:>16,.0f}{after / before:>12.3f}")
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        figures = [{"program": name, "base": before, "now": after} for name, before, after in rows]
        options.output.write_text(json.dumps({"base": base, "unit": unit, "rows": figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
