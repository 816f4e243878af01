# SPDX-License-Identifier: MIT
"""All that a report tells of a run, computed once."""

from __future__ import annotations

from functools import cached_property

from celerity_py.tools.report.critical_path import CriticalPath, PathFinder
from celerity_py.tools.report.instructions import Messages, find_instructions
from celerity_py.tools.report.measures import Measures
from celerity_py.tools.report.runs import Run


class Analysis:
    """The critical paths and the figures of a run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        works = {number: find_instructions(run, rank) for number, rank in run.ranks.items()}
        messages = Messages(run)
        self.measures = Measures(run, works, messages)
        self._paths = PathFinder(run, works, messages)

    @cached_property
    def path(self) -> CriticalPath:
        """The critical path of the run, across ranks."""
        return self._paths.of_run()

    @cached_property
    def rank_paths(self) -> dict[int, CriticalPath]:
        """The path of each rank, on which it may wait for others."""
        return {number: self._paths.of_rank(number) for number in self.run.ranks}

    @cached_property
    def devices_share_cores(self) -> dict[str, tuple[int, int]]:
        """CPU devices and cores of the hosts that have fewer cores than devices, by the host's name."""
        devices: dict[str, int] = {}
        cores: dict[str, int] = {}
        for rank in self.run.ranks.values():
            if rank.about.get("backend") == "cpu":
                host = str(rank.about.get("host", ""))
                devices[host] = devices.get(host, 0) + rank.num_devices
                cores[host] = max(cores.get(host, 0), int(rank.about.get("num_cores", 0)))
        return {host: (count, cores[host]) for host, count in devices.items() if 0 < cores[host] < count}
