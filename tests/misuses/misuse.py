# SPDX-License-Identifier: MIT
"""A mistake as a short program, and what all of them begin with."""

from __future__ import annotations

from dataclasses import dataclass, field

#: What each program begins with.
PRELUDE = """
import numpy as np
import celerity_py as celerity
from celerity_py import Box, Region, access, hints

queue = celerity.Queue()
u = celerity.Buffer.from_array(np.ones(8), name="u")
out = celerity.Buffer.from_array(np.zeros(8), name="out")
image = celerity.Buffer.from_array(np.ones((8, 8)), name="image")
total = celerity.Buffer((), name="total")

def step(chunk, *views):
    pass
"""


@dataclass(frozen=True)
class Misuse:
    """A program that makes one mistake."""

    title: str
    #: Of `kinds_of_errors`; an exception, if the program raises one, stands first.
    kinds: tuple[str, ...]
    program: str
    #: Variables of the environment besides those of all programs.
    variables: dict[str, str] = field(default_factory=dict)
    ranks: int = 1
    #: Runs before the program, and is not shown: it takes a resource away.
    hidden: str = ""


CPU_2 = {"CELERITY_DEVICES": "cpu:2"}
CHECK = {"CELERITY_CHECK": "1"}
