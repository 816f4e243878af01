# SPDX-License-Identifier: MIT
"""Programs that are killed while they write checkpoints: `python -m tests.support.killed_checkpoints --kills 100`.

Each program goes on from the last checkpoint of the one before. After each kill all checkpoints of the folder are
restored. Prints how many kills have interrupted a checkpoint. The exit status is 1 if a checkpoint restores wrongly.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from celerity_py.io.checkpoints import steps_in

SHAPE = (64, 4096)
_CYCLES = 4  # a kill comes within so many times of a checkpoint


@celerity.kernel
def advance(chunk: Any, u: Any, v: Any) -> None:
    """The elements are those of the step."""
    u[chunk.box] += 1
    v[chunk.box] -= 2


def note(_part: Any, step: int, steps: Any) -> None:
    """The last steps are those before this one."""
    steps[:] = [*steps[-4:], step]


def program(folder: str) -> None:
    """Run for ever from the last checkpoint on, with a checkpoint after each step."""
    with celerity.Queue() as queue:
        restored = celerity.restore(folder, missing_ok=True)
        if restored is None:
            u, v = (celerity.Buffer.from_array(np.zeros(SHAPE), name=name) for name in "uv")
            steps: celerity.HostObject[Any] = celerity.HostObject([] if celerity.rank() == 0 else None)
            step = 0
        else:
            u, v, steps, step = restored["u"], restored["v"], restored["steps"], restored.step
        one = access.one_to_one()
        while True:
            step += 1
            queue.parallel_for(SHAPE, advance, u.read_write(one), v.read_write(one))
            queue.host_task(note, step, steps.side_effect(), on="master")
            contents: dict[str, Any] = {"u": u, "v": v, "steps": steps}
            celerity.checkpoint(queue, folder, contents, step=step, attrs={"last": step})


def problems_of(folder: Path) -> list[str]:
    """What is wrong with the checkpoints of a folder."""
    found = []
    for step in steps_in(folder):
        with celerity.Queue() as queue:
            restored = celerity.restore(folder, step=step)
            u, v = (queue.fence(restored[name]).result() for name in "uv")
            steps = queue.fence(restored["steps"]).result()
        is_right = np.all(u == step) and np.all(v == -2 * step) and restored.attrs == {"last": step}
        if not is_right or steps != list(range(max(1, step - 4), step + 1)):
            found.append(f"step {step} has {u.min()} to {u.max()}, {v.min()} to {v.max()}, {restored.attrs}, {steps}")
    return found


def children_of(process: int) -> list[int]:
    """The processes that a process has started."""
    listed = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=True)
    return [int(number) for number in listed.stdout.split()]


def kill(folder: Path, ranks: int, chance: random.Random) -> Counter[str]:
    """Let a program begin, kill one of its processes, and look at what it has left."""
    launcher = ["mpiexec", "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, sys.executable, "-m", "tests.support.killed_checkpoints", "--program", str(folder)]
    last = max(steps_in(folder), default=0)
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until_s = time.monotonic() + 60
    while max(steps_in(folder), default=0) < last + 2:
        if started.poll() is not None or time.monotonic() > until_s:
            started.kill()
            raise RuntimeError(f"the program writes no checkpoints; its status is {started.poll()}")
        time.sleep(0.001)
    time.sleep(_CYCLES * chance.random() * 0.02)
    victims = (
        [started.pid] if ranks == 1 else [rank for proxy in children_of(started.pid) for rank in children_of(proxy)]
    )
    os.kill(chance.choice(victims), signal.SIGKILL)
    started.wait(60)
    names = [path.name for path in folder.iterdir()]
    wrong = problems_of(folder)
    for text in wrong:
        print(f"WRONG: {text}")
    interrupted = any(name.startswith(".step-") for name in names)
    return Counter(kills=1, interrupted=int(interrupted), wrong=len(wrong), restored=len(steps_in(folder)))


def main() -> int:
    """Kill, and tell of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        program(options.program)
    chance, counts = random.Random(options.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "checkpoints")
        for _ in range(options.kills):
            counts += kill(folder, options.ranks, chance)
        last = max(steps_in(folder))
    print(
        f"{counts['kills']} kills of {options.ranks} rank(s), {counts['interrupted']} during a checkpoint, up to step "
        f"{last}: {counts['restored']} checkpoints restored, {counts['wrong']} of them wrong"
    )
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
