# SPDX-License-Identifier: MIT
"""Fused kernels for processors, compiled by numba. Without numba nothing here is imported.

compilation   text -> functions by address, kept on disk
operations    NumPy's arithmetic in terms of numba
"""
