# SPDX-License-Identifier: MIT
"""Loads the kernels of `small_copies.cuh`, which copy small boxes and exchange them with other devices and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from celerity_py.cuda.contexts import on_device

#: One text, as CuPy's cache on disk does not look at files that a source includes.
_SOURCE: Final = "".join(
    (Path(__file__).parents[1] / name).read_text().replace("#pragma once\n", "")
    for name in ("executor/core/devices/kernel_layouts.cuh", "cuda/small_copies.cuh")
)

_FUNCTIONS = (
    "celerity_few_copies",
    "celerity_many_copies",
    "celerity_exchange",
    "celerity_set_flags",
    "celerity_advance_flags",
)
_modules: dict[int, Any] = {}  # by ordinal; they live as long as the process


def small_copy_functions(ordinals: Sequence[int]) -> list[tuple[int, int, int, int, int]]:
    """Compile the kernels for each GPU, or take them from CuPy's cache on disk.

    Returns:
        Per ordinal the CUfunctions for up to 2 and up to 8 copies, for exchanges in graphs, to set the flags of these,
        and to advance those between devices.
    """
    import cupy

    functions = []
    for ordinal in ordinals:
        if ordinal not in _modules:
            with on_device(ordinal):
                module = cupy.RawModule(code=_SOURCE, options=("--std=c++17",))
                _modules[ordinal] = (
                    [module.get_function(name).kernel for name in _FUNCTIONS],
                    module,
                )
        few, many, exchange, set_flags, advance_flags = (int(kernel.ptr) for kernel in _modules[ordinal][0])
        functions.append((few, many, exchange, set_flags, advance_flags))
    return functions
