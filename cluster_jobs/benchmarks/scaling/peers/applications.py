# SPDX-License-Identifier: MIT
"""The applications of `cluster_jobs/apps`, which import their frame as scripts do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "apps"))
import convolution
import frame
import matmul
import nbody
import room
import rsim
import wave_sim

__all__ = ["convolution", "frame", "matmul", "nbody", "room", "rsim", "wave_sim"]
