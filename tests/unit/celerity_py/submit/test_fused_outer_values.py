# SPDX-License-Identifier: MIT
"""Fused functions that ask for types and texts of numbers, and for what no submit can look at again."""

from __future__ import annotations

import functools
import gc
import importlib
import random
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.scheduler.errors import ArgumentTypeError, CelerityWarning

pytest.importorskip("numba")

_factor = 1.0
_factors = {1.0}
_give = functools.partial(lambda value: value, 1.0)
_draws = np.random.default_rng(1)


class _Model:
    factor = 1.0

    @property
    def twice(self) -> float:
        return 2 * self.factor

    def __call__(self) -> float:
        return self.factor

    def by_property(self, chunk: Any, u: Any) -> None:
        u[chunk.box] = self.twice

    def by_attribute(self, chunk: Any, u: Any) -> None:
        u[chunk.box] = self.factor


_model = _Model()


def _by_call(chunk: Any, u: Any) -> None:
    u[chunk.box] = _model()


def _by_getattr(chunk: Any, u: Any) -> None:
    u[chunk.box] = getattr(_model, "factor")  # noqa: B009


def _by_globals(chunk: Any, u: Any) -> None:
    u[chunk.box] = globals()["_factor"]


def _by_set(chunk: Any, u: Any) -> None:
    u[chunk.box] = sum(_factors)


def _by_partial(chunk: Any, u: Any) -> None:
    u[chunk.box] = _give()


def _by_numpy(chunk: Any, u: Any) -> None:
    u[chunk.box] = np.random.random()  # noqa: NPY002


def _by_python(chunk: Any, u: Any) -> None:
    u[chunk.box] = random.random()


def _by_generator(chunk: Any, u: Any) -> None:
    u[chunk.box] = _draws.random()


def _submit(queue: celerity.Queue, kernel: Any, *args: Any) -> float:
    u = celerity.Buffer(4, np.float64)
    queue.parallel_for(4, kernel, u.write(access.one_to_one()), *args)
    return float(queue.fence(u).result()[0])


@pytest.mark.parametrize(
    ("function", "expected"),
    [(_model.by_property, [2.0, 4.0]), *((one, [1.0, 2.0]) for one in (_by_call, _by_getattr, _by_globals, _by_set))],
)
def test_what_no_submit_can_look_at_is_left_to_python(function: Callable[..., Any], expected: list[float]) -> None:
    global _factor, _factors  # noqa: PLW0603
    kernel, found = celerity.fuse(function), []
    with celerity.Queue() as queue:
        for value in (1.0, 2.0):
            _model.factor = _factor = value
            _factors = {value}
            with pytest.warns(CelerityWarning, match="from outside") if value == 1 else nullcontext():
                found.append(_submit(queue, kernel))
    assert found == expected


@pytest.mark.parametrize("function", [_by_numpy, _by_python, _by_generator])
def test_random_numbers_are_left_to_python(function: Callable[..., Any]) -> None:
    kernel = celerity.fuse(function)
    with celerity.Queue() as queue:
        with pytest.warns(CelerityWarning, match="from outside"):
            first = _submit(queue, kernel)
        assert _submit(queue, kernel) != first


@pytest.mark.filterwarnings("error")
def test_another_attribute_or_partial_is_another_kernel() -> None:
    global _give  # noqa: PLW0603
    kernels, found = [celerity.fuse(one) for one in (_model.by_attribute, _by_partial)], []
    with celerity.Queue() as queue:
        for value in (1.0, 2.0):
            _model.factor = value
            _give = functools.partial(lambda number: number, value)
            found.append([_submit(queue, kernel) for kernel in kernels])
    assert found == [[1.0, 1.0], [2.0, 2.0]]


def _mark(u: Any, place: float) -> None:
    """A place is no part of the text: all kernels with one name are compiled once."""
    u[...] = 0
    u[int(place) : int(place) + 1] = 1


def _by_import(chunk: Any, u: Any) -> None:
    import numpy as np
    from changing_values import place  # type: ignore[import-not-found]

    _mark(u, np.float64(place))


def _by_imported_module(chunk: Any, u: Any) -> None:
    import os.path as paths

    import changing_values

    _mark(u, changing_values.get() * len(paths.sep))


def _by_import_in_cell(chunk: Any, u: Any) -> None:
    from changing_values import place as here

    def mark() -> None:
        _mark(u, here)

    mark()


def _marked(queue: celerity.Queue, kernel: Any) -> int:
    u = celerity.Buffer(4, np.float64)
    queue.parallel_for(4, kernel, u.write(access.one_to_one()))
    return int(queue.fence(u).result().argmax())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("function", [_by_import, _by_imported_module, _by_import_in_cell])
def test_what_a_function_imports_is_looked_up_at_each_submit(
    function: Callable[..., Any], is_loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "changing_values.py").write_text("place = 1\ndef get():\n    return place\n")
    monkeypatch.syspath_prepend(tmp_path)
    if is_loaded:
        importlib.import_module("changing_values")
    kernel, found = celerity.fuse(function, name="mark"), list[int]()
    try:
        with celerity.Queue() as queue:
            for place in (1, 2, 1):
                if found:
                    setattr(sys.modules["changing_values"], "place", place)  # noqa: B010
                found.append(_marked(queue, kernel))
    finally:
        sys.modules.pop("changing_values", None)
    assert found == [1, 2, 1]


def test_a_method_is_a_kernel_of_its_object_which_the_runtime_does_not_keep() -> None:
    class Model:
        def __init__(self) -> None:
            self.place = 1
            self.kernel = celerity.fuse(self.step, name="mark")

        def step(self, chunk: Any, u: Any) -> None:
            _mark(u, self.place)

    model, found = Model(), list[int]()
    with celerity.Queue() as queue:
        for place in (1, 2):
            model.place = place
            found.append(_marked(queue, model.kernel))
        kept = weakref.ref(model)
        del model
        for _ in range(500):  # until the executor has told of the end of the last task
            gc.collect()
            if kept() is None:
                break
            queue.wait()
        assert kept() is None
    assert found == [1, 2]


@pytest.mark.parametrize("decorator", ["fuse", "kernel"])
def test_a_decorated_method_is_refused_with_what_to_write(decorator: str) -> None:
    class Model:
        @getattr(celerity, decorator)  # type: ignore[untyped-decorator]
        def step(self, chunk: Any, u: Any = None) -> None:
            pass

    with (
        celerity.Queue() as queue,
        pytest.raises(ArgumentTypeError, match=rf"`self\.kernel = celerity\.{decorator}\(self\.step\)` in __init__"),
    ):
        _submit(queue, Model().step)


def _is_imported_int(a: Any) -> float:
    from fractions import Fraction

    from tests.unit.celerity_py.submit.test_fused_outer_values import _is_int

    return _is_int(a) * float(Fraction(2, 2))


def _imported_questions(chunk: Any, u: Any, a: Any) -> None:
    u[chunk.box] = _is_imported_int(a)


def _is_int(a: Any) -> float:
    return 2.0 if isinstance(a, int) else 3.0


def _questions(chunk: Any, u: Any, a: Any) -> None:
    u[chunk.box] = _is_int(a)


def _enclosing(ask: Callable[[Any], float]) -> Callable[..., Any]:
    def function(chunk: Any, u: Any, a: Any) -> None:
        u[chunk.box] = ask(a)

    return function


def _type(chunk: Any, u: Any, a: Any) -> None:
    u[chunk.box] = 2.0 if type(a) is int else 3.0


def _texts(chunk: Any, u: Any, a: Any) -> None:
    u[chunk.box] = (2.0 if f"{a}" == "1" else 3.0) + (10 if str(a) == "2" else 20)


def _attributes(chunk: Any, u: Any, a: Any) -> None:
    u[chunk.box] = a.real + divmod(a, 2)[1] + np.asarray(a).dtype.itemsize + (5 if np.isscalar(a) else 6)


@pytest.mark.parametrize("function", [_questions, _imported_questions, _enclosing(_is_int), _type, _texts, _attributes])
def test_questions_about_numbers_have_the_answers_of_python(function: Callable[..., Any]) -> None:
    kernel = celerity.fuse(function, name="asks")
    with celerity.Queue() as queue:
        for number in (1, 2, np.float32(1)):
            assert _submit(queue, kernel, number) == _submit(queue, celerity.kernel(function), number)
