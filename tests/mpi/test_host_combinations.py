# SPDX-License-Identifier: MIT
"""Reductions that NumPy combines on the host, over several ranks and devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import celerity_py as celerity
from tests.support.host_combinations import PROGRAMS

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_partial_results_combine_on_the_host(queue: celerity.Queue, program: Callable[[celerity.Queue], None]) -> None:
    program(queue)
