# SPDX-License-Identifier: MIT
"""The small programs compute on several devices what NumPy computes; `tests/mpi` and `tests/gpu` run them as well."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

import celerity_py as celerity
from cluster_jobs.examples import ensemble
from tests.failures.launching import run
from tests.support.examples import ALL_PROGRAMS, EXAMPLES, FOLDER, assert_all_verified


@pytest.fixture(params=["cpu:1", "cpu:3"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices=request.param, check=True)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, check=None)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_small_program_computes_what_numpy_computes(queue: celerity.Queue, name: str) -> None:
    EXAMPLES[name].check(queue)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_small_program_that_computes_something_else_is_found(queue: celerity.Queue, name: str) -> None:
    example = EXAMPLES[name]
    other = example._replace(run_by_numpy=lambda *arguments: 1.001 * example.run_by_numpy(*arguments))
    with pytest.raises(AssertionError, match="Not equal"):
        other.check(queue)


def test_every_small_program_is_tested() -> None:
    assert set(EXAMPLES) == {path.stem for path in FOLDER.glob("*.py")}


def test_decompositions_and_transforms_are_those_of_the_library() -> None:
    for name, function in (("cholesky", np.linalg.cholesky), ("fft", np.fft.fft2)):
        example = EXAMPLES[name]
        np.testing.assert_allclose(example.part(example.run_by_numpy(*example.arguments)), function(*example.arguments))


def test_the_small_programs_run_by_themselves_on_several_ranks() -> None:
    outcome = run(2, sys.executable, "-c", ALL_PROGRAMS, variables={"CELERITY_DEVICES": "cpu:2"})
    assert_all_verified(outcome)
    assert "A device has 93% of the longest one's work." in outcome.output


def test_members_of_unequal_costs_are_better_dealt_than_cut() -> None:
    """As `cluster_jobs/README.md` tells of 40 members on 4 devices."""
    members = np.arange(40)
    assert round(ensemble.balance(members % 4), 2) == 0.93
    assert round(ensemble.balance(members // 10), 2) == 0.58
