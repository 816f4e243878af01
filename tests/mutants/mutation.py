# SPDX-License-Identifier: MIT
"""A mistake somebody could make in one of the cores."""

from __future__ import annotations

from dataclasses import dataclass

NATIVE_TESTS = ("test_loop_batches",)
"""Programs of tests/native that judge mutants."""


@dataclass(frozen=True)
class Mutation:
    """A small change of one source: `old` occurs exactly once in `file`; so does the first of each pair in `more`."""

    name: str
    file: str
    old: str
    new: str
    more: tuple[tuple[str, str], ...] = ()
    #: The random programs find the mutant among this many. A mistake that takes several coincidences has more.
    limit: int = 500
    #: A program of `NATIVE_TESTS` finds it in place of the random programs, which have no devices with graphs.
    native_test: str = ""

    @property
    def changes_something(self) -> bool:
        return self.old != self.new

    def apply(self, source: str) -> str:
        changed = source
        for old, new in ((self.old, self.new), *self.more):
            if source.count(old) != 1:
                raise ValueError(f'"{self.name}": {old!r} occurs {source.count(old)} times in {self.file}')
            changed = changed.replace(old, new)
        return changed
