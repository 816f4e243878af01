# SPDX-License-Identifier: MIT
"""The programs printed in the documents, and their outputs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README, TUTORIAL, HOW_TO = "README.md", "docs/tutorial.md", "docs/how_to.md"
# The tutorial's second block is a kernel, its third shows how to submit it, its fourth and fifth are loops around that.
_FIRST_STEPS = {
    "readme": (README, [0]),
    "first": (TUTORIAL, [0]),
    "loop": (TUTORIAL, [0, 1, 3]),
    "decision": (TUTORIAL, [0, 1, 4]),
    "mapper": (TUTORIAL, [5]),
}
_HOW_TOS = {
    "contents": "[0. 1. 2. 3. 4. 5. 6. 7.] [100. 121. 144.]",
    "fills and copies": "[[ 0.5  0.5  0.5  0.5  0.5  0.5]\n [ 6.   7.   8.   9.  10.  11. ]\n [ 3.   4.   5.  15.",
    "mappers": "[[  5.   5.   5.   5.   5.   5.]\n [ 17.  18.  19.",
    "borders": "8.0",
    "values": "[ 0.  2.  6. 12.]",
    "random numbers": "[[ 1.45022735  1.44564734 -0.42316405]\n [-1.17150537",
    "reductions": "3000.0",
    "arrays": "698 1487 2482 2975 3035 2416",
    "host tasks": "the largest element is 4.0",
    "host objects": "[16.0, 32.0, 64.0]",
    "collective host tasks": "[0. 1. 2. 3.]",
    "cuda kernels": "[0.25 1.   2.  ] 98.0",
    "halos": "910.0",
    "splits": "5.187377517639621",
    "repetitions": "999.9528",
    "loops": "2050 0.0994991",
    "ensembles": "(0, np.float64(4.12195842495",
    "fences": "[[4. 5. 6. 7.]]\n66.0",
    "failures": "rank 0: task 'smooth' failed: OutOfBoundsAccess: ",
    "notebooks": "16.0",
}


def blocks(document: str) -> list[str]:
    """The Python blocks of a document, by its path from the root of the repository."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)


def printed_programs() -> dict[str, tuple[str, str]]:
    """By name: the source of a program, and a part of its output."""
    programs = {
        name: ("\n".join(blocks(document)[index] for index in chosen) + "\nprint('sum', float(result.sum()))\n", "sum ")
        for name, (document, chosen) in _FIRST_STEPS.items()
    }
    how_tos = blocks(HOW_TO)
    assert len(how_tos) == len(_HOW_TOS), "a block of the how-to has no output here"
    return programs | {name: (source, output) for source, (name, output) in zip(how_tos, _HOW_TOS.items(), strict=True)}
