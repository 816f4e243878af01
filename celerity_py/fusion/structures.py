# SPDX-License-Identifier: MIT
"""The structures of one function: texts that chunks and submits share, and for which values a trace holds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from celerity_py.scheduler.errors import UsageError

if TYPE_CHECKING:
    from celerity_py.fusion.kernels import TracedKernel

#: Of one function with arguments of the same types.
MAX_STRUCTURES: Final = 32
#: Values of one argument for which functions were traced, before a warning.
MAX_VALUES: Final = 64


class Structures:
    """The different texts that a function has given. Not for several threads at once."""

    def __init__(self, name: str, argument_names: Sequence[str]) -> None:
        self._name = name
        self._argument_names = argument_names
        self._places: dict[str, int] = {}
        self._values: dict[int, set[Any]] = {}
        self._warned: set[int] = set()

    def place_of(self, kernel: TracedKernel, arguments: Sequence[Any]) -> int:
        """The number of the kernel's structure, from 0: kernels of the same number share a compiled kernel.

        Args:
            kernel: Made with the name that all kernels of this function have.
            arguments: Those of its call.

        Raises:
            UsageError: If there are too many.
        """
        self._watch_values(kernel, arguments)
        place = self._places.setdefault(kernel.text, len(self._places))
        if place >= MAX_STRUCTURES:
            del self._places[kernel.text]
            last = kernel.lines[-1][-1] if kernel.lines else "a call that stores nothing"
            raise UsageError(
                f"The fused kernel '{self._name}' does something new in each of {MAX_STRUCTURES + 1} calls, the last "
                f"time at {last}. Each structure is compiled: write conditions on elements as "
                f"numpy.where(condition, a, b), and use numbers that change in expressions of arrays only."
            )
        return place

    def _watch_values(self, kernel: TracedKernel, arguments: Sequence[Any]) -> None:
        for position in kernel.needed:
            values = self._values.setdefault(position, set())
            try:
                values.add(arguments[position])
            except TypeError:  # not hashable, so compared by whoever keeps the trace
                continue
            if len(values) > MAX_VALUES and position not in self._warned:
                self._warned.add(position)
                warnings.warn(
                    f"The fused kernel '{self._name}' is traced for more than {MAX_VALUES} values of its argument "
                    f"'{self._argument_names[position]}', because Python needs the value, as in `if`, range() or an "
                    f"index. Each trace takes milliseconds: use the argument in expressions of arrays only.",
                    stacklevel=2,
                )
