# SPDX-License-Identifier: MIT
"""WaveSim on 1 to 8 GPUs, ours against hand-written CuPy: `python -m cluster_jobs.benchmarks.wave_sim_scaling`.

Two layouts: one process that drives all GPUs, and one rank per GPU under `mpirun`. In each, the application
`apps/wave_sim.py --benchmark` and the hand-written program of `peers/` run one after the other, in turns; both time
batches of steps in the steady state. All configurations are measured once before any is measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cluster_jobs.benchmarks import environment
from cluster_jobs.benchmarks.cuda_driver import count_devices

ROOT = Path(__file__).parents[2]
APPLICATION = ROOT / "cluster_jobs" / "apps" / "wave_sim.py"
PEERS = {"process": "wave_sim_process", "rank": "wave_sim_nccl"}
CHILD_TIMEOUT_S = 150
# Threads of a rank must not share one core, and a host may have fewer slots than GPUs. MPICH's launcher does not bind.
OPEN_MPI = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def steps_for(size: int) -> int:
    """Steps per batch: about a quarter of a second on one GPU, at least 100."""
    return int(min(1000, max(100, 200 * (16384 / size) ** 2)))


def run(program: str, layout: str, gpus: int, size: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run of a program, "ours" or "peer"; its figures.

    Raises:
        RuntimeError: If it fails.
    """
    launcher = [*options.mpirun.split(), "-n", str(gpus)] if layout == "rank" else []
    variables = os.environ | OPEN_MPI | {"PYTHONPATH": str(ROOT), "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
    arguments = ["--size", str(size), "--steps", str(options.steps or steps_for(size))]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "figures.json"
        if program == "ours":
            command = [*launcher, sys.executable, str(APPLICATION), *arguments, "--benchmark"]
            devices = f"cpu:{gpus if layout == 'process' else 1}"
            if options.backend == "cuda":
                devices = "".join(f"{index}," for index in range(gpus))  # of the host, divided among its ranks
            variables |= {"CELERITY_BACKEND": options.backend, "CELERITY_DEVICES": devices}
        else:
            module = f"cluster_jobs.benchmarks.peers.{PEERS[layout]}"
            command = [*launcher, sys.executable, "-m", module, *arguments, "--gpus", str(gpus), "--seconds", "4"]
            command += ["--output", str(output)]
        result = subprocess.run(  # noqa: S603 - programs of this repository
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, check=False
        )
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr[-2000:]}")
        text = output.read_text() if program == "peer" else result.stdout.splitlines()[-1]
    figures: dict[str, Any] = json.loads(text)
    return figures


def measure(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """All rows, and what went wrong."""
    available = count_devices() if options.backend == "cuda" else max(options.gpus)
    rows = [
        {"size": size, "gpus": gpus, "layout": layout, "ours": [], "peer": [], "variants": []}
        for size in options.sizes
        for gpus in options.gpus
        if gpus <= available
        for layout in options.layout
    ]
    problems: list[str] = []
    deadline = time.monotonic() + options.seconds
    for repetition in range(options.repetitions):
        for row in rows:
            for program in ("ours", "peer") if repetition % 2 == 0 else ("peer", "ours"):
                if time.monotonic() > deadline or program not in options.programs:
                    continue
                try:
                    figures = run(program, row["layout"], row["gpus"], row["size"], options)
                except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
                    problems.append(str(error))
                    continue
                row[program].append(figures["us_per_step"])
                if program == "peer":
                    row["variants"].append(figures["variant"])
                print(
                    f"{row['size']:6} {row['gpus']} {row['layout']:8} {program} {figures['us_per_step']:9.1f} µs",
                    flush=True,
                )
    return rows, problems


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table; adds medians, ratios and speedups to the rows."""
    table = Table(title="WaveSim float32, µs per step (medians), and what ours takes of what the peer takes")
    for column in (
        "size",
        "GPUs",
        "layout",
        "ours",
        "by hand",
        "its variant",
        "ours / by hand",
        "speedup",
        "by hand",
        "runs",
    ):
        table.add_column(column, justify="right")
    single: dict[tuple[Any, ...], float] = {}
    for row in rows:
        cells = []
        for program in ("ours", "peer"):
            median = statistics.median(row[program]) if row[program] else None
            row[f"{program}_us"] = median
            if row["gpus"] == 1 and median is not None:
                single[program, row["size"], row["layout"]] = median
            base = single.get((program, row["size"], row["layout"]))
            row[f"{program}_speedup"] = base / median if base and median else None
            cells.append("-" if median is None else f"{median:.1f}")
        ours, peer = row["ours_us"], row["peer_us"]
        row["ratio"] = ours / peer if ours and peer else None
        shown = [f"{row[key]:.2f}" if row[key] else "-" for key in ("ratio", "ours_speedup", "peer_speedup")]
        variant = "/".join(sorted(set(row["variants"]))) or "-"
        runs = f"{len(row['ours'])}+{len(row['peer'])}"
        table.add_row(str(row["size"]), str(row["gpus"]), row["layout"], *cells, variant, *shown, runs)
    Console(width=120).print(table)


def _integers(text: str) -> list[int]:
    return [int(item) for item in text.split(",")]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=_integers, default=[1, 2, 4, 8], help="numbers of GPUs (default 1,2,4,8)")
    parser.add_argument("--layout", type=lambda text: text.split(","), default=list(PEERS), help="process,rank")
    parser.add_argument("--sizes", type=_integers, default=[16384, 4096], help="cells per side (default 16384,4096)")
    parser.add_argument("--programs", type=lambda text: text.split(","), default=["ours", "peer"], help="ours,peer")
    parser.add_argument("--steps", type=int, help="per batch; by size if left out")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each program (default 3)")
    parser.add_argument("--seconds", type=float, default=500, help="no further run begins after so long (default 500)")
    parser.add_argument("--mpirun", default="mpirun", help="the launcher and its options")
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda", help="cpu only tries the program out")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args(arguments)
    rows, problems = measure(options)
    for problem in problems:
        print(problem, file=sys.stderr)
    show(rows)
    if options.output:
        figures = {"environment": environment.describe(), "rows": rows, "problems": problems}
        options.output.write_text(json.dumps(figures, indent=1) + "\n")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
