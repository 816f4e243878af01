# SPDX-License-Identifier: MIT
"""Failures: from an exception to the end of the run on every rank, and the tracebacks that users see."""
