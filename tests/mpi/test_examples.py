# SPDX-License-Identifier: MIT
"""The small programs on however many ranks there are, with one to three devices each."""

from __future__ import annotations

import pytest

import celerity_py as celerity
from tests.support.examples import EXAMPLES

pytestmark = pytest.mark.mpi


def test_small_programs_compute_what_numpy_computes(queue: celerity.Queue) -> None:
    for example in EXAMPLES.values():
        example.check(queue)
