# SPDX-License-Identifier: MIT
"""The programs printed in the documents, and their outputs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README, START, TUTORIAL, HOW_TO = "README.md", "docs/start.md", "docs/tutorial.md", "docs/how_to"
COMING_FROM = "docs/coming_from.md"
# The tutorial's second block is a kernel, its third shows how to submit it, its fourth and fifth are loops around that.
_FIRST_STEPS = {
    "readme": (README, [0]),
    "first": (TUTORIAL, [0]),
    "loop": (TUTORIAL, [0, 1, 3]),
    "decision": (TUTORIAL, [0, 1, 4]),
    "mapper": (TUTORIAL, [5]),
}
_START_OUTPUT = "2.498197"
#: By page: the name of each program, and a part of its output.
_HOW_TOS = {
    "buffers": {
        "contents": "[0. 1. 2. 3. 4. 5. 6. 7.] [100. 121. 144.]",
        "fills and copies": "[[ 0.5  0.5  0.5  0.5  0.5  0.5]\n [ 6.   7.   8.   9.  10.  11. ]\n [ 3.   4.   5.  15.",
        "local contents": "[498. 499. 500. 501.]",
        "other libraries": "[ 0.  2.  4.  6.  8. 10.]",
        "elements": "(4, 3) (2,) [-1.  1.]",
    },
    "range_mappers": {
        "mappers": "[[  5.   5.   5.   5.   5.   5.]\n [ 17.  18.  19.",
        "lists": "[ 0. -1.  0.  0.]",
        "borders": "8.0",
    },
    "kernels": {
        "values": "[ 0.  2.  6. 12.]",
        "items": "118",
        "random numbers": "[[ 1.45022735  1.44564734 -0.42316405]\n [-1.17150537",
        "cuda kernels": "[0.25 1.   2.  ] 98.0",
    },
    "reductions": {
        "reductions": "3000.0",
        "arrays": "698 1487 2482 2975 3035 2416",
        "same bits": "100.0",
        "extrema": "999 [14  0]",
        "functions": "196.0",
    },
    "host_tasks": {
        "host tasks": "the largest element is 4.0",
        "host objects": "[16.0, 32.0, 64.0]",
        "collective host tasks": "[0. 1. 2. 3.]",
        "one file": "51200.0",
    },
    "files": {
        "frames": "25600.0",
        "rows of a file": "132.0",
        "checkpoints": "51200.0",
    },
    "fused_kernels": {
        "fused": "[0.24804688 0.4140625  0.24804688]",
    },
    "exchanges": {
        "sort": "[   0    1    2 4095]",
    },
    "loops": {
        "repetitions": "999.9528",
        "deep halos": "981.99189157",
        "parameters": "0.20876666200388",
        "loops": "2050 0.0994991",
    },
    "programs": {
        "fences": "[[4. 5. 6. 7.]]\n66.0",
        "ensembles": "(0, np.float64(4.12195842495",
        "notebooks": "16.0",
    },
    "tuning": {
        "slow": "60 255.996776",
        "fast": "60 255.996776",
        "splits": "5.1873775176396",
        "halos": "910.0",
    },
    "sharing": {
        "priorities": "[5. 5. 5.] [20. 20. 20.]",
        "threads": "[40. 40. 40.]",
        "shares": "[5. 5. 5.]",
    },
    "observing": {
        "graphs": '<I11 copy B2 "v" [255:256, 0:512] from D0 to D1; read by T3 chunk 1; after I8 (true), I3 (memory)>',
        "progress": "400.0",
    },
    "debugging": {
        "failures": "rank 0: task 'smooth' failed: OutOfBoundsAccess: ",
    },
}


#: By the library that each section of the page is about: the number that both programs print.
_COMING_FROM = {
    "from CuPy and mpi4py": "3003321.4600",
    "from Celerity": "395170200.0000",
    "from Dask": "-1.7872",
    "from cuPyNumeric": "26867.6560",
    "from JAX": "9.2967",
}


def blocks(document: str, language: str = "python") -> list[str]:
    """The blocks of a document in a language, by its path from the root of the repository."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)


def programs_of_others() -> dict[str, tuple[str, str]]:
    """By the name of ours: the source of the Python program beside it, and its output."""
    names = [name for name in _COMING_FROM if name != "from Celerity"]  # whose program is C++
    programs = {name: (text, _COMING_FROM[name]) for name, text in zip(names, blocks(COMING_FROM, "py"), strict=True)}
    (source,) = blocks(START, "py")
    return programs | {"start": (source, _START_OUTPUT)}


def printed_commands() -> dict[str, list[str]]:
    """By document: the lines of its console blocks that call `celerity-py`, or run the program of the page for it."""
    documents = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
    found = {}
    for document in documents:
        lines = [line for block in blocks(document, "console") for line in block.splitlines()]
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        if any("celerity-py" in command for command in commands):
            found[document] = commands
    return found


def printed_programs() -> dict[str, tuple[str, str]]:
    """By name: the source of a program, and a part of its output."""
    programs = {
        name: ("\n".join(blocks(document)[index] for index in chosen) + "\nprint('sum', float(result.sum()))\n", "sum ")
        for name, (document, chosen) in _FIRST_STEPS.items()
    }
    for path in sorted((ROOT / HOW_TO).glob("*.md")):
        sources, outputs = blocks(f"{HOW_TO}/{path.name}"), _HOW_TOS.get(path.stem, {})
        assert len(sources) == len(outputs), f"a block of {path} has no output here"
        programs |= {name: (source, output) for source, (name, output) in zip(sources, outputs.items(), strict=True)}
    programs["start"] = (blocks(START)[0], _START_OUTPUT)
    sources = blocks(COMING_FROM)
    return programs | {
        name: (source, output) for source, (name, output) in zip(sources, _COMING_FROM.items(), strict=True)
    }
