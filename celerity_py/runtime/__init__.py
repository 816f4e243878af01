# SPDX-License-Identifier: MIT
"""The life of a run: start, native objects, futures, what is reported, and the end."""
