# SPDX-License-Identifier: MIT
"""Explains the remedy for an attribute that an object of ours lacks, such as `view.sum`.

Said once the AttributeError is there: a class with `__getattr__` would make each access to its objects slower.
"""

from __future__ import annotations


def explain_missing(error: BaseException) -> str:
    """The text of `_explain_missing(object, name)` of the object's class; empty if there is none."""
    if not isinstance(error, AttributeError) or error.name is None:
        return ""
    explain = getattr(type(error.obj), "_explain_missing", None)
    return "" if explain is None else str(explain(error.obj, error.name))
