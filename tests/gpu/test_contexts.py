# SPDX-License-Identifier: MIT
"""No rank makes a context on a GPU that it does not drive; GPUs whose memory is taken; writes through read accesses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gpu.conftest import NUM_GPUS
from tests.gpu.launching import run

pytestmark = pytest.mark.processes

PROGRAM = str(Path(__file__).with_name("context_programs.py"))


@pytest.mark.parametrize("device", range(min(NUM_GPUS, 2)))
def test_a_program_on_one_gpu_has_a_context_on_no_other(device: int) -> None:
    outcome = run(PROGRAM, "only_own_gpus", variables={"CELERITY_DEVICES": f"{device},"})
    assert outcome.status == 0, outcome.errors
    assert outcome.output == f"contexts on [{device}] only\n"


@pytest.mark.parametrize("transport", ["host", "direct"])
def test_each_of_two_ranks_has_a_context_on_its_own_gpu_only(transport: str) -> None:
    outcome = run(PROGRAM, "only_own_gpus", num_ranks=2, variables={"CELERITY_TRANSPORT": transport})
    assert outcome.status == 0, outcome.errors
    assert outcome.output.count("only\n") == 2


def test_four_programs_that_share_all_gpus_start_and_end_well() -> None:
    num_ranks = min(NUM_GPUS, 4)
    with ThreadPoolExecutor(4) as programs:
        running = [programs.submit(run, PROGRAM, "sum_on_all_ranks", num_ranks=num_ranks) for _ in range(4)]
        outcomes = [program.result() for program in running]
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors
        assert outcome.output.count(f"{5 * 4096}.0\n") == num_ranks


def test_a_start_on_a_gpu_whose_memory_is_taken_says_so() -> None:
    import cupy

    held = []
    size = cupy.cuda.runtime.memGetInfo()[0]
    while size > 1 << 20:
        try:
            held.append(cupy.cuda.alloc(size))
        except cupy.cuda.memory.OutOfMemoryError:
            size //= 2
    outcome = run(PROGRAM, "memory_is_taken", variables={"CELERITY_DEVICES": "0,"})
    assert outcome.status == 0, outcome.errors
    assert "ResourceError: rank 0 cannot set up its GPUs 0: " in outcome.output
    assert "nvidia-smi" in outcome.output
    held.clear()
    cupy.get_default_memory_pool().free_all_blocks()


def test_a_write_through_a_read_access_is_an_error_where_everything_is_checked() -> None:
    outcome = run(PROGRAM, "write_through_a_read_access", variables={"CELERITY_CHECK": "1", "CELERITY_DEVICES": "0,"})
    assert outcome.status == 1
    assert "ReadOnlyAccess" in outcome.errors
    assert 'B1 "u", first at [0]' in outcome.errors
