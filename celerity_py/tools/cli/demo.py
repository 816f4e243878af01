# SPDX-License-Identifier: MIT
"""`celerity-py demo`: a wave on all devices, checked against NumPy."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from celerity_py.scheduler.errors import ConfigurationError, LaunchError
from celerity_py.tools.cli.picture import write_picture
from celerity_py.tools.cli.words import CommandError, add_command, check_output, failure_of_file, names_files, positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from celerity_py.tools.cli.words import Commands

_COURANT_SQUARED = np.float32(0.25)
#: In parts of the highest wave. CuPy takes subnormal numbers for 0. They lie before the front of the wave, and change
#: the rounding of numbers behind it.
_ROUNDING = 1e-6


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        execute,
        "Simulate a wave, and compare it with NumPy.",
        "Several ranks: celerity-py run -n 2 -m celerity_py demo. The exit status is 1 if the results differ.",
    )
    parser.add_argument("--size", type=positive, default=512, metavar="N", help="cells along each side (512)")
    parser.add_argument("--steps", type=positive, default=200, metavar="S", help="time steps (200)")
    output = parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a picture: a PNG file")
    names_files(output)


@celerity.kernel
def wave_step(chunk: celerity.Chunk, u_next: celerity.View, u: celerity.View, c2: np.float32) -> None:
    """Overwrite the state before the last with the next one. The rim stays at rest."""
    inner = chunk.box & u.shape_box.shrink(1, 1)
    neighbours = u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)]
    u_next[inner] = 2 * u[inner] - u_next[inner] + c2 * (neighbours - 4 * u[inner])


def drop(size: int) -> NDArray[np.float32]:
    """A drop at the centre of a square."""
    y, x = np.ogrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    height: NDArray[np.float32] = np.exp(-50 * (x * x + y * y)).astype(np.float32)
    return height


def reference(u: NDArray[np.float32], steps: int) -> NDArray[np.float32]:
    """The same by NumPy alone: the same operations in the same order."""
    u_next = u.copy()
    for _ in range(steps):
        neighbours = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u_next[1:-1, 1:-1] = (
            2 * u[1:-1, 1:-1] - u_next[1:-1, 1:-1] + _COURANT_SQUARED * (neighbours - 4 * u[1:-1, 1:-1])
        )
        u, u_next = u_next, u
    return u


def execute(options: argparse.Namespace) -> int:
    """Run the simulation on all ranks; rank 0 checks, prints, and writes the picture."""
    size, steps, output = options.size, options.steps, options.output
    if output and output.suffix != ".png":
        raise CommandError(f"The picture is a PNG file, but the name {str(output)!r} does not end in .png.")
    initial = drop(size)
    try:
        queue = celerity.Queue()
    except (ConfigurationError, LaunchError) as error:
        raise CommandError(str(error)) from None
    with queue:
        if output and not _can_write(queue, output):
            return 1
        u = celerity.Buffer.from_array(initial, name="u")
        u_next = celerity.Buffer.from_array(initial, name="u_next")
        start = time.perf_counter()
        for _ in range(steps):
            queue.parallel_for(
                u.shape,
                wave_step,
                u_next.read_write(access.one_to_one()),
                u.read(access.neighborhood(1, 1, shape="axes")),
                _COURANT_SQUARED,
            )
            u, u_next = u_next, u
        queue.wait()
        seconds = time.perf_counter() - start
        result = queue.fence(u, on="master").result()
        devices: Any = queue.statistics()
    if result is None:
        return 0
    each = f"{devices.num_devices} {'GPU' if devices.backend == 'cuda' else 'CPU device'}(s) each"
    print(f"A wave on {size} x {size} cells: {steps} steps in {seconds:.2f} s, {devices.size} rank(s) with {each}.")
    if output:
        _write(output, result)
    is_right, verdict = compare(result, reference(initial, steps))
    print(verdict)
    return int(not is_right)


def compare(result: NDArray[np.float32], expected: NDArray[np.float32]) -> tuple[bool, str]:
    """Whether the result is right, and the verdict in words."""
    if np.array_equal(result, expected):
        return True, "Verified: bit-identical to NumPy."
    farthest = float(np.abs(result - expected).max())  # NaN if there is one
    highest = float(np.abs(expected).max())
    if farthest <= _ROUNDING * highest:
        return True, (
            f"Verified: the highest wave has {highest:.2g}, and no element differs by more than {farthest:.1g} from "
            f"NumPy. CuPy takes subnormal numbers for 0, which changes the rounding of others."
        )
    wrong = np.count_nonzero(result != expected)
    return False, f"WRONG: {wrong} elements differ from NumPy, by up to {farthest:.3g}."


def _can_write(queue: celerity.Queue, path: Path) -> bool:
    """Whether rank 0 can write a file; if not, it says why. The same on all ranks. Collective."""
    answer = celerity.Buffer(1, np.bool_, name="can be written")

    def look(_: celerity.Part, answer: celerity.View) -> None:
        try:
            check_output(path, "wave.png")
            answer[...] = True
        except CommandError as error:
            sys.stderr.write(f"celerity-py demo: {error}\n")
            answer[...] = False

    queue.host_task(look, answer.write(access.all()), on="master")
    return bool(queue.fence(answer).result()[0])


def _write(path: Path, result: NDArray[np.float32]) -> None:
    try:
        write_picture(path, result)
    except OSError as error:
        raise failure_of_file(error, path) from None
    print(f"The picture is {path.resolve()}.")
