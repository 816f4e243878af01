# SPDX-License-Identifier: MIT
"""Arguments that are no accesses: arrays are copied at submit, and what no task can use is refused there."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.scheduler.errors import ArgumentTypeError
from tests.support.scripts import run


@dataclass(frozen=True)
class Weights:
    name: str
    values: np.ndarray[Any, Any]


@dataclass
class Settings:
    values: Any


MASKED = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])


def test_no_buffer_is_filled_from_a_masked_array() -> None:
    with celerity.Queue():
        for copy in (True, False):
            with pytest.raises(ArgumentTypeError, match=r"from_array\(\) got a masked array .* array\.filled\(value\)"):
                celerity.Buffer.from_array(MASKED, copy=copy)


@pytest.mark.parametrize(
    ("call", "did"),
    [
        ("queue.parallel_for(3, assign, u.write(access.one_to_one()))", 'assigns to B1 "u" at [...] a masked array'),
        ("queue.parallel_for(1, combine, celerity.reduction(t, 'sum'))", "combines a masked array of shape ()"),
        ("queue.fence(celerity.Buffer.from_function(3, 'f8', lambda box: masked))", "returned a masked array"),
    ],
)
def test_no_task_writes_a_masked_array(call: str, did: str, tmp_path: Path) -> None:
    program = """
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])
    def assign(chunk, out):
        out[...] = masked[chunk.box.slices]
    def combine(chunk, out):
        out.combine(masked[:1])
    u = celerity.Buffer.from_array(np.zeros(3), name="u")
    t = celerity.Buffer.from_array(np.zeros(()), name="t")
    with celerity.Queue() as queue:
    """
    assert did in run(tmp_path, f"{program}    {call}\n").stderr


class Pair(NamedTuple):
    left: Any
    right: Any


def sum_of(argument: Any) -> Any:
    """Of the arrays in an argument."""
    if isinstance(argument, np.ndarray):
        return argument.sum()
    if isinstance(argument, Weights | Settings):
        return sum_of(argument.values)
    return sum(map(sum_of, argument))


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda array: array,
    "tuple": lambda array: (1, array)[1:],
    "nested tuple": lambda array: ((array,),),
    "named tuple": lambda array: Pair(array, ()),
    "frozen dataclass": lambda array: Weights("w", array),
    "frozen dataclass in a tuple": lambda array: (Weights("w", array),),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("is_host_task", [False, True], ids=["kernel", "host task"])
def test_a_task_sees_arrays_as_they_were_at_its_submit(wrap: Callable[[Any], Any], is_host_task: bool) -> None:
    gate = threading.Event()
    seen = []

    def look(part: Any, argument: Any) -> None:
        assert gate.wait(30)
        seen.append(sum_of(argument))

    kernel = celerity.kernel(look)
    array = np.zeros(50)
    with celerity.Queue() as queue:
        for step in range(4):
            array[:] = step
            if is_host_task:
                queue.host_task(look, wrap(array))
            else:
                queue.parallel_for(1, kernel, wrap(array))
        array[:] = 1000
        gate.set()
    assert sorted(seen) == [0, 50, 100, 150]


def test_a_kernel_that_got_a_number_before_copies_an_array_all_the_same() -> None:
    gate = threading.Event()
    seen = []

    @celerity.kernel
    def look(chunk: Any, argument: Any) -> None:
        assert gate.wait(30)
        seen.append(float(np.sum(argument)))

    array = np.ones(3)
    with celerity.Queue() as queue:
        for argument in (1.0, 2.0, array, 3.0, array):
            queue.parallel_for(1, look, argument)
        array[:] = 7
        gate.set()
    assert seen == [1, 2, 3, 3, 3]


def test_a_kernel_cannot_write_into_an_array_that_it_got(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        def write(chunk, argument):
            argument[0] = 1

        array = np.zeros(3)
        try:
            with celerity.Queue() as queue:
                queue.parallel_for(1, write, array)
        except errors.ReadOnlyAccess as error:
            print(array, array.flags.writeable, error)
        """,
    )
    assert result.stdout.startswith("[0. 0. 0.] True "), result.stderr
    assert re.search(
        r'"write" \(submitted at .*app\.py:\d+\).* arguments \(number 1\) are shared .*\.copy\(\)', result.stdout
    )


def test_what_cannot_change_is_not_copied() -> None:
    seen: list[Any] = []
    frozen = np.arange(3)
    frozen.flags.writeable = False
    part = frozen[1:]
    window = np.arange(3)[:]
    window.flags.writeable = False  # but its base is not
    numbers = (1, "x", (2.5,))
    with celerity.Queue() as queue:
        for value in (frozen, part, window, numbers, np.frombuffer(b"abc", np.uint8)):
            queue.parallel_for(1, lambda chunk, *args: seen.append(args[0]), value)
    assert seen[0] is frozen
    assert seen[1] is part
    assert seen[2] is not window
    assert seen[3] is numbers
    assert isinstance(seen[4].base, bytes)


def test_arrays_keep_their_class_and_layout() -> None:
    seen: list[Any] = []
    masked = np.ma.masked_less(np.arange(4), 2)
    columns = np.asfortranarray(np.ones((3, 4)))
    scalar = np.array(3)
    with celerity.Queue() as queue:
        queue.parallel_for(1, lambda chunk, *args: seen.extend(args), masked, columns, scalar)
    assert isinstance(seen[0], np.ma.MaskedArray)
    assert seen[0].sum() == 5
    assert seen[1].strides == columns.strides
    assert seen[2].shape == ()
    assert not any(array.flags.writeable for array in seen)


def test_lists_and_objects_are_shared_with_the_task() -> None:
    results: list[Any] = []
    settings = Settings(np.zeros(2))
    with celerity.Queue() as queue:
        queue.host_task(lambda part, out, settings: out.append(settings.values), results, settings)
        queue.host_task(lambda part, out, table: out.append(table["x"]), results, {"x": settings.values})
    assert all(item is settings.values for item in results)
    assert len(results) == 2


@pytest.fixture
def u() -> Any:
    with celerity.Queue():
        yield celerity.Buffer((8,), name="u")


def refuse(*args: Any) -> str:
    with celerity.Queue() as queue:
        with pytest.raises(ArgumentTypeError) as caught:
            queue.parallel_for(8, lambda chunk, *args: None, *args, name="step")
        with pytest.raises(ArgumentTypeError) as again:
            queue.parallel_for(8, lambda chunk, *args: None, *args, name="step")
        with pytest.raises(ArgumentTypeError):
            queue.host_task(lambda part, *args: None, *args)
    assert str(again.value) == str(caught.value)
    return str(caught.value)


def test_methods_of_buffers_are_accesses_only_if_called(u: celerity.Buffer) -> None:
    expected = 'kernel "step" got the method {} of B\\d+ "u" and no access. .*: u.{}\\(access.one_to_one\\(\\)\\)'
    for mode in ("read", "write", "read_write"):
        text = refuse(getattr(u, mode))
        assert re.match(expected.format(mode, mode), text), text


@pytest.mark.parametrize(
    "wrap",
    [
        lambda item: [item],
        lambda item: (item,),
        lambda item: {"u": item},
        Settings,
        lambda item: Pair(1, (item,)),
    ],
)
def test_accesses_inside_of_other_arguments_are_refused(u: celerity.Buffer, wrap: Callable[[Any], Any]) -> None:
    text = refuse(wrap(u.read(access.all())))
    assert "got <read access to B" in text
    assert "an argument of its own: write parallel_for(shape, kernel, *accesses)" in text
    assert "Say how it is accessed" in refuse(wrap(u))
    reduced = celerity.Buffer(())
    assert "got <reduction 'sum' into B" in refuse(wrap(celerity.reduction(reduced, "sum")))


def test_what_means_something_elsewhere_is_refused(u: celerity.Buffer) -> None:
    with celerity.Queue() as queue:
        future = queue.fence(celerity.Buffer.from_array(np.ones(2)))
        assert "Pass its value, future.result()" in refuse(future)
        future.result()
    assert "Write buffer.read(mapper)" in refuse(access.all())
    assert "Write buffer.read(mapper)" in refuse(access.pure(lambda chunk: chunk.box))
    assert "got the function access.all" in refuse(access.all)
    assert "Pass it by name: hints=split_2d()" in refuse(celerity.hints.split_2d())


def test_a_method_does_not_count_as_the_function_that_it_is_made_of() -> None:
    class Scale:
        def run(self, chunk: Any, factor: Any) -> None:
            pass

    with celerity.Queue() as queue:
        queue.parallel_for(1, Scale().run, 2)
        with pytest.raises(ArgumentTypeError, match="does not fit its signature"):
            queue.parallel_for(1, Scale.run, 2)
        queue.parallel_for(1, Scale().run, 2)
