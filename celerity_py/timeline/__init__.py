# SPDX-License-Identifier: MIT
"""Timelines: what a run records, and the format of Chrome's trace viewer."""
