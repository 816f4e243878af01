# SPDX-License-Identifier: MIT
"""The small programs of `cluster_jobs/examples`, each with a problem whose size is odd."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import celerity_py as celerity
from cluster_jobs.examples import cholesky, ensemble, fft, kmeans, life, pagerank

if TYPE_CHECKING:
    from tests.failures.launching import Outcome

FOLDER = Path(cholesky.__file__).parent


class Example(NamedTuple):
    arguments: tuple[Any, ...]
    run: Any
    """Takes a queue and the arguments, and returns a buffer."""
    run_by_numpy: Any
    part: Any = np.asarray
    """Takes the part of a result that has a meaning."""

    def check(self, queue: celerity.Queue) -> None:
        result = queue.fence(self.run(queue, *self.arguments)).result()
        expected = self.run_by_numpy(*self.arguments)
        np.testing.assert_allclose(self.part(result), self.part(expected), rtol=1e-9, atol=1e-9)


EXAMPLES = {
    "cholesky": Example((cholesky.problem(83),), cholesky.cholesky, cholesky.cholesky_by_numpy, np.tril),
    "ensemble": Example((7,), lambda queue, members: ensemble.ensemble(queue, members)[0], ensemble.ensemble_by_numpy),
    "fft": Example((fft.problem(37),), fft.fft2, fft.fft2_by_numpy),
    "kmeans": Example((*kmeans.problem(497), 6), kmeans.kmeans, kmeans.kmeans_by_numpy),
    "life": Example((life.problem(29), 40), life.life, life.life_by_numpy),
    "pagerank": Example(pagerank.problem(203), pagerank.pagerank, pagerank.pagerank_by_numpy),
}

#: Runs all programs in one process, where each starts a runtime of its own.
ALL_PROGRAMS = f"""
import runpy
for name in {[*EXAMPLES]}:
    runpy.run_path(f"{FOLDER}/{{name}}.py", run_name="__main__")
"""


def assert_all_verified(outcome: Outcome) -> None:
    """Each program has compared its result with that of NumPy, and said so in a line."""
    assert outcome.status == 0, outcome
    assert [line.count("NumPy") for line in outcome.output.splitlines()] == [1] * len(EXAMPLES), outcome.output
