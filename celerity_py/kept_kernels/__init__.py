# SPDX-License-Identifier: MIT
"""Compiled kernels on disk, of GPUs and of CPU devices."""
