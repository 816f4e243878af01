# SPDX-License-Identifier: MIT
"""A Fourier transform in 2-D: of all rows, then, after a transposition, of all columns.

Run it with `mpiexec -n 2 python cluster_jobs/examples/fft.py`.
"""

import numpy as np

import celerity_py as celerity
from celerity_py import access


def problem(size):
    draws = np.random.default_rng(1)
    return draws.normal(size=(size, size // 2)) + 1j * draws.normal(size=(size, size // 2))


def transform_rows(chunk, rows):
    rows[...] = chunk.xp.fft.fft(rows[...], axis=1)


def transpose(chunk, target, source):
    target[...] = source[...].T


def fft2(queue, values):
    a = celerity.Buffer.from_array(values, name="a")
    b = celerity.Buffer(values.shape[::-1], values.dtype, name="b")
    for source, target in ((a, b), (b, a)):
        queue.parallel_for(source.shape[0], transform_rows, source.read_write(access.slice(1)))
        columns = source.read(access.permute(1, 0))
        queue.parallel_for(target.shape, transpose, target.write(access.one_to_one()), columns)
    return a


def fft2_by_numpy(values):
    return np.fft.fft(np.fft.fft(values, axis=1).T, axis=1).T


if __name__ == "__main__":
    values = problem(240)
    with celerity.Queue() as queue:
        result = queue.fence(fft2(queue, values), on="master").result()
        if celerity.is_master():
            np.testing.assert_allclose(result, fft2_by_numpy(values), atol=1e-10)
            print("The Fourier transform is that of NumPy.")
