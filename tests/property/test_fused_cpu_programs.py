# SPDX-License-Identifier: MIT
"""Random functions, compiled by numba, have NumPy's bits."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import pytest

from tests.property.fused_cpu_programs import all_differences

pytest.importorskip("numba")
FIRST_SEED = 5_000_000


def test_random_functions_have_the_bits_of_numpy(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows and divisions by 0 are meant
        for found in all_differences(itertools.count(FIRST_SEED), 6, tmp_path):
            assert found == []
