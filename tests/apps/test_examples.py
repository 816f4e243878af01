# SPDX-License-Identifier: MIT
"""The small programs compute on several devices what NumPy computes; `tests/mpi` and `tests/gpu` run them as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import celerity_py as celerity
from tests.support.examples import EXAMPLES

FOLDER = Path(__file__).parents[2] / "cluster_jobs" / "examples"


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
