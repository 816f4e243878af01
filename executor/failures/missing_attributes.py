# SPDX-License-Identifier: MIT
"""What to write in place of an attribute that an object of ours does not have, such as `view.sum`.

Said once the AttributeError is there: a class with `__getattr__` would make each access to its objects slower.
"""

from __future__ import annotations


def explain_missing(error: BaseException) -> str:
    """What the class of the object says of the attribute in `_explain_missing(object, name)`; empty if nothing."""
    if not isinstance(error, AttributeError) or error.name is None:
        return ""
    explain = getattr(type(error.obj), "_explain_missing", None)
    return "" if explain is None else str(explain(error.obj, error.name))
