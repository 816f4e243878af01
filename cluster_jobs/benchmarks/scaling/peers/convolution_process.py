# SPDX-License-Identifier: MIT
"""Convolution by hand, one process that drives all GPUs.

    python -m cluster_jobs.benchmarks.scaling.peers.convolution_process

See `slabs_process.py` for how it is done.
"""

from __future__ import annotations

from cluster_jobs.benchmarks.scaling.peers import blur, slabs_process


def main(arguments: list[str] | None = None) -> int:
    """Measure or check."""
    return slabs_process.run(blur.parsed(__doc__ or "", "how many, all if left out", arguments))


if __name__ == "__main__":
    raise SystemExit(main())
