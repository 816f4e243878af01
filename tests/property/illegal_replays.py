# SPDX-License-Identifier: MIT
"""Mistakes with values that change: between a recording and its replay, or between the submit of a task and its call.

Most of them change a value in one of the places from which functions take values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.property.illegal_run import Plain

Function = Callable[..., Any]
PLACES = ("cell", "global", "attribute", "item", "element", "chain")
VALUES = "plain value of a replay"
BUFFERS = "buffer of a replay"
HALF_TURN = "half a turn of a replay"
CHANGING = "a recorded function changes a value"
SUBMITTED = "a value after the submit"
SUBMITTED_PLAINLY = "a value after the submit, where a look costs nothing"
PARAMETERS = "parameter of a recording"
USES = ("computed with", "compared", "kept", "unknown", "in a tuple")
"""Of a parameter, none of which a replay could repeat."""

held: Any = None  # the global variable


class Place:
    """Where a value lies."""

    def __init__(self, where: str, value: Any) -> None:
        self.where = where
        self._holder = SimpleNamespace(value=value, inner=SimpleNamespace(values={"value": value}))
        self._mapping = {"value": value}
        self._sequence = [0, value]
        self._write_cell, self._read_cell = _make_cell()
        self.change(value)

    def change(self, new: Any) -> None:
        """Put another value there."""
        if self.where == "cell":
            self._write_cell(new)
        elif self.where == "global":
            globals()["held"] = new
        elif self.where == "attribute":
            self._holder.value = new
        elif self.where == "item":
            self._mapping["value"] = new
        elif self.where == "element":
            self._sequence[1] = new
        else:
            self._holder.inner.values["value"] = new

    def reader(self, use: Function) -> Function:
        """A function whose bytecode names the place. It calls `use` with the value."""
        holder, mapping, sequence = self._holder, self._mapping, self._sequence
        readers: dict[str, Function] = {
            "cell": self._read_cell(use),
            "global": lambda *given: use(held, *given),
            "attribute": lambda *given: use(holder.value, *given),
            "item": lambda *given: use(mapping["value"], *given),
            "element": lambda *given: use(sequence[1], *given),
            "chain": lambda *given: use(holder.inner.values["value"], *given),
        }
        return readers[self.where]


def _make_cell() -> tuple[Callable[[Any], None], Callable[[Function], Function]]:
    value: Any = None

    def change(new: Any) -> None:
        nonlocal value
        value = new

    def reader(use: Function) -> Function:
        return lambda *given: use(value, *given)

    return change, reader


def _table(name: str) -> Any:
    import celerity_py as celerity

    return celerity.Buffer.from_array(np.zeros(8), name=name)


def _add(chunk: Any, table: Any, value: float) -> None:
    table[chunk.box] += value


def _launch(queue: Any, table: Any, value: Any) -> None:
    from celerity_py import access

    queue.parallel_for(8, _add, table.read_write(access.one_to_one()), value)


def change_value(plain: Plain, where: str) -> None:
    """The function passes a number on, which is another one at the replay."""
    table, place = _table("table"), Place(where, 1.5)
    recording = plain.queue.record(place.reader(lambda value: _launch(plain.queue, table, value)))
    plain.queue.replay(recording, 2)
    place.change(2.5)
    plain.queue.replay(recording, 2)


def replace_buffer(plain: Plain, where: str) -> None:
    """Another buffer has the name at the replay, and the first one lives."""
    table, other = _table("table"), _table("other")
    place = Place(where, table)
    recording = plain.queue.record(place.reader(lambda value: _launch(plain.queue, value, 1.0)))
    plain.queue.replay(recording, 2)
    place.change(other)
    plain.queue.replay(recording, 2)


def leave_half_a_turn(plain: Plain, where: str) -> None:
    """The function leaves the names of two buffers exchanged."""
    first, second = Place(where, _table("first")), Place("attribute", _table("second"))

    def exchange(one: Any, other: Any) -> None:
        _launch(plain.queue, one, 1.0)
        first.change(other)
        second.change(one)

    plain.queue.replay(plain.queue.record(second.reader(first.reader(exchange))), 3)


def change_what_it_reads(plain: Plain, where: str) -> None:
    """The function advances a number that it passes on."""
    table, place = _table("table"), Place(where, 1.5)

    def advance(value: float) -> None:
        _launch(plain.queue, table, value)
        place.change(value + 1)

    plain.queue.replay(plain.queue.record(place.reader(advance)), 2)


def change_after_submit(plain: Plain, where: str) -> None:
    """The number is another one when the task runs, which waits for an earlier one until then."""
    from celerity_py import access

    table, place, has_changed = _table("table"), Place(where, 1.5), threading.Event()
    every = access.all()
    plain.queue.host_task(lambda part, view: has_changed.wait(5) and None, table.read_write(every), on="once")
    body = place.reader(lambda value, chunk, view: _add(chunk, view, value))
    plain.queue.parallel_for(8, body, table.read_write(access.one_to_one()))
    place.change(2.5)
    has_changed.set()
    plain.queue.wait()


def misuse_parameter(plain: Plain, use: str) -> None:
    """The recorded function does something else with a parameter than to hand it on, or no parameter has that name."""
    table, kept = _table("table"), []

    def step(value: Any) -> None:
        kept.append(value)
        if use == "computed with":
            value = value * 2
        elif use == "compared" and value > 1:
            return
        _launch(plain.queue, table, (value, 1) if use == "in a tuple" else value)

    recording = plain.queue.record(step, value=1.5)
    plain.queue.replay(recording, 2, value=2.5)
    if use == "kept":
        _launch(plain.queue, table, kept[0])
    plain.queue.replay(recording, 2, valeu=2.5)


_MISTAKES = {
    PARAMETERS: misuse_parameter,
    VALUES: change_value,
    BUFFERS: replace_buffer,
    HALF_TURN: leave_half_a_turn,
    CHANGING: change_what_it_reads,
    SUBMITTED: change_after_submit,
    SUBMITTED_PLAINLY: change_after_submit,
}


def make_mistake(plain: Plain, how: str) -> None:
    """`how`: the kind of mistake, and the place of the value, or the use of a parameter."""
    kind, _, where = how.partition("/")
    if kind in _MISTAKES:
        _MISTAKES[kind](plain, where)
