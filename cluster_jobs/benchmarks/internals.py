# SPDX-License-Identifier: MIT
"""The extension module of tests and benchmarks, or what to do to have it."""

from __future__ import annotations

try:
    from celerity_py import _native_testing
except ImportError as error:
    raise SystemExit(
        "This benchmark calls parts of the native core that no wheel contains. "
        "Build them in a checkout: with 'make native', or with 'pip install --editable .'."
    ) from error

__all__ = ["_native_testing"]
