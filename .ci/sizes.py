# SPDX-License-Identifier: MIT
"""Lines of code per room in the newest commit, and their change since another, with a budget per floor.

A line counts if it holds more than a comment or a part of a docstring. Stubs and links do not count.
The exit status is 1 if a floor is over its budget in `BUDGETS`. Whoever raises a budget gives the reason in the commit.
"""

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import PurePosixPath

# Fused kernels may have 4000 lines: 300 of them launch kernels, in the executor, and 3400 are in celerity_py so far.
# Of these, 250 lines of C++ repeat submits, which took four times as long in Python. Their reductions take 600 more.
# The port to MPI takes 710 lines of the executor, without the Python that it replaces.
# What fused functions catch and import takes 120 lines of celerity_py, and `celerity-py fuse` as many.
# Files, checkpoints and requests to stop take 1015 lines of celerity_py: formats, and the host tasks that write.
# Of these, 40 keep what the library of Zarr says about a folder: it takes seven times the time of processors.
# To start programs again, with snapshots in memory, takes 165: the launcher stays beside its ranks, and keeps a folder.
# To look at mappers in Python once per code takes 11 lines: submits with them are a tenth faster.
# Plain loops that repeat their plans take 550 lines of the scheduler.
# Random numbers in fused kernels take 150 lines of celerity_py, half of them for numba; combined rows take 300, and
# arrays among the arguments 180.
# The progress of files in the live view takes 40 lines of celerity_py, and to free full disks and keep folders 13.
# Products of matrices and places along an axis, in fused kernels, take 30 lines of celerity_py.
# Contents after a failure take 330 lines of the executor, 50 of the scheduler, and 110 of celerity_py.
# Packing the scalars of fused kernels natively takes 25 lines of celerity_py.
# Exchanges of names take 20 lines of celerity_py, and the refusal of snapshots on other hosts 10.
# The thread of a short kernel carries out the executor's loop, and short operations wait without a thread: 225 lines of
# the executor, for a tenth of the switches between threads. Small messages travel with their pilots in 155 lines.
# Batches of plain loops, as graphs, take 220 lines of the scheduler, 145 of the executor, and 40 that bind tests.
# The loop inside of a long plain loop takes 20 lines of the scheduler.
# Limits of coordinates, stores that are joined, and items of rows that load together: 125 lines of celerity_py.
BUDGETS = {"scheduler": 10265, "executor": 15730, "celerity_py": 31195}
ENDINGS = {".py", ".cpp", ".hpp", ".cuh", ".js", ".css", ".html"}
OWNERS_OF_DOCSTRINGS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
COMMENT_MARKS = ("//", "/*", "*", "<!--")


def docstring_lines(text: str) -> set[int]:
    """The numbers of the lines of docstrings, from 1."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, OWNERS_OF_DOCSTRINGS) and ast.get_docstring(node):
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def count_code(path: PurePosixPath, text: str) -> int:
    """Lines of code in a file."""
    is_python = path.suffix == ".py"
    skipped = docstring_lines(text) if is_python else set()
    marks = ("#",) if is_python else COMMENT_MARKS
    stripped = ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1))
    return sum(1 for number, line in stripped if line and number not in skipped and not line.startswith(marks))


def sizes(commit: str) -> Counter[str]:
    """Lines of code per room in a commit."""
    archive = subprocess.run(["git", "archive", commit, *BUDGETS], check=True, capture_output=True).stdout
    rooms: Counter[str] = Counter()
    with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
        for member in tree:
            path = PurePosixPath(member.name)
            content = tree.extractfile(member) if member.isreg() and path.suffix in ENDINGS else None
            if content is not None:
                rooms[str(path.parent)] += count_code(path, content.read().decode())
    return rooms


def main(base: str) -> int:
    """Print the table, and return the exit status."""
    before, now = sizes(base), sizes("HEAD")
    print(f"{'lines of code':<40}{'now':>8}{'change':>8}  since {base}")
    is_over = False
    for floor, budget in BUDGETS.items():
        rooms = [room for room in sorted(before | now) if PurePosixPath(room).parts[0] == floor]
        for room in rooms:
            if now[room] != before[room]:
                print(f"  {room:<38}{now[room]:>8}{now[room] - before[room]:>+8}")
        total, change = sum(now[room] for room in rooms), sum(now[room] - before[room] for room in rooms)
        print(f"{floor:<40}{total:>8}{change:>+8}  budget {budget}{'' if total <= budget else ': OVER'}")
        is_over |= total > budget
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "main"))
