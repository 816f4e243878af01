# SPDX-License-Identifier: MIT
"""Reductions: their operations, their arguments, and those who combine partial results on the host and on GPUs."""
