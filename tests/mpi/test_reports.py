# SPDX-License-Identifier: MIT
"""Reports of runs with several ranks."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from mpi4py import MPI

from celerity_py.tools.cli.main import main
from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.runs import read_run
from tests.support import reported_programs

pytestmark = pytest.mark.mpi


def test_a_slow_rank_is_diagnosed(tmp_path: Path) -> None:
    world = MPI.COMM_WORLD
    if world.size == 1:
        pytest.skip("a single rank is not slower than others")
    folder = Path(world.bcast(str(tmp_path)))
    reported_programs.run("exchange", trace=str(folder / "run"), devices="cpu:1")
    world.barrier()
    if world.rank == 0:
        files = sorted(map(str, folder.glob("run.*.json")))
        assert len(files) == world.size
        assert main(["report", *files, "-o", str(folder / "report.html")]) == 0
        page = html.unescape((folder / "report.html").read_text())
        found = re.search(r"rank 1 is slow: its kernels take ([\d.]+) times the others'", page)
        assert found is not None
        assert 1.3 <= float(found.group(1)) <= 3
        analysis = Analysis(read_run([folder / f"run.{rank}.json" for rank in range(world.size)]))
        # The path goes through the slow rank, and the others wait for it.
        kernels = [segment.rank for segment in analysis.path.segments if segment.cause == "kernel"]
        assert kernels.count(1) > len(kernels) / 2
        assert analysis.rank_paths[0].share("peer", "transfer") > 0.2
    world.barrier()


def test_the_report_of_an_application_with_two_devices_per_rank(tmp_path: Path) -> None:
    world = MPI.COMM_WORLD
    folder = Path(world.bcast(str(tmp_path)))
    reported_programs.run("exchange", trace=str(folder / "run"), devices="cpu:2")
    world.barrier()
    if world.rank == 0:
        analysis = Analysis(read_run(sorted(folder.glob("run*.json"))))
        (kernel,) = analysis.measures.kernels
        assert (kernel.name, kernel.count) == ("step", 60 * world.size)
        assert set(analysis.measures.device_busy) == {(rank, device) for rank in range(world.size) for device in (0, 1)}
        sent = [link for link in analysis.measures.links if " D" not in link.source and " D" not in link.target]
        neighbours = [link for link in sent if "host" not in link.source + link.target]
        assert len(neighbours) == 2 * (world.size - 1)
        first, second = analysis.path.segments[0], analysis.path.segments[-1]
        assert first.end - second.start == pytest.approx(analysis.path.length)
    world.barrier()
