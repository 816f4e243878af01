# SPDX-License-Identifier: MIT
"""The three graphs and the lookahead; installed as `celerity_py.scheduler`."""

if not __name__.startswith("celerity_py."):
    # Imported by its folder name, every class in here would exist twice, and the two would not be equal.
    raise ImportError(f"import this package as 'celerity_py.scheduler', not as {__name__!r}")
