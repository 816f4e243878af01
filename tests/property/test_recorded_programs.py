# SPDX-License-Identifier: MIT
"""Random programs with recordings and replays, on CPU devices, beside a model in NumPy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import celerity_py as celerity
from tests.property.recorded_programs import check_distribution, run_recorded_programs

SETTINGS: tuple[dict[str, Any], ...] = (
    {"devices": "cpu:1"},
    {"devices": "cpu:3", "horizon_step": 2},
    {"devices": "cpu:2", "lookahead": "infinite", "run_ahead": 2},
    {"devices": "cpu:2", "lookahead": "none", "check": True},
    {"devices": "cpu:4", "horizon_step": 1, "run_ahead": 2},
)
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
