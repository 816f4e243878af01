# SPDX-License-Identifier: MIT
"""Watches over a run: its progress, silent ranks, and whether all ranks run the same program."""
