# SPDX-License-Identifier: MIT
"""Out-of-order execution, backends and communicators; installed as `celerity_py.executor`."""

if not __name__.startswith("celerity_py."):
    # Imported by its folder name, every class in here would exist twice, and the two would not be equal.
    raise ImportError(f"import this package as 'celerity_py.executor', not as {__name__!r}")
