# SPDX-License-Identifier: MIT
"""`celerity.random` in a function that is traced: seed and stream are parameters, as other numbers are."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.arrays import SymbolicArray
from celerity_py.fusion.coordinates import Affine
from celerity_py.fusion.nodes import Compute, ItemIndex, Literal, Node
from celerity_py.fusion.operations import operand_node
from celerity_py.fusion.scalars import SymbolicScalar
from celerity_py.random import key_word

if TYPE_CHECKING:
    from celerity_py._native import Box
    from celerity_py.fusion.trace import Trace

_INT64: Final = np.dtype(np.int64)
_MAX_DIMS: Final = 3


def random_array(trace: Trace, call: str, box: Box, key: dict[str, Any], dtype: np.dtype[Any]) -> SymbolicArray:
    """The numbers of a box, as `celerity.random` makes them.

    Args:
        trace: Of the call.
        call: The function of `celerity.random`: "bits", "uniform" or "normal".
        box: In global coordinates.
        key: Seed and stream, as the function gives them.
        dtype: Of the result.

    Raises:
        ArgumentTypeError: If a seed or stream is no integer. A submit with another value raises as well.
        UsageError: If one is out of its range, likewise.
    """
    trace.count()
    shape = (*box.shape, 4) if call == "bits" else box.shape
    along: list[Node] = [ItemIndex(_INT64, shape, Affine(dim, 1, low)) for dim, low in enumerate(box.min)]
    lacking = [Literal(_INT64, (), np.int64(0))] * (_MAX_DIMS - box.ndim)
    words = [operand_node(_word(call, *item), _INT64) for item in key.items()]
    if call == "bits":
        words.append(ItemIndex(_INT64, shape, Affine(box.ndim, 1, 0)))
    name = call if call == "bits" else f"{call}{8 * dtype.itemsize}"
    return SymbolicArray.of(trace, Compute(dtype, shape, f"random_{name}", (*along, *lacking, *words)))


def _word(call: str, name: str, given: Any) -> Any:
    if isinstance(given, SymbolicScalar):
        return given.derive(functools.partial(key_word, call, name), given)
    return key_word(call, name, given)
