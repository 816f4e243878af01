# SPDX-License-Identifier: MIT
"""The Cholesky decomposition of a matrix, block column by block column. Rows are dealt to the devices in blocks.

Run it with `mpiexec -n 2 python cluster_jobs/examples/cholesky.py`.
"""

import numpy as np

import celerity_py as celerity
from celerity_py import Box, access, hints

BLOCK = 32


def problem(size):
    half = np.random.default_rng(1).random((size, size))
    return half @ half.T + size * np.eye(size)


def factor(chunk, corner):
    corner[...] = chunk.xp.linalg.cholesky(corner[...])


def divide(chunk, panel, corner):
    panel[...] = chunk.xp.linalg.solve(corner[...], panel[...].T).T


def subtract(chunk, rest, panel):
    rows, columns = chunk.box.slices
    rest[...] -= panel[rows, :] @ panel[columns, :].T


def cholesky(queue, matrix):
    a, n, one = celerity.Buffer.from_array(matrix, name="a"), len(matrix), access.one_to_one()
    split = hints.cyclic(BLOCK)
    for k in range(0, n, BLOCK):
        end = min(k + BLOCK, n)
        corner, panel, rest = Box((k, k), (end, end)), Box((end, k), (n, end)), Box((end, end), (n, n))
        queue.parallel_for(corner, factor, a.read_write(one), hints=split, constrain=(BLOCK, BLOCK))
        if rest:
            queue.parallel_for(panel, divide, a.read_write(one), a.read(access.fixed(corner)), hints=split)
            queue.parallel_for(rest, subtract, a.read_write(one), a.read(access.fixed(panel)), hints=split)
    return a  # above the diagonal lie elements of the matrix


def cholesky_by_numpy(matrix):
    a = matrix.copy()
    for k in range(0, len(a), BLOCK):
        here, rest = slice(k, k + BLOCK), slice(k + BLOCK, None)
        a[here, here] = np.linalg.cholesky(a[here, here])
        a[rest, here] = np.linalg.solve(a[here, here], a[rest, here].T).T
        a[rest, rest] -= a[rest, here] @ a[rest, here].T
    return a


if __name__ == "__main__":
    matrix = problem(500)
    with celerity.Queue() as queue:
        result = queue.fence(cholesky(queue, matrix), on="master").result()
        if celerity.is_master():
            np.testing.assert_allclose(np.tril(result), np.tril(cholesky_by_numpy(matrix)))
            print("The decomposition is that of NumPy.")
