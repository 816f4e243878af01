# SPDX-License-Identifier: MIT
"""Tools on top of the runtime: the command line, the report of a run, progress of loops. No other room uses them."""
