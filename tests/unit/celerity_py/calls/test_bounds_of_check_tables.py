# SPDX-License-Identifier: MIT
"""A long program, also with CHECK: what the runtime remembers of calls, lines and code stays bounded."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.calls import call_checks, divided_calls, named_paths, outer_variables
from celerity_py.comparison import program_digests
from celerity_py.submit import arguments
from celerity_py.vocabulary.hidden_mistakes import FOUND

FEW = 8
NUM_KERNELS = 100
SOURCE = "def kernel(chunk, u): u[chunk.box] = u[chunk.box] + {number} * (np.float64(offset) + len(table))"


@pytest.fixture(params=[True, False], ids=["check", "no check"])
def few(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    monkeypatch.setattr(outer_variables, "_MOST_CODES", FEW)
    monkeypatch.setattr(program_digests, "_MOST_CODES", FEW)
    monkeypatch.setattr(divided_calls, "_MOST_LINES", FEW)
    monkeypatch.setattr(arguments, "_MAX_CACHED", FEW)
    named_paths.named_paths.cache_clear()
    for table in (outer_variables.number_paths, program_digests._digests, arguments.arities):
        table.clear()  # of what other tests have left
    celerity.configure(check=request.param, devices="cpu:2", horizon_step=2)
    yield
    celerity.configure(check=None, devices=None, horizon_step=None)


def tables_of_code() -> dict[str, int]:
    return {
        "numbers": len(outer_variables.number_paths),
        "digests": len(program_digests._digests),
        "arities": len(arguments.arities),
    }


@pytest.mark.usefixtures("few")
def test_code_that_a_program_compiles_again_and_again_does_not_stay() -> None:
    codes = []
    found_before = dict(FOUND)  # by other tests
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(16))
        for number in range(NUM_KERNELS):
            space: dict[str, Any] = {"np": np, "offset": 1.0, "table": [1, 2]}
            line = compile(SOURCE.format(number=number), f"line {number}", "exec")
            exec(line, space)
            call = compile("queue.parallel_for(16, kernel, u.read_write(one))", f"call {number}", "exec")
            exec(call, space | {"queue": queue, "u": u, "one": access.one_to_one()})
            program_digests.digest_of_function(space["kernel"])  # as with several ranks
            codes += [weakref.ref(space["kernel"].__code__), weakref.ref(call)]
        assert queue.fence(u).result()[0] == 1 + 3 * sum(range(NUM_KERNELS))
        queue.wait()
        del line, call, space
        assert max(tables_of_code().values()) <= FEW
        assert found_before == FOUND
        assert named_paths.named_paths.cache_info().maxsize
        named_paths.named_paths.cache_clear()
        gc.collect()
        alive = sum(code() is not None for code in codes)
        assert alive <= 6 * FEW, f"{alive} of {len(codes)} code objects are alive"


def test_lines_whose_calls_are_compared_are_bounded() -> None:
    calls = divided_calls.DividedCalls()
    lines: Any = [SimpleNamespace(code="code", lasti=number) for number in range(3 * divided_calls._MOST_LINES)]
    for line in lines:
        assert calls._is_due(line)
        calls.warn(line, "a warning")
        assert not calls._is_due(line)
    assert len(calls._calls) <= divided_calls._MOST_LINES


@pytest.mark.parametrize(("num_positions", "num_calls"), [(1, 3 * call_checks._MOST_SUSPICIONS), (1 << 20, 30)])
def test_elements_that_may_have_their_pattern_by_chance_are_bounded(num_positions: int, num_calls: int) -> None:
    checks = call_checks.CallChecks()
    hits = np.arange(num_positions)
    for key in range(num_calls):
        assert checks.find_unwritten(key, hits, 4 * num_positions, 0.5).size == 0
    assert num_calls - 1 in checks._suspicions
    assert len(checks._suspicions) <= call_checks._MOST_SUSPICIONS
    assert sum(each.positions.nbytes for each in checks._suspicions.values()) <= call_checks._MOST_BYTES


def test_containers_that_tasks_assign_are_few_and_are_forgotten() -> None:
    assigned = outer_variables._Assigned()
    containers: list[list[int]] = [[number] for number in range(3 * outer_variables._MOST_CONTAINERS)]

    task: Any = lambda: None  # noqa: E731
    for container in containers:
        assigned.add_elements(container)
        assigned.add(task)
        assert assigned.has_elements(container)
    assert sum(assigned.has_elements(container) for container in containers) <= outer_variables._MOST_CONTAINERS
    for _ in range(outer_variables._MOST_SUBMITS):
        assigned.add(task)
    assert not any(assigned.has_elements(container) for container in containers)
