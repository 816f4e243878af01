# SPDX-License-Identifier: MIT
"""Random programs give the results of a sequential run, whatever order their instructions complete in.

`python -m tests.property.check_programs --programs 20000 --seed N` runs more and other ones.
"""

from __future__ import annotations

import os

from hypothesis import settings

from tests.property.check_programs import check_programs

ENOUGH_FOR_A_DISTRIBUTION = 1000


def test_random_programs_give_the_results_of_a_sequential_run() -> None:
    count = int(os.environ.get("TEST_PROGRAMS", settings().max_examples))
    outcome = check_programs(count)
    assert not outcome.failure, outcome.failure
    print(outcome.distribution.table())
    if outcome.distribution.programs >= ENOUGH_FOR_A_DISTRIBUTION:
        outcome.distribution.check()
