# SPDX-License-Identifier: MIT
"""Random programs with recordings and replays, on CPU devices, beside a model in NumPy."""

from __future__ import annotations

from collections import Counter

import celerity_py as celerity
from tests.property.recorded_programs import SETTINGS, check_distribution, run_recorded_programs

PROGRAMS = 24


def test_random_programs_with_replays_give_the_results_of_a_sequential_run() -> None:
    found: Counter[str] = Counter()
    for number, settings in enumerate(SETTINGS):
        celerity.configure(**settings)
        try:
            found += run_recorded_programs(1000 * number, PROGRAMS)
        finally:
            celerity.configure(**dict.fromkeys(settings))
    check_distribution(found, PROGRAMS * len(SETTINGS))
