# SPDX-License-Identifier: MIT
"""A kernel of the DAG programs: as a CUDA body and as a NumPy function of the same arguments.

A kernel's parameters are written as "const float x[1]; float y[2]; int n": arrays with their number of dimensions, and
scalars. Bodies see `chunk`, index arrays with `at(x, i)`, and loop over their items in grid strides, so that any grid
will do. Kernels that fold all elements into one (`FOLD`) are launched over one item with a grid of their own, and the
last block that arrives folds what the blocks have left in `partials`; their sums do not depend on the order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: Blocks of the kernels that fold; `partials` has as many elements.
FOLD_BLOCKS = 64
FOLD_THREADS = 256

_PRELUDE = Path(__file__).with_name("dag_kernels.cuh").read_text()


@dataclass(frozen=True)
class DagKernel:
    """A kernel of a DAG program."""

    name: str
    dims: int
    parameters: str
    body: str
    #: Called with the arrays and scalars in the order of the parameters.
    numpy: Callable[..., None]
    is_fold: bool = False

    def declared(self) -> list[tuple[str, str, str, str]]:
        """The parameters: "const " or nothing, type, name, and number of dimensions, which is "" for a scalar."""
        return re.findall(r"(const )?(\w+) (\w+)(?:\[(\d)\])?", self.parameters)

    def source(self, hold_us: int) -> str:
        """CUDA C++ for `celerity.CudaKernel`; each launch takes at least `hold_us` microseconds."""
        declared = [f"celerity::chunk<{self.dims}> chunk"]
        for const, kind, name, ndim in self.declared():
            declared.append(f"celerity::accessor<{const}{kind}, {ndim}> {name}" if ndim else f"{kind} {name}")
        signature = f"__global__ void {self.name}({', '.join(declared)})"
        return f"#define HOLD_US {hold_us}\n{_PRELUDE}\n{signature} {{\n    hold();\n{self.body}}}\n"


def dag_kernel(
    dims: int, parameters: str, body: str, *, is_fold: bool = False
) -> Callable[[Callable[..., None]], DagKernel]:
    """Make a kernel of the NumPy function behind this decorator, with the function's name."""
    return lambda function: DagKernel(function.__name__, dims, parameters, body, function, is_fold)


def fold(parameters: str, body: str) -> Callable[[Callable[..., None]], DagKernel]:
    """Likewise a kernel that folds all elements into `result`, its last parameter."""
    scratch = "; float partials[1]; int arrived[1]; float result[1]"
    return dag_kernel(1, parameters + scratch, body, is_fold=True)


def sum_of(parameters: str, count: str, element: str) -> Callable[[Callable[..., None]], DagKernel]:
    """Likewise a kernel that adds up `element` for all `i` below `count`."""
    terms = f"    float sum = 0;\n    EACH_OF(i, {count}) sum += {element};\n"
    return fold(parameters, f"{terms}    fold_grid(sum, 0.0f, plus(), partials.data, arrived.data, result.data);\n")
