# SPDX-License-Identifier: MIT
"""What the executor asks of the runtime above it, and what it uses of the native one below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celerity_py.executor.failures.failure import Failure


class ActiveInstruction(NamedTuple):
    """An instruction that is under way."""

    age_s: float
    text: str  # what it is, and what it lacks
    submission: int  # 0: of none
    buffer: int  # 0: it concerns none
    box: tuple[int, ...] | None
    peer_rank: int  # -1: none
    transfer: tuple[int, int, int] | None  # (consumer task, buffer, reduction)
    kind: str = ""
    is_computing: bool = False  # code of the user runs

    def without_age(self) -> tuple[Any, ...]:
        """The same as long as nothing has moved."""
        return self[1:]


class ExecutorDelegate(Protocol):
    """The runtime, as the executor sees it: the owner of callables, futures and arrays."""

    def run_kernel(self, device: int, call: tuple[Any, ...]) -> None:
        """Run one chunk of a kernel; `call` is what the native `next_kernel` returned.

        Launcher thread of the device. An exception is the failure of the submission.
        """

    def run_host_task(self, call: tuple[Any, ...]) -> None:
        """Run one host task or buffer initialisation; `call` is what the native `next_host_task` returned.

        Any host-task thread. An exception is the failure of the submission.
        """

    def submission_completed(self, submission: int) -> None:
        """A fence or epoch is done: fulfil its future. Executor thread; must be quick."""

    def submissions_retired(self, last_submission: int) -> None:
        """Everything submitted up to here is done: drop its callables and arguments. Executor thread."""

    def user_memory_freed(self, raw: int) -> None:
        """The graph has had its last use of an array in user memory: drop it. Executor thread."""

    def reduction_is_empty(self, number: int) -> None:
        """The result of this reduction, counted in program order, is that of nothing. Executor thread."""

    def failed(self, failure: Failure) -> None:
        """The first failure of the run: let every pending future and later call raise it.

        Called exactly once, on any thread. Must neither block nor raise.
        """

    def describe_submission(self, submission: int) -> tuple[str, str] | None:
        """Return (name of the task, "file:line" that submitted it), or None if that is not known (any more)."""

    def explain_violation(
        self,
        submission_id: int,
        access: int,
        index: tuple[int, ...],
        declared: Sequence[tuple[int, int, int, int, int, int]],
    ) -> BaseException:
        """The error of a kernel that would have left the declared region of one of its accesses, at `index`."""

    def describe_buffer(self, buffer: int) -> str:
        """Return how messages call a buffer, such as 'B3 "u"'."""

    def describe_site(self, number: int) -> str:
        """Return the "file:line" of a number that the program log gives, or an empty string. Any thread."""


class NativeExecutor(Protocol):
    """The part of `_native.Executor` that the live executor uses. Any thread, except `run`."""

    @property
    def outstanding_communication(self) -> bool:
        """Whether transfers are under way or awaited."""

    def run(self, timeout_s: float) -> list[tuple[Any, ...]]:
        """Work, or wait up to `timeout_s` for something to do; return what only Python can do. Executor thread."""

    def notify_complete(self, request: int) -> None:
        """A send, receive or barrier is complete."""

    def notify_pilot(self, source_rank: int, pilot: bytes) -> None:
        """A pilot has arrived."""

    def unclaimed_pilots(self) -> list[tuple[int, int, tuple[int, int, int], tuple[int, ...]]]:
        """(source rank, message, transfer, box) of what was announced and nobody has asked for. Executor thread."""

    def wake(self) -> None:
        """Let `run` return."""

    def next_kernel(self, device: int) -> tuple[Any, ...] | None:
        """Block until there is a kernel for the device; None means stop. One thread per device."""

    def kernel_done(self, ticket: int) -> None:
        """The function of this kernel has returned."""

    def kernel_issued(self, ticket: int) -> None:
        """All that this kernel puts on its stream is there; after `kernel_done`."""

    def next_host_task(self) -> tuple[Any, ...] | None:
        """Block until there is host work; None means stop. Any number of threads."""

    def host_task_done(self, ticket: int) -> None:
        """The host task of this ticket has run."""

    def active_instructions(self) -> list[tuple[Any, ...]]:
        """The fields of an `ActiveInstruction` for each instruction that is under way, oldest first."""

    def fail(self) -> None:
        """Issue nothing new from now on."""

    def stop(self) -> None:
        """Let every blocking call return."""
