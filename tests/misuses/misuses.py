# SPDX-License-Identifier: MIT
"""The mistakes of docs/errors.md, each as a short program. `errors_page.py` runs them."""

from __future__ import annotations

from typing import Any

from celerity_py import _native
from celerity_py.scheduler import errors
from tests.misuses.misuses_of_calls import AT_THE_SUBMIT, MISFITS
from tests.misuses.misuses_of_tasks import IN_A_TASK, OF_THE_RUN, WITH_CHECK


def kinds_of_errors() -> set[str]:
    """All kinds of errors that the code lists: exceptions, and the kinds of native records that become errors."""
    exceptions = {name for name, value in vars(errors).items() if isinstance(value, type)} - {"CelerityError"}
    records: tuple[Any, ...] = (
        _native.AccessViolation,
        _native.MapperMisfit,
        _native.PlanningNotice,
        _native.ExecutorFailure,
    )
    return exceptions | {f"{record.__name__} {kind}" for record in records for kind in record.kinds if kind != "none"}


#: Kinds that no program of the page shows, with the reason.
WITHOUT_PROGRAM = {
    "DeviceError": "a GPU has failed; the message names the kernels in flight and their lines",
    "ExecutorFailure bounds": "needs a GPU: a `CudaKernel` with `CELERITY_BOUNDS_CHECK=1`; the message is that of "
    "`OutOfBoundsAccess`",
    "ExecutorFailure device": "needs a GPU; becomes `DeviceError`",
    "ExecutorFailure fault": "the operating system refuses something to the executor; becomes `ResourceError`",
    "ExecutorFailure network": "the library of the network returns an error; becomes `CommunicationError`",
    "ExecutorFailure peer": "the memory of another rank cannot be mapped; becomes `ResourceError`, or "
    "`CommunicationError` if the process is gone",
    "InternalError": "a bug in celerity_py; no program should see it",
    "AccessViolation unknown_buffer": "calls check their buffers before; no program should see it",
    "PlanningNotice fault": "becomes `InternalError`",
}

#: By the heading of the page.
MISUSES = {
    "At the submit": AT_THE_SUBMIT,
    "At the submit: range mappers that do not fit": MISFITS,
    "In a task": IN_A_TASK,
    "With `CELERITY_CHECK=1`": WITH_CHECK,
    "The run as a whole": OF_THE_RUN,
}
