# SPDX-License-Identifier: MIT
"""WaveSim by hand, one rank per GPU with NCCL.

    mpirun -n 4 python -m cluster_jobs.benchmarks.scaling.peers.wave_sim_nccl

See `slabs_nccl.py` for how it is done.
"""

from __future__ import annotations

from cluster_jobs.benchmarks.scaling.peers import slabs_nccl, wave


def main(arguments: list[str] | None = None) -> int:
    """Measure or check; the first rank prints."""
    return slabs_nccl.run(wave.parsed(__doc__ or "", "stop if there are not so many ranks", arguments))


if __name__ == "__main__":
    raise SystemExit(main())
