# SPDX-License-Identifier: MIT
"""The cost of C++ Celerity (6e22728 on SimSYCL e3843d8, gcc 12.2 -O3) on the six topologies.

Best of 3 to 6 rounds on a 2-core AMD EPYC (Zen 4) virtual machine, 2026-11-21, recorders off, nothing
executed: microseconds per round, and the number of instructions up to and including the shutdown epoch (without
the staging memory freed by it).
"""

from __future__ import annotations

Figures = dict[str, tuple[tuple[float, int], ...]]
#: (ranks, devices per rank), the columns of each level of graphs.
SHAPES = {"instructions": ((1, 1), (1, 4), (1, 16), (2, 4), (4, 4)), "commands": ((1, 1), (4, 1), (16, 1))}
#: Microseconds and number of nodes.
INSTRUCTIONS: Figures = {
    "soup": ((3380, 503), (3423, 503), (3616, 503), (4179, 503), (4188, 503)),
    "chain": ((147, 43), (145, 43), (149, 43), (520, 161), (801, 281)),
    "expanding_tree": ((277, 38), (278, 38), (281, 38), (751, 162), (893, 222)),
    "contracting_tree": ((419, 173), (421, 173), (442, 173), (828, 310), (971, 370)),
    "wave_sim": ((1899, 257), (8496, 2096), (43253, 9428), (11442, 2900), (11904, 2900)),
    "jacobi": ((509, 75), (2140, 876), (37708, 13056), (3065, 1530), (3486, 1930)),
}
COMMANDS: Figures = {
    "soup": ((876, 103), (1222, 103), (1735, 103)),
    "chain": ((60.2, 39), (240, 97), (860, 97)),
    "expanding_tree": ((108, 34), (255, 94), (563, 94)),
    "contracting_tree": ((113, 34), (260, 64), (612, 64)),
    "wave_sim": ((739, 255), (1580, 655), (3570, 655)),
    "jacobi": ((187, 65), (405, 165), (1078, 165)),
}
