# SPDX-License-Identifier: MIT
"""The cost of C++ Celerity (6e22728 on SimSYCL e3843d8, gcc 12.2 -O3) on the six topologies.

Best of 3 to 6 rounds on a 2-core AMD EPYC (Zen 4) virtual machine, 2026-11-21, recorders off, nothing
executed: microseconds per round, and the number of instructions up to and including the shutdown epoch (without
the staging memory freed by it).
"""

from __future__ import annotations

#: (ranks, devices per rank), the columns of the instruction graph figures.
SHAPES = ((1, 1), (1, 4), (1, 16), (2, 4), (4, 4))
#: Ranks, the columns of the command graph figures.
RANKS = (1, 4, 16)

INSTRUCTION_GRAPH_US: dict[str, tuple[float, ...]] = {
    "soup": (3380, 3423, 3616, 4179, 4188),
    "chain": (147, 145, 149, 520, 801),
    "expanding_tree": (277, 278, 281, 751, 893),
    "contracting_tree": (419, 421, 442, 828, 971),
    "wave_sim": (1899, 8496, 43253, 11442, 11904),
    "jacobi": (509, 2140, 37708, 3065, 3486),
}
INSTRUCTIONS: dict[str, tuple[int, ...]] = {
    "soup": (503, 503, 503, 503, 503),
    "chain": (43, 43, 43, 161, 281),
    "expanding_tree": (38, 38, 38, 162, 222),
    "contracting_tree": (173, 173, 173, 310, 370),
    "wave_sim": (257, 2096, 9428, 2900, 2900),
    "jacobi": (75, 876, 13056, 1530, 1930),
}
COMMAND_GRAPH_US: dict[str, tuple[float, ...]] = {
    "soup": (876, 1222, 1735),
    "chain": (60.2, 240, 860),
    "expanding_tree": (108, 255, 563),
    "contracting_tree": (113, 260, 612),
    "wave_sim": (739, 1580, 3570),
    "jacobi": (187, 405, 1078),
}
COMMANDS: dict[str, tuple[int, ...]] = {
    "soup": (103, 103, 103),
    "chain": (39, 97, 97),
    "expanding_tree": (34, 94, 94),
    "contracting_tree": (34, 64, 64),
    "wave_sim": (255, 655, 655),
    "jacobi": (65, 165, 165),
}
