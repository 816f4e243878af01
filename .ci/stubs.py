# SPDX-License-Identifier: MIT
"""Writes the stub of an extension module: `python .ci/stubs.py module file`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from nanobind.stubgen import StubGen


class Generator(StubGen):
    """Shows a named tuple with its fields. Their types are those of the default values; None stands for any type.

    The field `kind` is one of the `kinds` of the type, if it names some.
    """

    def put_type(self, tp: Any, name: str | None) -> None:
        """Append a class."""
        if not hasattr(tp, "_field_defaults"):
            super().put_type(tp, name)
            return
        self.write_ln(f"class {tp.__name__}({self.bind('typing', 'NamedTuple')}):")
        self.depth += 1
        self.put_docstr(tp.__doc__)
        for field, default in tp._field_defaults.items():
            kinds = ", ".join(map(repr, getattr(tp, "kinds", ()))) if field == "kind" else ""
            kind = f"{self.bind('typing', 'Literal')}[{kinds}]" if kinds else self._type_of(default)
            self.write_ln(f"{field}: {kind} = ...")
        self.depth -= 1
        self.write("\n")

    def _type_of(self, value: Any) -> str:
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return f"tuple[{', '.join(map(self._type_of, value))}]"
        if isinstance(value, list):
            return f"list[{self._type_of(None)}]"
        return type(value).__name__ if value is not None else str(self.bind("typing", "Any"))


if __name__ == "__main__":
    sys.path.insert(0, "")
    module = importlib.import_module(sys.argv[1])
    generator = Generator(module, quiet=True, recursive=False, include_docstrings=True, include_private=False)
    generator.put(module)
    Path(sys.argv[2]).write_text(generator.get(), encoding="utf-8")
