# SPDX-License-Identifier: MIT
"""The kernels of the program ML."""

from __future__ import annotations

from typing import Any

import numpy as np

from cluster_jobs.benchmarks.dags.dag_kernel import DagKernel


def _standardize(x: Any, z: Any, rows: int) -> None:
    mean = x.mean(axis=0)
    z[...] = (x - mean) / np.sqrt((x.astype(np.float64) ** 2).mean(axis=0) - mean**2)


STANDARDIZE = DagKernel(
    "standardize",
    1,
    "const int x[2]; float z[2]; int rows",
    """\
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
""",
    _standardize,
)


def _ridge(z: Any, weights: Any, r: Any, features: int) -> None:
    r[...] = z @ weights.T


RIDGE = DagKernel(
    "ridge",
    2,
    "const float z[2]; const float weights[2]; float r[2]; int features",
    """\
    EACH_2D(i, c) {
        float sum = 0;
        for (int f = 0; f < features; ++f) sum += at(z, i, f) * at(weights, c, f);
        at(r, i, c) = sum;
    }
""",
    _ridge,
)


def _bayes(x: Any, weights: Any, prior: Any, r: Any, features: int) -> None:
    r[...] = prior + x.astype(np.float32) @ weights.T


BAYES = DagKernel(
    "bayes",
    2,
    "const int x[2]; const float weights[2]; const float prior[1]; float r[2]; int features",
    """\
    EACH_2D(i, c) {
        float sum = at(prior, c);
        for (int f = 0; f < features; ++f) sum += at(x, i, f) * at(weights, c, f);
        at(r, i, c) = sum;
    }
""",
    _bayes,
)


def _ridge_onto(z: Any, weights: Any, r: Any, features: int) -> None:
    r += z @ weights.T


RIDGE_ONTO = DagKernel(
    "ridge_onto",
    2,
    "const float z[2]; const float weights[2]; float r[2]; int features",
    """\
    EACH_2D(i, c) {
        float sum = 0;
        for (int f = 0; f < features; ++f) sum += at(z, i, f) * at(weights, c, f);
        at(r, i, c) += sum;
    }
""",
    _ridge_onto,
)


def _bayes_onto(x: Any, weights: Any, r: Any, features: int) -> None:
    r += x.astype(np.float32) @ weights.T


BAYES_ONTO = DagKernel(
    "bayes_onto",
    2,
    "const int x[2]; const float weights[2]; float r[2]; int features",
    """\
    EACH_2D(i, c) {
        float sum = 0;
        for (int f = 0; f < features; ++f) sum += at(x, i, f) * at(weights, c, f);
        at(r, i, c) += sum;
    }
""",
    _bayes_onto,
)


def _add_row(row: Any, r: Any) -> None:
    r += row


ADD_ROW = DagKernel(
    "add_row", 2, "const float row[1]; float r[2]", "    EACH_2D(i, c) at(r, i, c) += at(row, c);\n", _add_row
)


def _softmax(r: Any, classes: int) -> None:
    r[...] = np.exp(r - r.max(axis=1, keepdims=True))
    r /= r.sum(axis=1, keepdims=True)


SOFTMAX = DagKernel(
    "softmax",
    1,
    "float r[2]; int classes",
    """\
    EACH_1D(i) {
        float most = at(r, i, 0), sum = 0;
        for (int c = 1; c < classes; ++c) most = fmaxf(most, at(r, i, c));
        for (int c = 0; c < classes; ++c) sum += expf(at(r, i, c) - most);
        for (int c = 0; c < classes; ++c) at(r, i, c) = expf(at(r, i, c) - most) / sum;
    }
""",
    _softmax,
)


def _row_maximum(r: Any, most: Any, classes: int) -> None:
    most[...] = r.max(axis=1)


ROW_MAXIMUM = DagKernel(
    "row_maximum",
    1,
    "const float r[2]; float most[1]; int classes",
    """\
    EACH_1D(i) {
        float value = at(r, i, 0);
        for (int c = 1; c < classes; ++c) value = fmaxf(value, at(r, i, c));
        at(most, i) = value;
    }
""",
    _row_maximum,
)


def _log_sum(r: Any, most: Any, l: Any, classes: int) -> None:  # noqa: E741 - its name in the literature
    l[...] = np.log(np.exp(r - most[:, np.newaxis]).sum(axis=1)) + most


LOG_SUM = DagKernel(
    "log_sum",
    1,
    "const float r[2]; const float most[1]; float l[1]; int classes",
    """\
    EACH_1D(i) {
        float sum = 0;
        for (int c = 0; c < classes; ++c) sum += expf(at(r, i, c) - at(most, i));
        at(l, i) = logf(sum) + at(most, i);
    }
""",
    _log_sum,
)


def _exponentiate(r: Any, l: Any) -> None:  # noqa: E741
    r[...] = np.exp(r - l[:, np.newaxis])


EXPONENTIATE = DagKernel(
    "exponentiate",
    2,
    "float r[2]; const float l[1]",
    "    EACH_2D(i, c) at(r, i, c) = expf(at(r, i, c) - at(l, i));\n",
    _exponentiate,
)


def _argmax(a: Any, b: Any, best: Any, classes: int) -> None:
    best[...] = (a + b).argmax(axis=1)


ARGMAX = DagKernel(
    "argmax",
    1,
    "const float a[2]; const float b[2]; int best[1]; int classes",
    """\
    EACH_1D(i) {
        int found = 0;
        for (int c = 1; c < classes; ++c) {
            if (at(a, i, c) + at(b, i, c) > at(a, i, found) + at(b, i, found)) found = c;
        }
        at(best, i) = found;
    }
""",
    _argmax,
)
