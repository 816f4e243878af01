# SPDX-License-Identifier: MIT
"""WaveSim by hand, one process that drives all GPUs.

    python -m cluster_jobs.benchmarks.scaling.peers.wave_sim_process

See `slabs_process.py` for how it is done.
"""

from __future__ import annotations

from cluster_jobs.benchmarks.scaling.peers import slabs_process, wave


def main(arguments: list[str] | None = None) -> int:
    """Measure or check."""
    return slabs_process.run(wave.parsed(__doc__ or "", "how many, all if left out", arguments))


if __name__ == "__main__":
    raise SystemExit(main())
