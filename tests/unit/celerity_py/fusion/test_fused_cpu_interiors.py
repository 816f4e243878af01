# SPDX-License-Identifier: MIT
"""The boxes in which fused kernels need no conditions, and what the text for processors makes of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py.fusion.interiors
from celerity_py import Box
from celerity_py.cpu.compilation import compile_for_cpu
from celerity_py.fusion.coordinates import Affine
from celerity_py.fusion.interiors import interior_of
from celerity_py.fusion.lowering import Body, Instruction
from celerity_py.fusion.walks import Bound
from tests.support.fused_cpu_kernels import make_cpu_kernel, run_on_cpu
from tests.support.fused_kernels import Access, copies, describe_difference, run_on_numpy

BOX = ((0, 20), (-7, 9))


def _holds(bound: Bound, item: tuple[int, ...]) -> bool:
    return bound.low <= bound.position.step * item[bound.position.axis] + bound.position.offset < bound.high


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
@pytest.mark.parametrize("limits", [(0, 7), (5, 30), (-40, 1), (-3, 60), (13, 14), (50, 60)])
def test_each_condition_has_one_truth_in_the_interior(step: int, limits: tuple[int, int]) -> None:
    bounds = [(Bound(Affine(0, step, 3), *limits),), (Bound(Affine(1, -step, 1), -2, 4), Bound(Affine(0, 1, 0), 4, 16))]
    body = Body([Instruction("inside", np.dtype(bool), (), one) for one in bounds])
    interior = interior_of(body, BOX, 2)
    assert interior is not None
    inside = list(itertools.product(*(range(*ends) for ends in interior.box)))
    assert (10, 1) in inside
    for one, folded in zip(bounds, interior.body.instructions, strict=True):
        (truth,) = {all(_holds(bound, item) for bound in one) for item in inside}
        assert folded == Instruction("literal", np.dtype(bool), (), np.bool_(truth).tobytes())
    for dim, side in itertools.product((0, 1), (0, 1)):  # nothing more could be inside
        end = interior.box[dim][side]
        if end != BOX[dim][side]:
            further = [10, 1]
            further[dim] = end if side else end - 1
            changed = [all(_holds(bound, tuple(further)) for bound in one) for one in bounds]
            assert changed != [all(_holds(bound, (10, 1)) for bound in one) for one in bounds]


def test_conditions_on_elements_alone_make_no_interior() -> None:
    body = Body([Instruction("inside", np.dtype(bool), (), (Bound(Affine(1, 1, 0), 1, 2),))])
    assert interior_of(body, BOX, 1) is None
    assert interior_of(Body(), BOX, 2) is None


def _diffuse(chunk: Any, u: Any, v: Any) -> None:
    padded = v.padded(chunk.box, 1, mode="wrap")
    u[chunk.box] = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] - padded[1:-1, :-2]
    u[chunk.box.shrink(0, 2)] *= 2


def _fields() -> list[Access]:
    return [Access(np.random.default_rng(seed).standard_normal((9, 60))) for seed in (1, 2)]


def test_the_text_of_the_interior_has_no_conditions() -> None:
    text = make_cpu_kernel(_diffuse, Box((0, 0), (9, 60)), *_fields()).text
    start, side = text.index("for c1"), text.index("for side")
    interior, sides = text[start:side], text[side:]
    assert "if v" in sides
    assert "if v" not in interior
    assert "merge_" in sides
    assert "merge_" not in interior


def _difference(folder: Path) -> str:
    pytest.importorskip("numba")
    box, arguments = Box((0, 0), (9, 60)), _fields()
    kernel = make_cpu_kernel(_diffuse, box, *arguments)
    expected, found = copies(arguments), copies(arguments)
    run_on_numpy(_diffuse, box, expected)
    run_on_cpu(compile_for_cpu(kernel.text, "kernel", 1, folder=folder), kernel, found, num_cuts=2)
    return describe_difference(kernel, expected, found)


def test_an_interior_that_is_too_large_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _difference(tmp_path) == ""
    right = celerity_py.fusion.interiors._interval_of
    monkeypatch.setattr(
        celerity_py.fusion.interiors, "_interval_of", lambda bound: (right(bound)[0] - 1, right(bound)[1])
    )
    assert _difference(tmp_path) != ""
