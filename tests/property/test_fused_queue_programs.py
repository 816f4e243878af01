# SPDX-License-Identifier: MIT
"""Random fused functions, submitted, give NumPy's bits."""

from __future__ import annotations

import itertools

import pytest

import celerity_py as celerity
from tests.property.fused_queue_programs import all_differences

pytest.importorskip("numba")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, while programs are drawn
def test_random_functions_give_the_bits_of_numpy() -> None:
    celerity.configure(devices=1)
    try:
        found = list(all_differences(itertools.count(3000), 8))
    finally:
        celerity.configure(devices=None)
    assert len(found) == 8
    assert [text for texts in found for text in texts] == []
