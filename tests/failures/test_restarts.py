# SPDX-License-Identifier: MIT
"""Programs that `celerity-py run --restarts` starts again from their snapshots in memory."""

from __future__ import annotations

import sys
from pathlib import Path

from celerity_py.io.memory_snapshots import SHARED_MEMORY
from tests.failures.kills import disturb
from tests.failures.launching import run

RUN = (sys.executable, "-m", "celerity_py", "run")
PROGRAM = str(Path(__file__).with_name("restarted_program.py"))


def test_a_program_whose_rank_is_killed_ends_with_the_bits_of_the_undisturbed_run() -> None:
    disturbed = disturb(2, 1, 8)
    assert (disturbed.status, disturbed.is_right) == (0, True), disturbed.errors
    assert disturbed.num_kills == 1
    assert "was killed by SIGKILL. The program starts again: " in disturbed.errors, disturbed.errors
    assert "0 restart(s) are left." in disturbed.errors


FAILING = """
import os, sys
import numpy as np
import celerity_py as celerity
from celerity_py import access

@celerity.kernel
def increase(chunk, u):
    u[chunk.box] += 1

with celerity.Queue() as queue:
    restored = celerity.restore("memory", missing_ok=True)
    first, u = (restored.step, restored["u"]) if restored else (0, celerity.Buffer.from_array(np.zeros(8)))
    print("from", first, os.environ["CELERITY_SNAPSHOTS"])
    for step in range(first + 1, first + 3):
        queue.parallel_for(8, increase, u.read_write(access.one_to_one()))
        celerity.checkpoint(queue, "memory", {"u": u}, step=step)
    assert queue.fence(u).result()[0] == step
    queue.barrier()
    print(sorted(os.listdir(os.environ["CELERITY_SNAPSHOTS"])), flush=True)
    sys.exit(4)
"""


def test_a_program_that_fails_is_started_again_so_often_and_leaves_nothing_in_memory(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(FAILING)
    folders = set(SHARED_MEMORY.glob("*celerity_py_run_*"))
    outcome = run(None, *RUN, "-n", "1", "--restarts", "2", str(program), variables={"CELERITY_BACKEND": "cpu"})
    assert outcome.status == 4, outcome.errors
    told = "celerity-py run: the program has ended with status 4. "
    assert outcome.errors.splitlines() == [
        f"{told}The program starts again: the newest snapshot in memory is of step 2. 1 restart(s) are left.",
        f"{told}The program starts again: the newest snapshot in memory is of step 4. 0 restart(s) are left.",
        f"{told}No restart is left of --restarts 2. The snapshot of step 6 in memory is removed.",
    ]
    lines = outcome.output.splitlines()
    assert [line.split()[1] for line in lines[::2]] == ["0", "2", "4"]
    kept = ["['step-000000000002']", "['step-000000000002', 'step-000000000004']"]
    assert lines[1::2] == [*kept, "['step-000000000004', 'step-000000000006']"], "what was restored stays"
    folder = Path(lines[0].split()[2])
    assert folder.parent == SHARED_MEMORY
    assert not folder.exists()
    assert not set(SHARED_MEMORY.glob("*celerity_py_run_*")) - folders


def test_a_program_that_ends_well_is_not_started_again() -> None:
    outcome = run(None, *RUN, "-n", "2", "--restarts", "1", PROGRAM, "4", "0", variables={"CELERITY_BACKEND": "cpu"})
    assert (outcome.status, outcome.output.count("process"), outcome.errors) == (0, 2, "")
