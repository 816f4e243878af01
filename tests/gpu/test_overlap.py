# SPDX-License-Identifier: MIT
"""Work that runs while other work is held, and work on the streams before anything has run: no test takes a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.gpu.latch import CudaKernels, Kernels, Latch, PythonKernels, wait_until

pytestmark = pytest.mark.latch

Ints = npt.NDArray[np.int32]
Launch = Callable[..., celerity.Queue]
ONE = access.one_to_one()


@pytest.fixture
def latch() -> Iterator[Latch]:
    latch = Latch()
    yield latch
    latch.release()


@pytest.fixture(params=["python", "cuda"])
def kernels(request: pytest.FixtureRequest, latch: Latch) -> Kernels:
    return PythonKernels(latch) if request.param == "python" else CudaKernels(latch)


@contextmanager
def held(queue: celerity.Queue, kernels: Kernels, program: Callable[[], None]) -> Iterator[Latch]:
    """Run the program once, and submit it again with the latch closed; on leaving, let it go on and end."""
    latch = kernels.latch
    program()
    queue.wait()
    if isinstance(kernels, PythonKernels):
        kernels.forget_calls()
    latch.close()
    try:
        program()
        queue.flush()
        wait_until(lambda: latch.is_held, "the kernel that holds its stream")
        yield latch
        assert latch.is_held, "the latch gave up" if latch.gave_up else "the latch was let go too early"
    finally:
        latch.release()
    queue.wait()


def numbers(n: int) -> Ints:
    return np.arange(n, dtype=np.int32)


def test_a_kernel_runs_while_another_one_holds_a_stream_of_the_same_device(
    launch: Launch, latch: Latch, kernels: Kernels
) -> None:
    queue = launch(1)
    a, b = celerity.Buffer((64,), np.int32), celerity.Buffer((64,), np.int32)

    def program() -> None:
        kernels.submit(queue, "number", a.write(ONE))
        kernels.submit(queue, "mark", b.write(ONE), 7)

    with held(queue, kernels, program):
        wait_until(lambda: latch.marked == 7, "a kernel next to the one that is held")
    np.testing.assert_array_equal(queue.fence(a).result(), numbers(64))
    np.testing.assert_array_equal(queue.fence(b).result(), numbers(64))


def test_three_streams_of_a_device_go_on_while_one_is_held(launch: Launch, latch: Latch, kernels: Kernels) -> None:
    queue = launch(1)
    a = celerity.Buffer((64,), np.int32)
    chains = [(celerity.Buffer.from_array(numbers(64)), celerity.Buffer((64,), np.int32)) for _ in range(3)]

    def program() -> None:
        kernels.submit(queue, "number", a.write(ONE))
        for (
            source,
            target,
        ) in chains:  # so short that no horizon comes, for whose completion memory of the host would wait
            kernels.submit(queue, "add", target.write(ONE), source.read(ONE), 1)
            kernels.submit(queue, "add", source.write(ONE), target.read(ONE), 1)

    with held(queue, kernels, program):
        for source, _ in chains:
            found = queue.fence(source).result(timeout=10)
            np.testing.assert_array_equal(found, numbers(64) + 4)


def test_copies_to_and_from_a_device_run_while_a_kernel_is_held(launch: Launch, latch: Latch, kernels: Kernels) -> None:
    queue = launch(1)
    a = celerity.Buffer((64,), np.int32)
    initial = numbers(1000)
    results: list[Any] = []

    def program() -> None:
        kernels.submit(queue, "number", a.write(ONE))
        b, c = celerity.Buffer.from_array(initial), celerity.Buffer((1000,), np.int32)
        kernels.submit(queue, "add", c.write(ONE), b.read(ONE), 5)
        results.append(queue.fence(c))

    with held(queue, kernels, program):
        np.testing.assert_array_equal(results[-1].result(timeout=10), initial + 5)


@pytest.mark.several_gpus
def test_the_other_devices_go_on_while_one_is_held(
    launch: Launch, latch: Latch, kernels: Kernels, num_gpus: int
) -> None:
    queue = launch(max(2, num_gpus))
    n = 64 * max(2, num_gpus)
    a, b = celerity.Buffer((n,), np.int32), celerity.Buffer((n,), np.int32)
    last = celerity.Box((n - 64,), (n,))

    def program() -> None:
        kernels.submit(queue, "number", a.write(ONE))
        # On the devices that are not held this needs only what they wrote themselves.
        kernels.submit(queue, "add", b.write(ONE), a.read(ONE), 3)
        kernels.submit(queue, "mark", a.write(ONE), 9)

    with held(queue, kernels, program):
        wait_until(lambda: latch.marked == 9, "the last device")
        found = queue.fence(b, last).result(timeout=10)
        np.testing.assert_array_equal(found, numbers(n)[-64:] + 3)


def test_200_kernels_that_read_one_buffer_are_issued_before_it_is_written(
    launch: Launch, latch: Latch, kernels: Kernels, num_gpus: int
) -> None:
    queue = launch(num_gpus, run_ahead=1000)
    n, count = 64 * num_gpus, 200
    constant = celerity.Buffer((n,), np.int32, name="constant")
    targets = [celerity.Buffer((n,), np.int32) for _ in range(count)]

    def program() -> None:
        kernels.submit(queue, "number", constant.write(ONE))
        for value, target in enumerate(targets):
            # every device reads all of it, so that there are copies between devices as well
            kernels.submit(queue, "add", target.write(ONE), constant.read(access.all()), value)

    with held(queue, kernels, program):
        wait_until(lambda: kernels.count_issued() >= count * num_gpus, "the issue of all readers")
    for value in (0, 57, count - 1):
        np.testing.assert_array_equal(queue.fence(targets[value]).result(), numbers(n) + value)


def test_a_long_chain_across_devices_is_issued_before_its_first_kernel_has_run(
    launch: Launch, latch: Latch, kernels: Kernels, num_gpus: int
) -> None:
    queue = launch(num_gpus, run_ahead=1000)
    n, steps = 256 * num_gpus, 100
    buffers = [celerity.Buffer((n,), np.int32), celerity.Buffer((n,), np.int32)]

    def program() -> None:
        kernels.submit(queue, "number", buffers[0].write(ONE))
        for step in range(steps):
            source, target = buffers[step % 2], buffers[1 - step % 2]
            kernels.submit(queue, "sum3", target.write(ONE), source.read(access.neighborhood(1)))

    with held(queue, kernels, program):
        # devices that are far from the one that is held may have completed their first steps
        wait_until(lambda: kernels.count_issued() >= least_issued(kernels, steps, num_gpus), "the issue of the chain")
    expected = numbers(n)
    for _ in range(steps):
        padded = np.pad(expected, 1)
        expected = padded[:-2] + padded[1:-1] + padded[2:]
    np.testing.assert_array_equal(queue.fence(buffers[steps % 2]).result(), expected)


def least_issued(kernels: Kernels, steps: int, num_gpus: int) -> int:
    """Calls are counted for good; instructions only until they are complete, and d devices away d steps can be."""
    complete = 0 if isinstance(kernels, PythonKernels) else sum(range(num_gpus + 1))
    return steps * num_gpus - complete


def test_forks_and_joins_are_issued_before_their_first_kernel_has_run(
    launch: Launch, latch: Latch, kernels: Kernels, num_gpus: int
) -> None:
    queue = launch(num_gpus, run_ahead=1000)
    n, rounds = 64 * num_gpus, 15
    trunk = celerity.Buffer((n,), np.int32)
    branches = [celerity.Buffer((n,), np.int32) for _ in range(4)]

    def program() -> None:
        kernels.submit(queue, "number", trunk.write(ONE))
        for _ in range(rounds):
            for value, branch in enumerate(branches):
                kernels.submit(queue, "add", branch.write(ONE), trunk.read(ONE), value)
            kernels.submit(queue, "join", trunk.write(ONE), *(branch.read(ONE) for branch in branches))

    with held(queue, kernels, program):
        # the other devices need nothing of the one that is held, and may be done
        wait_until(lambda: kernels.count_issued() >= 5 * rounds, "the issue of all rounds")
    expected = numbers(n)
    for _ in range(rounds):
        expected = 4 * expected + 6
    np.testing.assert_array_equal(queue.fence(trunk).result(), expected)
