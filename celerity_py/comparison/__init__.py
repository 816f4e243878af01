# SPDX-License-Identifier: MIT
"""What the ranks compare to find out whether they run the same program."""
