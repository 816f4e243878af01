# SPDX-License-Identifier: MIT
"""Timelines: the record of a run, its tracks, and files in Chrome's format."""
