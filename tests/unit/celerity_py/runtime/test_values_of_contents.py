# SPDX-License-Identifier: MIT
"""Initial contents that functions and ranks give: values that the elements cannot hold are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box
from celerity_py.errors import UsageError

TOO_LARGE: list[tuple[Any, Any, str]] = [
    (np.int8, [300] * 4, "Elements go from -128 to 127, and the values from 300 to 300"),
    (np.int32, [0.6] * 4, r"cannot hold it\. Convert it, for instance with value\.astype\('int32'\)"),
    (np.int32, [np.nan] * 4, "cannot hold it"),
    (np.float32, [1e39] * 4, r"Elements go up to 3\.403e\+38"),
]


@pytest.mark.parametrize(("dtype", "values", "message"), TOO_LARGE)
def test_a_function_returns_only_values_that_the_elements_can_hold(dtype: Any, values: Any, message: str) -> None:
    def fence() -> None:
        with celerity.Queue() as queue:
            buffer = celerity.Buffer.from_function(4, dtype, lambda box: np.array(values), name="u")
            queue.fence(buffer).result(10)

    who = rf'The function of B\d+ "u" .* returned an array of \w+ and shape \(4,\) for the box \[0:4\].*{message}'
    with pytest.raises(UsageError, match=who):
        fence()


@pytest.mark.parametrize(("dtype", "values", "message"), TOO_LARGE)
def test_local_contents_have_only_values_that_the_elements_can_hold(dtype: Any, values: Any, message: str) -> None:
    refused = pytest.raises(UsageError, match=rf"got an array of \w+ and shape \(4,\) for the box \[0:4\].*{message}")
    with celerity.Queue(), refused:
        celerity.Buffer.from_local(4, dtype, {Box((0,), (4,)): np.array(values)})
