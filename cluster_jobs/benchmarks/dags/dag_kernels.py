# SPDX-License-Identifier: MIT
"""The kernels of the DAG programs: each as a CUDA body and as a NumPy function of the same arguments.

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
from typing import Any

import numpy as np

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


# ---- VEC


@dag_kernel(1, "const float x[1]; float y[1]", "    EACH_1D(i) at(y, i) = at(x, i) * at(x, i);\n")
def square(x: Any, y: Any) -> None:
    """Square each element."""
    y[...] = x * x


@sum_of("const float x[1]; const float y[1]; int n", "n", "at(x, i) - at(y, i)")
def difference_sum(x: Any, y: Any, *rest: Any) -> None:
    """Add up the differences of two vectors."""
    rest[-1][...] = np.sum(x - y, dtype=np.float64)


# ---- B&S: call prices; the normal distribution by Abramowitz and Stegun 26.2.17

_RATE, _VOLATILITY, _STRIKE = 0.08, 0.3, 60.0
_COEFFICIENTS = (0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429)


def _normal_cdf(d: Any) -> Any:
    k = 1 / (1 + 0.2316419 * np.abs(d))
    tail = np.exp(-d * d / 2) / np.sqrt(2 * np.pi) * sum(c * k ** (n + 1) for n, c in enumerate(_COEFFICIENTS))
    return np.where(d > 0, 1 - tail, tail)


@dag_kernel(1, "const double x[1]; double y[1]", """\
    const auto cdf = [](double d) {
        const double k = 1 / (1 + 0.2316419 * fabs(d));
        const double high = 1.781477937 + k * (-1.821255978 + k * 1.330274429);
        const double tail = exp(-d * d / 2) * 0.3989422804014327 * k * (0.31938153 + k * (-0.356563782 + k * high));
        return d > 0 ? 1 - tail : tail;
    };
    EACH_1D(i) {
        const double d1 = (log(at(x, i) / 60) + (0.08 + 0.3 * 0.3 / 2)) / 0.3;
        at(y, i) = at(x, i) * cdf(d1) - 60 * exp(-0.08) * cdf(d1 - 0.3);
    }
""")  # fmt: skip
def black_scholes(x: Any, y: Any) -> None:
    """Price a call of each stock price."""
    d1 = (np.log(x / _STRIKE) + (_RATE + _VOLATILITY**2 / 2)) / _VOLATILITY
    y[...] = x * _normal_cdf(d1) - _STRIKE * np.exp(-_RATE) * _normal_cdf(d1 - _VOLATILITY)


# ---- IMG


def _correlate(image: Any, weights: Any) -> Any:
    radius = weights.shape[0] // 2
    padded = np.pad(image, radius)
    rows, columns = image.shape
    result = np.zeros_like(image)
    for (i, j), weight in np.ndenumerate(weights):
        result += weight * padded[i : i + rows, j : j + columns]
    return result


@dag_kernel(2, "const float image[2]; const float weights[2]; float out[2]; int n; int radius", """\
    EACH_2D(i, j) {
        float sum = 0;
        for (int a = -radius; a <= radius; ++a) {
            for (int b = -radius; b <= radius; ++b) {
                const bool is_inside = i + a >= 0 && i + a < n && j + b >= 0 && j + b < n;
                if (is_inside) sum += at(weights, a + radius, b + radius) * at(image, i + a, j + b);
            }
        }
        at(out, i, j) = sum;
    }
""")  # fmt: skip
def blur(image: Any, weights: Any, out: Any, n: int, radius: int) -> None:
    """Take weighted means of the pixels around."""
    out[...] = _correlate(image, weights)


@dag_kernel(2, "const float image[2]; float out[2]; int n", """\
    EACH_2D(i, j) {
        float x = 0, y = 0;
        for (int a = -1; a <= 1; ++a) {
            for (int b = -1; b <= 1; ++b) {
                const float value = i + a >= 0 && i + a < n && j + b >= 0 && j + b < n ? at(image, i + a, j + b) : 0;
                x += b * (2 - abs(a)) * value;
                y += a * (2 - abs(b)) * value;
            }
        }
        at(out, i, j) = sqrtf(x * x + y * y);
    }
""")  # fmt: skip
def sobel(image: Any, out: Any, n: int) -> None:
    """Find edges."""
    horizontal = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    out[...] = np.sqrt(_correlate(image, horizontal) ** 2 + _correlate(image, horizontal.T) ** 2)


_EXTREMUM = """\
    float value = %(identity)s;
    for (long long i = blockIdx.x; i < n; i += gridDim.x) {
        for (long long j = threadIdx.x; j < n; j += blockDim.x) value = %(op)s()(value, at(mask, i, j));
    }
    fold_grid(value, %(identity)s, %(op)s(), partials.data, arrived.data, result.data);
"""


@fold("const float mask[2]; int n", _EXTREMUM % {"op": "greater_of", "identity": "-1e30f"})
def maximum(mask: Any, *rest: Any) -> None:
    """Find the greatest element."""
    rest[-1][...] = mask.max()


@fold("const float mask[2]; int n", _EXTREMUM % {"op": "lesser_of", "identity": "1e30f"})
def minimum(mask: Any, *rest: Any) -> None:
    """Find the least element."""
    rest[-1][...] = mask.min()


@dag_kernel(2, "float mask[2]; const float low[1]; const float high[1]", """\
    const float a = at(low, 0), b = at(high, 0);
    EACH_2D(i, j) at(mask, i, j) = fminf(1, 5 * (at(mask, i, j) - a) / (b - a));
""")  # fmt: skip
def extend(mask: Any, low: Any, high: Any) -> None:
    """Spread the values of a mask."""
    mask[...] = np.minimum(1, 5 * (mask - low[0]) / (high[0] - low[0]))


@dag_kernel(2, "const float image[2]; const float blurred[2]; float out[2]", """\
    EACH_2D(i, j) at(out, i, j) = fminf(1, fmaxf(0, 1.5f * at(image, i, j) - 0.5f * at(blurred, i, j)));
""")  # fmt: skip
def unsharpen(image: Any, blurred: Any, out: Any) -> None:
    """Sharpen an image by its blurred one."""
    out[...] = np.clip(np.float32(1.5) * image - np.float32(0.5) * blurred, 0, 1)


@dag_kernel(2, "const float a[2]; const float b[2]; const float mask[2]; float out[2]", """\
    EACH_2D(i, j) at(out, i, j) = at(a, i, j) * at(mask, i, j) + at(b, i, j) * (1 - at(mask, i, j));
""")  # fmt: skip
def combine(a: Any, b: Any, mask: Any, out: Any) -> None:
    """Lay one image over another one."""
    out[...] = a * mask + b * (1 - mask)


# ---- HITS


@dag_kernel(1, "const int begin[1]; const int column[1]; const int value[1]; const float v[1]; float out[1]", """\
    EACH_1D(i) {
        float sum = 0;
        for (int k = at(begin, i); k < at(begin, i + 1); ++k) sum += at(value, k) * at(v, at(column, k));
        at(out, i) = sum;
    }
""")  # fmt: skip
def spmv(begin: Any, column: Any, value: Any, v: Any, out: Any) -> None:
    """Multiply a sparse matrix with a vector."""
    out[...] = np.add.reduceat(np.append(value * v[column], np.float32(0)), begin[:-1]) * (np.diff(begin) > 0)


@sum_of("const float v[1]; int n", "n", "at(v, i)")
def total(v: Any, *rest: Any) -> None:
    """Add up a vector."""
    rest[-1][...] = v.sum(dtype=np.float64)


@dag_kernel(1, "const float v[1]; const float norm[1]; float out[1]", """\
    EACH_1D(i) at(out, i) = at(v, i) / at(norm, 0);
""")  # fmt: skip
def divide(v: Any, norm: Any, out: Any) -> None:
    """Divide a vector by a number."""
    out[...] = v / norm[0]


# ---- DL


@dag_kernel(3, "const float image[3]; const float weights[2]; float out[3]; int channels", """\
    EACH_3D(i, j, m) {
        float sum = 0;
        for (int tap = 0; tap < 9; ++tap) {
            for (int c = 0; c < channels; ++c) {
                sum += at(weights, m, tap * channels + c) * at(image, 2 * i + tap / 3, 2 * j + tap % 3, c);
            }
        }
        at(out, i, j, m) = fmaxf(sum, 0);
    }
""")  # fmt: skip
def convolve(image: Any, weights: Any, out: Any, channels: int) -> None:
    """Convolve with 3 x 3 taps in strides of 2; negative values become 0."""
    rows, columns, _ = out.shape
    result = np.zeros_like(out)
    for tap in range(9):
        part = image[tap // 3 :: 2, tap % 3 :: 2][:rows, :columns]
        result += part @ weights[:, tap * channels : (tap + 1) * channels].T
    out[...] = np.maximum(result, 0)


@dag_kernel(3, "const float image[3]; float out[3]", """\
    EACH_3D(i, j, c) {
        float sum = 0;
        for (int a = 0; a < 5; ++a) {
            for (int b = 0; b < 5; ++b) sum += at(image, 5 * i + a, 5 * j + b, c);
        }
        at(out, i, j, c) = sum / 25;
    }
""")  # fmt: skip
def pool(image: Any, out: Any) -> None:
    """Take the means of squares of 5 x 5."""
    rows, columns, channels = out.shape
    out[...] = image[: 5 * rows, : 5 * columns].reshape(rows, 5, columns, 5, channels).mean(axis=(1, 3))


@dag_kernel(3, "const float a[3]; const float b[3]; float out[3]; int rows", """\
    EACH_3D(i, j, c) at(out, i, j, c) = i < rows ? at(a, i, j, c) : at(b, i - rows, j, c);
""")  # fmt: skip
def concatenate(a: Any, b: Any, out: Any, rows: int) -> None:
    """Put two images below each other."""
    out[:rows], out[rows:] = a, b


@fold("const float z[3]; const float weights[3]; int rows; int columns; int channels", """\
    float sum = 0;
    EACH_OF(n, (long long)rows * columns * channels) {
        const long long i = n / channels / columns, j = n / channels % columns, c = n % channels;
        sum += at(z, i, j, c) * at(weights, i, j, c);
    }
    fold_grid(sum, 0.0f, plus(), partials.data, arrived.data, result.data);
""")  # fmt: skip
def dot(z: Any, weights: Any, *rest: Any) -> None:
    """Add up the products of two arrays."""
    rest[-1][...] = np.sum(z * weights, dtype=np.float64)


# ---- ML


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
