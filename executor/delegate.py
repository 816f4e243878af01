# SPDX-License-Identifier: MIT
"""The interfaces of the executor: to the runtime above it, and to the native executor below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celerity_py._native import (
        ActiveInstruction,
        CombineCall,
        HostTaskCall,
        InitializeCall,
        KernelCall,
        MessagePort,
        UnclaimedPilot,
    )
    from celerity_py.executor.failures.failure import Failure


class ExecutorDelegate(Protocol):
    """The runtime, as the executor sees it: the owner of callables, futures and arrays."""

    def enter_thread(self) -> None:
        """The calling thread, which is one of the executor's, calls other methods of this class from now on."""

    def run_kernel(self, device: int, call: KernelCall) -> None:
        """Run one chunk of a kernel.

        Launcher thread of the device. An exception is the failure of the submission.
        """

    def run_host_task(self, call: HostTaskCall | InitializeCall | CombineCall) -> None:
        """Run one host task or buffer initialisation.

        Any host-task thread. An exception is the failure of the submission.
        """

    def submission_completed(self, submission: int) -> None:
        """A fence or epoch is done: fulfil its future. Executor thread; must be quick."""

    def submissions_retired(self, last_submission: int) -> None:
        """All submissions up to this one are complete: drop their callables and arguments. Executor thread."""

    def user_memory_freed(self, raw: int) -> None:
        """The last use of an array in user memory is complete: drop the array. Executor thread."""

    def reduction_is_empty(self, number: int) -> None:
        """No chunk has combined a value for this reduction, counted in program order. Executor thread."""

    def failed(self, failure: Failure) -> None:
        """The first failure of the run: let every pending future and later call raise it.

        Called exactly once, on any thread. Must neither block nor raise.
        """

    def describe_submission(self, submission: int) -> tuple[str, str] | None:
        """Return (name of a task in messages, "file:line" of its submit), or None after the task is forgotten."""

    def tell_story(self, submission: int, most: int) -> list[str]:
        """Return up to `most` lines about what was planned for a task and what it waits for; none if nobody knows."""

    def explain_violation(
        self,
        submission_id: int,
        access: int,
        index: tuple[int, ...],
        declared: Sequence[tuple[int, int, int, int, int, int]],
    ) -> BaseException:
        """The error of a kernel that would have left the declared region of one of its accesses, at `index`."""

    def describe_buffer(self, buffer: int, box: tuple[int, ...] | None = None) -> str:
        """Return how messages call a buffer, such as 'B3 "u"', or a box of it, such as 'B3 "u" [0:4]'."""

    def describe_site(self, number: int) -> str:
        """Return the "file:line" of a number that the program log gives, or an empty string. Any thread."""


class Activity(NamedTuple):
    """What a rank does at a moment."""

    is_computing: bool = False  # code of the user runs
    is_waiting: bool = False  # nothing computes, and data of another rank is awaited
    peer: int | None = None  # the rank, once it has announced the data
    what: str = ""  # the oldest awaited data


class LiveReporter(Protocol):
    """Tells of the activity of the ranks while they run. Executor thread."""

    def note(self, activity: Activity) -> None:
        """This rank does so now."""

    def report(self, now_s: float) -> bytes:
        """The activity of this rank since the last report; empty if there was none."""

    def take(self, report: bytes, now_s: float) -> None:
        """A rank has reported to this one."""


class NativeExecutor(Protocol):
    """The part of `_native.Executor` that the live executor uses. Any thread, except `run`."""

    @property
    def still_s(self) -> float:
        """Seconds since something has come from or gone to the network, or has left for Python."""

    def connect(self, port: MessagePort, *, spins: bool, cores_per_rank: float, has_other_ways: bool) -> None:
        """Move messages through this port. Before the first batch."""

    def run(self, timeout_s: float) -> Sequence[Any]:
        """Work, or wait up to `timeout_s` for work; return the work that only Python can do. Executor thread."""

    def unclaimed_pilots(self) -> list[UnclaimedPilot]:
        """The messages that were announced, and that no instruction has received. Executor thread."""

    def wake(self) -> None:
        """Let `run` return."""

    def next_kernel(self, device: int) -> KernelCall | None:
        """Block until there is a kernel for the device; None means stop. One thread per device."""

    def kernel_returned(self, ticket: int) -> None:
        """The function of this kernel has returned; its work on a stream may still run."""

    def next_host_task(self) -> HostTaskCall | InitializeCall | CombineCall | None:
        """Block until there is host work; None means stop. Any number of threads."""

    def host_task_done(self, ticket: int) -> None:
        """The host task of this ticket has run."""

    def active_instructions(self) -> list[ActiveInstruction]:
        """The instructions that are under way, the oldest first."""

    def fail(self) -> None:
        """Issue nothing new from now on."""

    def stop(self) -> None:
        """Let every blocking call return."""

    def release_devices(self) -> bool:
        """Give all memory of the devices back. False while operations run there: then it may be called again."""
