# SPDX-License-Identifier: MIT
"""Kills random ranks at random moments of a run with restarts: `python -m tests.failures.kills -n 2 --kills 100`."""

from __future__ import annotations

import argparse
import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from tests.failures.launching import REPOSITORY
from tests.failures.restarted_program import expected

PROGRAM = Path(__file__).with_name("restarted_program.py")
#: No line within so many seconds is a hang.
LINE_LIMIT_S = 60.0


class Disturbed(NamedTuple):
    """What came of a run whose ranks were killed."""

    status: int
    errors: str
    is_right: bool
    num_kills: int
    #: From a kill to the next step, if no other kill was before it.
    seconds_to_next_step: list[float]


def disturb(
    num_ranks: int, num_kills: int, seed: int, *, steps: int = 100, sleep_s: float = 0.02, launcher: str = ""
) -> Disturbed:
    """Run the program, and kill a random rank at random moments, `num_kills` times; `launcher`: its words."""
    chance = random.Random(seed)
    command = [sys.executable, "-m", "celerity_py", "run", "-n", str(num_ranks), "--restarts", str(num_kills)]
    command += ["--launcher", launcher] if launcher else []
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PMI", "CELERITY_", "PYTHONUNBUF"))
    }
    environment |= {"PYTHONPATH": str(REPOSITORY), "CELERITY_BACKEND": "cpu"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*command, str(PROGRAM), str(steps), str(sleep_s)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        assert process.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        killer = _Killer(chance, num_ranks, num_kills)
        result = killer.follow(lines)
        process.stdout.close()
        status = process.wait(LINE_LIMIT_S)
        errors.seek(0)
        is_right = result == expected(steps).tobytes().hex()
        return Disturbed(status, errors.read(), is_right, num_kills - killer.num_left, killer.seconds)


def _read(output: IO[str], lines: queue.Queue[str | None]) -> None:
    with suppress(ValueError):  # closed
        for line in output:
            lines.put(line)
    lines.put(None)


class _Killer:
    """Follows the lines of the program, and kills its ranks."""

    def __init__(self, chance: random.Random, num_ranks: int, num_kills: int) -> None:
        self.num_left = num_kills
        self.seconds: list[float] = []
        self._chance, self._num_ranks = chance, num_ranks
        self._processes: list[int] = []
        self._killed_s = 0.0
        self._strike_s = float("inf")

    def follow(self, lines: queue.Queue[str | None]) -> str:
        """The result of the program; empty if it has none."""
        while True:
            try:
                line = lines.get(timeout=min(LINE_LIMIT_S, max(0.0, self._strike_s - time.monotonic())))
            except queue.Empty:
                assert self._strike_s <= time.monotonic(), "the run hangs"
                self._strike()
                continue
            word, _, rest = (line or "result").strip().partition(" ")
            if word == "result":
                return rest
            if word == "process":
                self._note_process(int(rest))
            elif word == "step":
                self._note_step(float(rest.split()[1]))

    def _strike(self) -> None:
        victim, self._processes, self._strike_s = self._chance.choice(self._processes), [], float("inf")
        with suppress(ProcessLookupError):
            self._killed_s = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            self.num_left -= 1

    def _note_process(self, number: int) -> None:
        self._processes.append(number)
        if len(self._processes) == self._num_ranks and self.num_left:
            self._strike_s = time.monotonic() + 2.5 * self._chance.random()

    def _note_step(self, done_s: float) -> None:
        if self._killed_s and done_s > self._killed_s and len(self._processes) == self._num_ranks:
            self.seconds.append(done_s - self._killed_s)
            self._killed_s = 0.0


def main() -> int:
    """Print the figures, and return 1 if a run was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", dest="ranks", type=int, default=2)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--launcher", default="")
    parser.add_argument("--kills-per-run", type=int, default=3)
    options = parser.parse_args()
    runs = kills = wrong = 0
    seconds: list[float] = [0.0]
    while kills < options.kills:
        disturbed = disturb(options.ranks, options.kills_per_run, runs, launcher=options.launcher)
        runs, kills = runs + 1, kills + disturbed.num_kills
        seconds += disturbed.seconds_to_next_step
        if disturbed.status != 0 or not disturbed.is_right:
            wrong += 1
            print(f"seed {runs - 1}: status {disturbed.status}, right: {disturbed.is_right}\n{disturbed.errors}")
        print(
            f"{kills} kills in {runs} runs, {wrong} wrong; {len(seconds) - 1} times from the kill to the next step: "
            f"median {statistics.median(seconds[1:] or [0]):.2f} s, largest {max(seconds):.2f} s",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
