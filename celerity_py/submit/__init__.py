# SPDX-License-Identifier: MIT
"""From the arguments of a submit to what the scheduler gets, and what can be wrong with them."""
