# SPDX-License-Identifier: MIT
"""The life of a run: start, native objects, futures, reports, and the end."""
