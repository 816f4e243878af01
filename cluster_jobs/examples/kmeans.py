# SPDX-License-Identifier: MIT
"""k-means: points belong to the nearest centre, and each centre moves to the mean of its points.

The points come in parts. Each part has sums of its own, because a reduction has one element. Run it with
`mpiexec -n 2 python cluster_jobs/examples/kmeans.py`.
"""

import numpy as np

import celerity_py as celerity
from celerity_py import access

CENTRES, PARTS = 5, 16


def problem(size):
    """PARTS arrays of so many points each."""
    draws = np.random.default_rng(1)
    middles = draws.uniform(-20, 20, (CENTRES, 2))
    points = middles[draws.integers(0, CENTRES, (PARTS, size))] + draws.normal(size=(PARTS, size, 2))
    return points, points[0, :CENTRES]


def sums_of(points, centres, xp):
    nearest = ((points[:, np.newaxis] - centres) ** 2).sum(axis=2).argmin(axis=1)
    is_near = (nearest == xp.arange(CENTRES)[:, np.newaxis]).astype(np.float64)
    return xp.concatenate([is_near @ points, is_near.sum(axis=1, keepdims=True)], axis=1)


def add_up_parts(chunk, sums, points, centres):
    for part in range(chunk.box.min[0], chunk.box.max[0]):
        sums[part, :, :] = sums_of(points[part, :, :], centres[...], chunk.xp)


def move(chunk, centres, sums):
    total = sums[...].sum(axis=0)
    centres[...] = total[:, :2] / total[:, 2:]


def parts(chunk):
    return slice(chunk.box.min[0], chunk.box.max[0]), slice(None), slice(None)


def kmeans(queue, points, start, steps):
    data = celerity.Buffer.from_array(points, name="points")
    centres = celerity.Buffer.from_array(start, name="centres")
    sums = celerity.Buffer((PARTS, CENTRES, 3), np.float64, name="sums")
    for _ in range(steps):
        queue.parallel_for(PARTS, add_up_parts, sums.write(parts), data.read(parts), centres.read(access.all()))
        queue.parallel_for((), move, centres.write(access.all()), sums.read(access.all()))
    return centres


def kmeans_by_numpy(points, centres, steps):
    for _ in range(steps):
        total = sums_of(points.reshape(-1, 2), centres, np)
        centres = total[:, :2] / total[:, 2:]
    return centres


if __name__ == "__main__":
    points, start = problem(1000)
    with celerity.Queue() as queue:
        result = queue.fence(kmeans(queue, points, start, 20), on="master").result()
        if celerity.is_master():
            np.testing.assert_allclose(result, kmeans_by_numpy(points, start, 20))
            print("The centres are those of NumPy; the first:", result[0])
