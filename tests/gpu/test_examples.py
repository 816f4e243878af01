# SPDX-License-Identifier: MIT
"""The small programs on GPUs, where their kernels get arrays of CuPy."""

from __future__ import annotations

import pytest

import celerity_py as celerity
from tests.gpu.launching import run
from tests.support.examples import ALL_PROGRAMS, EXAMPLES, assert_all_verified


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_small_program_computes_what_numpy_computes(queue: celerity.Queue, name: str) -> None:
    EXAMPLES[name].check(queue)


@pytest.mark.processes
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_the_small_programs_run_by_themselves_on_several_ranks(num_ranks: int) -> None:
    assert_all_verified(run("-c", ALL_PROGRAMS, num_ranks=num_ranks))
