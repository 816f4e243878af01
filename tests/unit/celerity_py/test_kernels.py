# SPDX-License-Identifier: MIT
"""The ways to declare a kernel, and hints."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from celerity_py import hints
from celerity_py._native import SPLITS
from celerity_py.errors import ArgumentTypeError, UsageError
from celerity_py.hints import Hint
from celerity_py.kernels import CudaKernel, Kernel, kernel, name_of, refuse_backend

SOURCE = "extern __global__ void scale(celerity::chunk<1> c, celerity::accessor<float, 1> x) {}"


def test_the_decorator_keeps_name_and_documentation() -> None:
    @kernel
    def scale(chunk: Any, x: int) -> int:
        """Multiply."""
        return 3 * x

    assert isinstance(scale, Kernel)
    assert scale.name == "scale"
    assert scale.__doc__ == "Multiply."
    assert scale.cpu is scale.cuda
    assert scale(None, 4) == 12
    assert repr(scale) == "<kernel 'scale' for cpu and cuda>"


def test_the_decorator_takes_a_name() -> None:
    @kernel(name="fast scale")
    def scale(chunk: Any) -> None: ...

    assert scale.name == "fast scale"


def test_a_kernel_may_have_one_implementation_per_backend() -> None:
    def on_cpu(chunk: Any) -> str:
        return "cpu"

    both = kernel(cpu=on_cpu, cuda=CudaKernel(SOURCE, "scale"))
    assert both.name == "on_cpu"
    assert both(None) == "cpu"
    assert isinstance(both.cuda, CudaKernel)
    assert kernel(cpu=kernel(on_cpu), cuda=on_cpu).cpu is on_cpu


def test_attributes_of_the_function_do_not_reach_the_kernel() -> None:
    def on_cpu(chunk: Any) -> None: ...

    on_cpu.cpu = None  # type: ignore[attr-defined]
    assert kernel(on_cpu).cpu is on_cpu


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernel(3), "needs a function for cpu, not 3"),  # type: ignore[call-overload]
        (lambda: kernel(cpu=print, cuda=3), "needs a function for cuda, not 3"),  # type: ignore[call-overload]
        (lambda: kernel(cpu=CudaKernel(SOURCE, "scale")), "cannot be the CPU implementation"),  # type: ignore[call-overload]
        (lambda: kernel(print, cuda=print), "either one function"),  # type: ignore[call-overload]
        (lambda: CudaKernel(3, "scale"), "source text"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_implementation_is_an_error(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize("given", [CudaKernel(SOURCE, "scale"), kernel(cuda=CudaKernel(SOURCE, "scale"), name="scale")])
def test_a_kernel_for_cuda_only_names_the_form_with_both(given: Any) -> None:
    with pytest.raises(
        UsageError, match=r"'scale' has no implementation for the CPU backend.*kernel\(cpu=f, cuda=scale\)"
    ):
        refuse_backend(given)


def test_names_come_from_functions_partials_and_types() -> None:
    class Functor:
        def __call__(self) -> None: ...

    assert name_of(name_of) == "name_of"
    assert name_of(functools.partial(name_of, 1)) == "name_of"
    assert name_of(Functor()) == "Functor"


ONE_D, TWO_D, WEIGHTED, CYCLIC = map(SPLITS.index, ("split_1d", "split_2d", "weights", "cyclic"))


def test_hints_are_resolved() -> None:
    assert hints.resolve(()) == hints.Division()
    assert hints.resolve([hints.split_1d()]) == hints.Division(ONE_D)
    assert hints.resolve([hints.split_2d(), hints.oversubscribe(4)]) == hints.Division(TWO_D, 4)
    assert hints.resolve(hints.oversubscribe(2)) == hints.Division(oversubscribe=2)
    assert hints.resolve([hints.border_first(3), hints.split_2d()]) == hints.Division(TWO_D, border=3)
    assert hints.resolve(hints.cyclic(5)) == hints.Division(CYCLIC, block=5)
    weighted = hints.Division(WEIGHTED, weights=(1.0, 3.0))
    assert hints.resolve(hints.weights([1, 3]), num_ranks=2, num_devices=3) == weighted
    assert hints.resolve(hints.weights([1, 3]), num_ranks=1, num_devices=2) == weighted
    assert hints.resolve([hints.weights((1, 3)), hints.oversubscribe(4)], num_ranks=2).oversubscribe == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([hints.split_1d(), hints.split_2d()], "contradict"),
        ([hints.oversubscribe(2), hints.oversubscribe(3)], r"given twice: oversubscribe\(2\) and oversubscribe\(3\)"),
        ([hints.oversubscribe(2), hints.border_first()], "contradict"),
        ([hints.cyclic(2), hints.border_first()], r"cyclic\(2\) and border_first\(1\) contradict"),
        ([hints.weights([1]), hints.split_3d()], r"weights\(\(1.0,\)\) and split_3d\(\) contradict"),
        (
            hints.weights([1, 2, 3]),
            "has 3 weights, but this run has 2 ranks with 4 devices each. Give 2, one per rank, or 8",
        ),
        (["split_2d"], "hints.split_2d"),
        ([hints.split_2d], "hints.split_2d"),
    ],
)
def test_contradicting_repeated_and_foreign_hints_are_errors(given: list[Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hints.resolve(given, num_ranks=2, num_devices=4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (3, "a sequence of numbers, not 3"),
        (["a"], "a sequence of numbers"),
        ("12", r"a sequence of numbers, not '12'"),
        ([1, -1], r"not negative, but number 1 of \(1.0, -1.0\) is -1.0"),
        ([float("nan")], "number 0"),
        ([float("inf")], "number 0"),
        ([0, 0], r"positive and finite sum; that of \(0.0, 0.0\) is 0.0"),
        ([], r"sum; that of \(\) is 0"),
        ([1e308, 1e308], "is inf"),
    ],
)
def test_weights_are_numbers_with_a_positive_sum(values: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hints.weights(values)


@pytest.mark.parametrize("block", [0, -1, 1.5, True, 2**63])
def test_blocks_have_a_positive_number_of_items(block: Any) -> None:
    with pytest.raises(UsageError, match=f"positive number of items per block, not {block}"):
        hints.cyclic(block)


@pytest.mark.parametrize("factor", [0, -1, 1.5, True])
def test_oversubscription_needs_a_positive_factor(factor: Any) -> None:
    with pytest.raises(UsageError, match="positive number of chunks"):
        hints.oversubscribe(factor)


@pytest.mark.parametrize("width", [0, -1, 1.5, True, 2**32])
def test_a_border_needs_a_positive_width(width: Any) -> None:
    with pytest.raises(UsageError, match="positive number of items"):
        hints.border_first(width)


def test_foreign_hints_are_type_errors() -> None:
    with pytest.raises(ArgumentTypeError):
        hints.resolve([3])
    assert repr(Hint("split_2d")) == "split_2d()"
    assert repr(hints.border_first(2)) == "border_first(2)"
