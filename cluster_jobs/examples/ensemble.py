# SPDX-License-Identifier: MIT
"""An ensemble of random walks, in which each member is longer than the one before it.

The random numbers depend on the member and the step, and not on the device. Run it with
`mpiexec -n 2 python cluster_jobs/examples/ensemble.py`.
"""

import numpy as np

import celerity_py as celerity
from celerity_py import Box, access, hints

WALKERS, STEPS = 256, 4


def walk(member, xp):
    walkers = Box((member, 0), (member + 1, WALKERS))
    places = xp.zeros(WALKERS)
    for step in range(STEPS * (member + 1)):
        places += celerity.random.normal(walkers, seed=1, stream=step, dtype=np.float64, xp=xp)[0]
    return (places**2).mean()


def walk_members(chunk, distances, devices, devices_per_rank):
    for member in range(chunk.box.min[0], chunk.box.max[0]):
        distances[member] = walk(member, chunk.xp)
    devices[...] = celerity.rank() * devices_per_rank + chunk.device


def ensemble(queue, members):
    distances = celerity.Buffer(members, np.float64, name="distances")
    devices = celerity.Buffer(members, np.int64, name="devices")
    one, devices_per_rank = access.one_to_one(), queue.statistics().num_devices
    kernel = (walk_members, distances.write(one), devices.write(one), devices_per_rank)
    queue.parallel_for(members, *kernel, hints=hints.cyclic(1))  # members dealt out in turns
    return distances, devices


def ensemble_by_numpy(members):
    return np.array([walk(member, np) for member in range(members)])


def balance(devices):
    costs = np.bincount(devices, weights=np.arange(len(devices)) + 1)
    return costs.mean() / costs.max()


if __name__ == "__main__":
    with celerity.Queue() as queue:
        result, devices = (queue.fence(buffer, on="master").result() for buffer in ensemble(queue, 40))
        if celerity.is_master():
            np.testing.assert_allclose(result, ensemble_by_numpy(40))
            print(f"The distances are those of NumPy. A device has {balance(devices):.0%} of the longest one's work.")
