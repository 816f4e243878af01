# SPDX-License-Identifier: MIT
"""The graphs of a run, as people look at them: what depends on what, and why each operation exists."""
