# SPDX-License-Identifier: MIT
"""Words the failures that the native executor reports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from celerity_py.executor.quantities import format_bytes
from celerity_py.scheduler.errors import CommunicationError, DeviceError, OutOfMemory, ResourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celerity_py._native import ExecutorFailure
    from celerity_py.executor.delegate import ExecutorDelegate
    from celerity_py.executor.network.communicator import Communicator

_MOST_TASKS_NAMED: Final = 8
# Statuses of CUDA after which nothing on the device can be used: an uncorrectable error of its memory, an illegal
# address, an assertion in a kernel, an error of the hardware's stack, an illegal instruction, a misaligned address, an
# invalid address space or program counter, and a failed launch.
_LOST_DEVICE: Final = frozenset({214, 700, 710, 714, 715, 716, 717, 718, 719})
# CuPy raises this in the next call after a device has failed; the call itself is not the cause.
_CUPY_ERRORS: Final = ("CUDADriverError", "CUDARuntimeError")


def explain(
    failure: ExecutorFailure, communicator: Communicator, delegate: ExecutorDelegate
) -> tuple[BaseException, int | None]:
    """The error that a failure of the native executor is, and the submission that has failed, if it is known."""
    submission = failure.submission or None
    if failure.kind == "bounds":
        error = delegate.explain_violation(failure.submission, failure.access, failure.element, failure.declared)
        return error, submission
    if failure.kind == "peer":
        return _explain_peer(failure, communicator), None
    if failure.kind == "network":
        text = f"the network has failed ({communicator.library}): {_with_instruction(failure, failure.text)}"
        return CommunicationError(text), submission
    if failure.kind == "device":
        return explain_device(_with_instruction(failure, failure.text), failure.in_flight, submission, delegate)
    if failure.kind == "memory":
        return OutOfMemory(_with_instruction(failure, _explain_shortage(failure, delegate))), submission
    return ResourceError(_with_instruction(failure, failure.text)), submission


def explain_device(
    text: str, in_flight: Sequence[int], submission: int | None, delegate: ExecutorDelegate
) -> tuple[DeviceError, int | None]:
    """The error of a device, which appears at a later call, and ends all work on the device.

    Args:
        text: The words of the driver.
        in_flight: Submissions of the kernels that the device has not finished.
        submission: That of the instruction with which the error came to light.
        delegate: Knows the names of submissions.
    """
    if not in_flight:
        return DeviceError(text), submission
    tasks = Counter(delegate.describe_submission(task) or (f"submission {task}", "") for task in in_flight)
    shown = [
        (f"{count} times " if count > 1 else "") + name + (f" (submitted at {site})" if site else "")
        for (name, site), count in tasks.items()
    ]
    if len(shown) > _MOST_TASKS_NAMED:
        shown[_MOST_TASKS_NAMED:] = [f"and {len(shown) - _MOST_TASKS_NAMED} others"]
    listed = "; ".join(shown)
    if len(in_flight) == 1:
        return DeviceError(f"{text}. In flight is {listed}."), in_flight[0]
    return DeviceError(
        f"{text}. In flight are the following, of which any may be the cause: {listed}. "
        f"Run with CELERITY_SYNC=1 to find out which one it is."
    ), None


def is_lost_device(error: BaseException) -> bool:
    """Whether CuPy says that a device has failed."""
    return type(error).__name__ in _CUPY_ERRORS and getattr(error, "status", None) in _LOST_DEVICE


def _with_instruction(failure: ExecutorFailure, text: str) -> str:
    return f"{failure.instruction} failed: {text}" if failure.instruction else text


def _explain_peer(failure: ExecutorFailure, communicator: Communicator) -> BaseException:
    if communicator.is_alive(failure.peer) is False:
        return CommunicationError(
            f"the process of rank {failure.peer} is gone; look for its last output, or a kill by the system"
        )
    text = _with_instruction(failure, failure.text)
    return ResourceError(f"the memory of rank {failure.peer} cannot be mapped ({text})")


def _explain_shortage(failure: ExecutorFailure, delegate: ExecutorDelegate) -> str:
    def owner(buffer: int) -> str:
        return delegate.describe_buffer(buffer) if buffer else "staging"

    shortage = failure.shortage
    where = "host memory" if shortage.device is None else f"the memory of D{shortage.device}"
    limit = f"CELERITY_GPU_MEMORY allows {format_bytes(shortage.most_bytes)}. " if shortage.most_bytes else ""
    holders = ", ".join(f"{format_bytes(size)} for {owner(buffer)}" for buffer, size in shortage.largest)
    return (
        f"there is no room for {format_bytes(shortage.size_bytes)} for {owner(shortage.buffer)} in {where}. "
        f"This rank holds {format_bytes(shortage.held_bytes)} there{': ' if holders else ''}{holders}. {limit}"
        f"Use more ranks or devices, smaller buffers, or kernels that access less at a time."
    )
