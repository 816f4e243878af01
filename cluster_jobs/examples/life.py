# SPDX-License-Identifier: MIT
"""Conway's Game of Life on a torus: the row below the last one is the first one, and so are the columns.

Run it with `mpiexec -n 2 python cluster_jobs/examples/life.py`.
"""

import numpy as np

import celerity_py as celerity
from celerity_py import access


def problem(size):
    return np.random.default_rng(1).integers(0, 2, (size, size + 1), dtype=np.uint8)


@celerity.fuse
def step(chunk, new, old):
    around = old.padded(chunk.box, 1, mode="wrap")
    rows, columns = chunk.box.shape
    alive = sum(around[i : i + rows, j : j + columns] for i in range(3) for j in range(3))
    new[...] = (alive == 3) | ((alive == 4) & (old[chunk.box] == 1))


def life(queue, world, steps):
    old = celerity.Buffer.from_array(world, name="old")
    new = celerity.Buffer(world.shape, world.dtype, name="new")
    near = access.neighborhood(1, 1, wrap=True)
    for _ in range(steps):
        queue.parallel_for(world.shape, step, new.write(access.one_to_one()), old.read(near))
        old, new = new, old
    return old


def life_by_numpy(world, steps):
    for _ in range(steps):
        alive = sum(np.roll(world, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))
        world = ((alive == 3) | ((alive == 4) & (world == 1))).astype(np.uint8)
    return world


if __name__ == "__main__":
    world, steps = problem(200), 100
    with celerity.Queue() as queue:
        result = queue.fence(life(queue, world, steps), on="master").result()
        if celerity.is_master():
            np.testing.assert_array_equal(result, life_by_numpy(world, steps))
            print(f"{result.sum()} cells live after {steps} steps, as NumPy says.")
