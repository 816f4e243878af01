# SPDX-License-Identifier: MIT
"""Variables from outside that a task's function uses: a task runs later than its submit, when a loop may have gone on.

Looked at with CHECK. Only values that cannot change themselves are compared: lists and objects are shared on purpose.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from celerity_py.comparison.mapper_identity import global_names
from celerity_py.scheduler.errors import UsageError

if TYPE_CHECKING:
    from celerity_py.vocabulary.submissions import Submission

#: The namespace of global variables or the cell of a variable, its name, and its value.
OuterValue = tuple["dict[str, Any] | CellType", str, Any]

_VALUES: Final = (bool, int, float, complex, str, bytes, type(None), np.generic)
_STORES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
_NOTHING: Final = object()


class ChangedVariable(NamedTuple):
    """A variable from outside, with its values at the submit and now, as messages show them."""

    name: str
    then: str
    now: str


class OuterVariables:
    """Notes variables at the submit, and looks at them when the task runs."""

    def __init__(self) -> None:
        # The variables that some task assigns: tasks may hand values to each other. Keeps namespaces and cells alive.
        self._assigned: dict[tuple[int, str], dict[str, Any] | CellType] = {}

    def note(self, submission: Submission) -> None:
        """Keep the values of a task that is being submitted. Application thread."""
        function = submission.function
        if isinstance(function, MethodType):
            function = function.__func__
        if not isinstance(function, FunctionType):
            return
        stored = set(_stored_names(function.__code__))
        found: list[OuterValue] = []
        for where, name in variables_of(function):
            if name in stored:
                self._assigned[id(where), name] = where
                continue
            value = value_of(where, name)
            if _is_comparable(value):
                found.append((where, name, value))
        submission.outside = found

    def compare(self, submission: Submission) -> None:
        """Look at the variables of a task that runs. Any thread.

        Raises:
            UsageError: If one has another value than at the submit.
        """
        changed = self.find_changed(submission)
        if changed is not None:
            raise UsageError(
                f"{submission.describe()} uses the variable {changed.name!r} from outside, which was {changed.then} at "
                f"the submit and is {changed.now} when the task runs. Tasks run later than they are submitted: pass "
                f"the value as an argument of the task, which keeps it."
            )

    def find_changed(self, submission: Submission) -> ChangedVariable | None:
        """The first variable of a task with another value than at the submit; any thread."""
        for where, name, then in getattr(submission, "outside", ()):
            now = value_of(where, name)
            if now is then or now is _NOTHING or (id(where), name) in self._assigned:
                continue
            if type(now) is not type(then) or repr(now) != repr(then):  # NaN equals nothing, and 0 equals 0.0
                return ChangedVariable(name, _short(then), _short(now))
        return None


def variables_of(function: FunctionType) -> Iterator[tuple[dict[str, Any] | CellType, str]]:
    """The variables from outside that a function names: where each one lies, and its name."""
    yield from zip(function.__closure__ or (), function.__code__.co_freevars, strict=True)
    known = function.__globals__
    for name in global_names(function.__code__):
        if name in known:
            yield known, name


def _stored_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in _STORES:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _stored_names(constant)


def value_of(where: dict[str, Any] | CellType, name: str) -> Any:
    """The value of such a variable now; `_NOTHING` if it has none."""
    if isinstance(where, dict):
        return where.get(name, _NOTHING)
    try:
        return where.cell_contents
    except ValueError:  # nothing is assigned
        return _NOTHING


def _is_comparable(value: Any) -> bool:
    return isinstance(value, _VALUES) or (isinstance(value, tuple) and all(map(_is_comparable, value)))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
