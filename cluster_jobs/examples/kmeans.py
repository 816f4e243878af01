# SPDX-License-Identifier: MIT
"""k-means: points belong to the nearest centre, and each centre moves to the mean of its points.

Run it with `mpiexec -n 2 python cluster_jobs/examples/kmeans.py`.
"""

import numpy as np

import celerity_py as celerity
from celerity_py import access

CENTRES = 5


def problem(size):
    draws = np.random.default_rng(1)
    middles = draws.uniform(-20, 20, (CENTRES, 2))
    points = middles[draws.integers(0, CENTRES, size)] + draws.normal(size=(size, 2))
    return points, points[:CENTRES]


def sums_of(points, centres, xp):
    nearest = ((points[:, np.newaxis] - centres) ** 2).sum(axis=2).argmin(axis=1)
    is_near = (nearest == xp.arange(CENTRES)[:, np.newaxis]).astype(np.float64)
    return xp.concatenate([is_near @ points, is_near.sum(axis=1, keepdims=True)], axis=1)


def add_up(chunk, points, centres, sums):
    sums.combine(sums_of(points[...], centres[...], chunk.xp))


def move(chunk, centres, sums):
    centres[...] = sums[:, :2] / sums[:, 2:]


def kmeans(queue, points, start, steps):
    data = celerity.Buffer.from_array(points, name="points")
    centres = celerity.Buffer.from_array(start, name="centres")
    sums = celerity.Buffer((CENTRES, 3), np.float64, name="sums")
    rows, everything = access.slice(1), access.all()
    for _ in range(steps):
        added = celerity.reduction(sums, "sum")
        queue.parallel_for(len(points), add_up, data.read(rows), centres.read(everything), added)
        queue.parallel_for((), move, centres.write(everything), sums.read(everything))
    return centres


def kmeans_by_numpy(points, centres, steps):
    for _ in range(steps):
        sums = sums_of(points, centres, np)
        centres = sums[:, :2] / sums[:, 2:]
    return centres


if __name__ == "__main__":
    points, start = problem(16_000)
    with celerity.Queue() as queue:
        result = queue.fence(kmeans(queue, points, start, 20), on="master").result()
        if celerity.is_master():
            np.testing.assert_allclose(result, kmeans_by_numpy(points, start, 20))
            print("The centres are those of NumPy; the first:", result[0])
