# SPDX-License-Identifier: MIT
"""Random functions, fused and compiled for the host, have NumPy's bits; and a maker with a mistake is found out."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import celerity_py.fusion.lowering
import celerity_py.fusion.ordering
import celerity_py.fusion.planning
import celerity_py.fusion.storages
import celerity_py.fusion.tiling
import celerity_py.fusion.trace
from celerity_py.fusion.launches import PassLaunch
from celerity_py.fusion.lowering import Instruction
from celerity_py.fusion.nodes import Load
from tests.property.fused_programs import find, make_all
from tests.support import fused_kernels
from tests.support.fused_kernels import Given, Grid

FIRST_SEED = 4_100_000


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows and divisions by 0 are meant
        yield


def test_random_functions_have_the_bits_of_numpy(tmp_path: Path) -> None:
    made, num_refused = make_all(itertools.count(FIRST_SEED), 60)
    assert num_refused < 15
    assert max(len(one.kernels[0].passes) for one in made) > 3
    assert sum(bool(one.kernels[0].scratch) for one in made) > 20
    found = find(made, tmp_path, "unit")
    assert found.differences == []
    assert found.num_wide > 20


def _ignore_overlaps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(celerity_py.fusion.planning, "overlap", lambda first, second: False)


def _load_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(celerity_py.fusion.ordering._Ordering, "_loads_from", lambda self, memory: [])


def _forget_what_was_overwritten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(celerity_py.fusion.planning, "_first_overwritten", lambda *_: None)


def _evaluate_in_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(celerity_py.fusion.planning, "_stores_what_others_load", lambda *_: False)


def _store_last(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(celerity_py.fusion.tiling, "_in_order", lambda *_: set())


def _copy_references(patch: pytest.MonkeyPatch) -> None:
    def read(self: Any, memory: Any, positions: Any, shape: Any) -> Any:
        return Load(memory.dtype, shape, memory, positions, None)  # as it was at the beginning

    patch.setattr(celerity_py.fusion.trace.Trace, "read", read)


def _swap_sides_of_partial_assignments(patch: pytest.MonkeyPatch) -> None:
    def swapped(operation: Any, dtype: Any, operands: Any = (), detail: Any = None) -> Any:
        if operation == "merge":
            operands = (operands[0], operands[2], operands[1])
        return Instruction(operation, dtype, operands, detail)

    patch.setattr(celerity_py.fusion.lowering, "Instruction", swapped)


def _miss_partial_assignments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(celerity_py.fusion.storages, "Insert", lambda dtype, shape, base, part, positions: base)


def _leave_out_the_last_blocks(patch: pytest.MonkeyPatch) -> None:
    def begin_pass(one: PassLaunch, given: Given) -> Grid:
        grid = begin(one, given)
        x, *others = grid.blocks
        return grid._replace(blocks=[max(x - 1, 0), *others])

    begin = fused_kernels.begin_pass
    patch.setattr(fused_kernels, "begin_pass", begin_pass)


def _begin_folds_at_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(celerity_py.fusion.folds, "identity_of", lambda _, dtype: dtype.type(1))


@pytest.mark.parametrize(
    "mistake",
    [
        _ignore_overlaps,
        _load_late,
        _forget_what_was_overwritten,
        _evaluate_in_place,
        _store_last,
        _copy_references,
        _swap_sides_of_partial_assignments,
        _miss_partial_assignments,
        _leave_out_the_last_blocks,
        _begin_folds_at_one,
    ],
)
def test_a_maker_with_a_mistake_is_found_out(
    mistake: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    seeds = itertools.count(FIRST_SEED)
    units = (find(make_all(seeds, 8)[0], tmp_path, f"unit{turn}") for turn in range(12))  # most are found by the first
    assert any(unit.differences for unit in units)
