# SPDX-License-Identifier: MIT
"""Timelines: the record of a run."""
