# SPDX-License-Identifier: MIT
"""The settings and digests that the ranks compare, to find out whether they run the same program."""
