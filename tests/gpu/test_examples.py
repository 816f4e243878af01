# SPDX-License-Identifier: MIT
"""The small programs on GPUs, where their kernels get arrays of CuPy."""

from __future__ import annotations

import pytest

import celerity_py as celerity
from tests.support.examples import EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_small_program_computes_what_numpy_computes(queue: celerity.Queue, name: str) -> None:
    EXAMPLES[name].check(queue)
