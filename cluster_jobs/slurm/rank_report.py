# SPDX-License-Identifier: MIT
"""Reports, as one line of JSON, the ranks of a launch and the machine as they see it.

Started by `launchers.py` under the launcher that is tried. If launcher and MPI do not fit together every process is
rank 0 of 1, and each prints a line of its own: that is how they are found out.
"""

from __future__ import annotations

import json
import os
import socket

from mpi4py import MPI


def visible_gpus() -> list[str]:
    """An id of each GPU that this process may use. All processes see the same id."""
    from celerity_py import _native

    try:
        return list(_native.cuda_device_ids())
    except RuntimeError:
        return []


def main() -> None:
    """Gather the reports of all ranks, and print them on rank 0."""
    # SLURM_PROCID and its like are those of a proxy under mpiexec. Its node is the rank's node, though; and the names
    # of virtual nodes are told by nothing else.
    report = {
        "rank": MPI.COMM_WORLD.rank,
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "gpus": visible_gpus(),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "cpus": len(os.sched_getaffinity(0)),
    }
    reports = MPI.COMM_WORLD.gather(report, root=0)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps({"ranks": reports}), flush=True)


if __name__ == "__main__":
    main()
