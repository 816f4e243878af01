# SPDX-License-Identifier: MIT
"""The kernels of the program ML."""

from __future__ import annotations

from typing import Any

import numpy as np

from cluster_jobs.benchmarks.dags.dag_kernel import dag_kernel


def _product(of: str, start: str = "0", sign: str = "=") -> str:
    """The body of a kernel: each row of `of` times each row of `weights`."""
    return f"""\
    EACH_2D(i, c) {{
        float sum = {start};
        for (int f = 0; f < features; ++f) sum += at({of}, i, f) * at(weights, c, f);
        at(r, i, c) {sign} sum;
    }}
"""


@dag_kernel(1, "const int x[2]; float z[2]; int rows", """\
    for (long long f = chunk.min[0] + blockIdx.x; f < chunk.max[0]; f += gridDim.x) { // a block per feature
        double sum = 0, squares = 0;
        for (long long i = threadIdx.x; i < rows; i += blockDim.x) {
            const double value = at(x, i, f);
            sum += value;
            squares += value * value;
        }
        const double mean = fold_block(sum, plus()) / rows;
        const double deviation = sqrt(fold_block(squares, plus()) / rows - mean * mean);
        for (long long i = threadIdx.x; i < rows; i += blockDim.x) at(z, i, f) = (at(x, i, f) - mean) / deviation;
    }
""")  # fmt: skip
def standardize(x: Any, z: Any, rows: int) -> None:
    """Give each column the mean 0 and the deviation 1."""
    mean = x.mean(axis=0)
    z[...] = (x - mean) / np.sqrt((x.astype(np.float64) ** 2).mean(axis=0) - mean**2)


@dag_kernel(2, "const float z[2]; const float weights[2]; float r[2]; int features", _product("z"))
def ridge(z: Any, weights: Any, r: Any, features: int) -> None:
    """Score each row and class by ridge regression."""
    r[...] = z @ weights.T


@dag_kernel(
    2,
    "const int x[2]; const float weights[2]; const float prior[1]; float r[2]; int features",
    _product("x", "at(prior, c)"),
)
def bayes(x: Any, weights: Any, prior: Any, r: Any, features: int) -> None:
    """Score each row and class by naive Bayes."""
    r[...] = prior + x.astype(np.float32) @ weights.T


@dag_kernel(2, "const float z[2]; const float weights[2]; float r[2]; int features", _product("z", sign="+="))
def ridge_onto(z: Any, weights: Any, r: Any, features: int) -> None:
    """Add the scores of ridge regression."""
    r += z @ weights.T


@dag_kernel(2, "const int x[2]; const float weights[2]; float r[2]; int features", _product("x", sign="+="))
def bayes_onto(x: Any, weights: Any, r: Any, features: int) -> None:
    """Add the scores of naive Bayes."""
    r += x.astype(np.float32) @ weights.T


@dag_kernel(2, "const float row[1]; float r[2]", "    EACH_2D(i, c) at(r, i, c) += at(row, c);\n")
def add_row(row: Any, r: Any) -> None:
    """Add a row to all rows."""
    r += row


@dag_kernel(1, "float r[2]; int classes", """\
    EACH_1D(i) {
        float most = at(r, i, 0), sum = 0;
        for (int c = 1; c < classes; ++c) most = fmaxf(most, at(r, i, c));
        for (int c = 0; c < classes; ++c) sum += expf(at(r, i, c) - most);
        for (int c = 0; c < classes; ++c) at(r, i, c) = expf(at(r, i, c) - most) / sum;
    }
""")  # fmt: skip
def softmax(r: Any, classes: int) -> None:
    """Turn the scores of each row into probabilities."""
    r[...] = np.exp(r - r.max(axis=1, keepdims=True))
    r /= r.sum(axis=1, keepdims=True)


@dag_kernel(1, "const float r[2]; float most[1]; int classes", """\
    EACH_1D(i) {
        float value = at(r, i, 0);
        for (int c = 1; c < classes; ++c) value = fmaxf(value, at(r, i, c));
        at(most, i) = value;
    }
""")  # fmt: skip
def row_maximum(r: Any, most: Any, classes: int) -> None:
    """Find the greatest score of each row."""
    most[...] = r.max(axis=1)


@dag_kernel(1, "const float r[2]; const float most[1]; float l[1]; int classes", """\
    EACH_1D(i) {
        float sum = 0;
        for (int c = 0; c < classes; ++c) sum += expf(at(r, i, c) - at(most, i));
        at(l, i) = logf(sum) + at(most, i);
    }
""")  # fmt: skip
def log_sum(r: Any, most: Any, l: Any, classes: int) -> None:  # noqa: E741 - its name in the literature
    """Add up the exponentials of each row; the logarithm."""
    l[...] = np.log(np.exp(r - most[:, np.newaxis]).sum(axis=1)) + most


@dag_kernel(2, "float r[2]; const float l[1]", "    EACH_2D(i, c) at(r, i, c) = expf(at(r, i, c) - at(l, i));\n")
def exponentiate(r: Any, l: Any) -> None:  # noqa: E741
    """Turn logarithms into probabilities."""
    r[...] = np.exp(r - l[:, np.newaxis])


@dag_kernel(1, "const float a[2]; const float b[2]; int best[1]; int classes", """\
    EACH_1D(i) {
        int found = 0;
        for (int c = 1; c < classes; ++c) {
            if (at(a, i, c) + at(b, i, c) > at(a, i, found) + at(b, i, found)) found = c;
        }
        at(best, i) = found;
    }
""")  # fmt: skip
def argmax(a: Any, b: Any, best: Any, classes: int) -> None:
    """Find the class of each row on which both agree best."""
    best[...] = (a + b).argmax(axis=1)
