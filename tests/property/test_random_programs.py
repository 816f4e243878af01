# SPDX-License-Identifier: MIT
"""Random programs give the results of a sequential run, whatever order their instructions complete in.

The hypothesis profile says how many, TEST_PROGRAMS=20000 overrides it; the same programs in every run.
`python -m tests.property.check_programs --programs 20000 --seed N` checks other ones.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.property.check_programs import check_programs

ENOUGH_FOR_A_DISTRIBUTION = 500


def test_random_programs_give_the_results_of_a_sequential_run(capsys: pytest.CaptureFixture[str]) -> None:
    count = int(os.environ.get("TEST_PROGRAMS", settings().max_examples))
    outcome = check_programs(count)
    assert not outcome.failure, outcome.failure
    if outcome.distribution.programs >= ENOUGH_FOR_A_DISTRIBUTION:
        with capsys.disabled():
            print(f"\n{outcome.distribution.table()}")
        outcome.distribution.check()
