# SPDX-License-Identifier: MIT
"""The mistakes that a type checker finds in a program, and the programs in which it finds none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import configuration
from celerity_py.reductions.combinations import PLACED
from celerity_py.reductions.operations import OPERATIONS
from celerity_py.scheduler.errors import ArgumentTypeError
from celerity_py.vocabulary.static_types import ReductionName

ROOT = Path(__file__).parents[3]

#: A line with `# finds: text` has an error whose message contains the text; the other lines have none.
PROGRAM = """
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import celerity_py as celerity
from celerity_py import Box, access


@dataclass(frozen=True)
class Physics:
    speed: float


def step(chunk: celerity.Chunk, u: celerity.View[np.float32], v: celerity.View) -> None:
    part: NDArray[np.float32] = u[chunk.box]
    wrong: NDArray[np.int8] = u[chunk.box]  # finds: Incompatible types in assignment
    v[chunk.box] = part + u.array + celerity.random.normal(chunk, 1)
    noise: NDArray[np.float32] = celerity.random.uniform(chunk, 1, 2)
    noises: NDArray[np.float64] = celerity.random.uniform(chunk, 1, dtype=np.float64)
    noise = noises  # finds: Incompatible types in assignment


kernel = celerity.kernel(step)
u = celerity.Buffer((4, 4))
v = celerity.Buffer((4, 4), np.float64, name="v")
single: celerity.Buffer[np.float32] = u
double: celerity.Buffer[np.float64] = u  # finds: Incompatible types in assignment
unknown: celerity.Buffer = celerity.Buffer(4, "f4")
real: celerity.Buffer[np.float64] = celerity.Buffer.from_array(np.zeros(4))
ints: celerity.Buffer[np.int32] = celerity.Buffer.from_function(4, np.int32, lambda box: np.zeros(box.shape))
element: np.dtype[np.float64] = v.dtype
reads: celerity.Access = u.read(access.neighborhood(1, 1, shape="axes"))

log = celerity.HostObject([1])

with celerity.Queue() as queue:
    queue.parallel_for(u.shape, kernel, reads, v.write(access.one_to_one()))
    queue.parallel_for(4, kernel, reads, None, 1, 2.5, 1j, "a", b"a", [1], {}, np.ones(3))
    queue.parallel_for(4, kernel, Physics(1), len, np, int, ..., lambda: 1, u.dtype, np.float32(1))
    queue.parallel_for(4, kernel, celerity.reduction(v, "sum"), celerity.reduction(v, "max", include_current=True))
    queue.parallel_for(u.shape, kernel, u, v.write(access.one_to_one()))  # finds: "Buffer[floating[_32Bit]]"
    queue.parallel_for(u.shape, kernel, queue.fence(u))  # finds: "Future[ndarray
    queue.host_task(print, unknown)  # finds: "Buffer[Any]"
    queue.host_task(print, log)  # finds: "HostObject[list[int]]"
    queue.host_task(print, log.side_effect(), reads, on="master")
    numbers: list[int] = queue.fence(log).result()
    queue.host_task(print, reads, on=(4, 4))
    queue.host_task(print, reads, on="mastr")  # finds: expected "Literal['once', 'master']
    future: celerity.Future[NDArray[np.float32]] = queue.fence(u)
    array: NDArray[np.float32] = future.result()
    wrong: NDArray[np.float64] = queue.fence(u).result()  # finds: Incompatible types in assignment
    on_master: NDArray[np.float64] | None = queue.fence(v, Box((0, 0), (1, 1)), on="master").result()
    part: NDArray[np.float64] = queue.fence(v, (slice(1, 2), ...)).result()
    queue.fill(u, 2.5, (slice(1, 2), ...))
    queue.copy(real, v, None, slice(4))
    queue.copy(u, v)  # finds: Cannot infer value of type parameter "Element"
    length: float = queue.norm(u).result()
    queue.dot(u, v)  # finds: Cannot infer value of type parameter "Element"
    queue.fill(reads, 0)  # finds: expected "Buffer[Any]"
    queue.fence(u, to="device").result().get()
    queue.fence(u, slice(1), "master", to="device")
    queue.fence(u, to="gpu")  # finds: No overload variant of "fence"
    queue.fence(log, to="device")  # finds: No overload variant of "fence"
    queue.fence(u, on="mastr")  # finds: No overload variant of "fence"
    queue.fence(reads)  # finds: No overload variant of "fence"

access.neighborhood(1, shape="axis")  # finds: expected "Literal['box', 'axes']"
celerity.reduction(v, "mean")  # finds: expected "Literal['sum',
celerity.configure(backend="cpu", devices="cpu:2", transport="direct", check=True, trace="out")
celerity.configure(backend="gpu")  # finds: expected "Literal['auto', 'cuda', 'cpu']
celerity.configure(device="cpu:2")  # finds: did you mean "devices"
u + 1  # finds: Unsupported operand types for +
"""


@pytest.mark.processes
def test_a_type_checker_finds_these_mistakes_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    options = ["--strict", "--no-error-summary", "--hide-error-context", f"--cache-dir={ROOT / '.mypy_cache'}"]
    options += ["--config-file", str(ROOT / "pyproject.toml")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(path)],
        cwd=ROOT,
        env={name: text for name, text in os.environ.items() if name != "LD_PRELOAD"},  # of a sanitizer
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found: dict[int, str] = {}
    for line, text in re.findall(r"program\.py:(\d+): error: (.*)$", run.stdout, flags=re.MULTILINE):
        found[int(line)] = found.get(int(line), "") + text
    lines = path.read_text().splitlines()
    expected = {number: line.split("# finds: ")[1] for number, line in enumerate(lines, 1) if "# finds: " in line}
    assert found.keys() == expected.keys(), run.stdout + run.stderr
    assert not [(lines[number - 1], found[number]) for number, text in expected.items() if text not in found[number]]


def test_words_are_listed_once() -> None:
    assert get_args(ReductionName) == (*OPERATIONS, *PLACED)
    assert list(configuration.Settings.__annotations__) == [name.lower() for name in configuration._TABLE]


def test_a_buffer_names_the_type_of_its_elements_in_annotations_only() -> None:
    kind: Any = celerity.Buffer[np.float64]
    assert repr(kind) == "celerity_py.buffer.Buffer[numpy.float64]"
    with pytest.raises(ArgumentTypeError, match=r"write Buffer\(shape, float64\)"):
        kind(4)
    assert repr(celerity.View[np.float64]) == "celerity_py.calls.views.View[numpy.float64]"
