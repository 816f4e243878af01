# SPDX-License-Identifier: MIT
"""CUDA kernels: read, compiled, launched; and Python kernels on GPUs."""
