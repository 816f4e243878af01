# SPDX-License-Identifier: MIT
"""Processes that run programs of a case, started by a fork so that they share the inputs; and the daemon of MPS.

The benchmark's own process starts neither CUDA nor the runtime: a forked process could use neither then.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_jobs.benchmarks.dags.dag_measure import describe
from cluster_jobs.benchmarks.dags.dag_programs import Program
from cluster_jobs.benchmarks.dags.sharing_programs import Case
from cluster_jobs.benchmarks.dags.sharing_runners import RUNNERS, Runner, digest

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_forking = multiprocessing.get_context("fork")
ANSWER_S = 60.0
_END_S = 15.0
#: Waiting threads of one process shall get the interpreter soon, as `docs/decisions.md` has measured it.
_SWITCH_INTERVAL_S = 50e-6


class WorkerError(RuntimeError):
    """A process has failed, ended, or not answered in time."""


@dataclass(frozen=True)
class Job:
    """What a thread repeats: runs in a row, then a pause in seconds."""

    runs: int
    pause_s: float = 0.0


@dataclass
class Setting:
    """What is measured."""

    case: Case
    programs: list[Program]
    small: list[Program]
    ahead: bool
    is_cuda: bool
    #: How one runtime gets the programs; of `SUBMITS`.
    submit: str = "turns"
    #: Where runtimes write their timelines; none without.
    traces: Path | None = None
    #: Of the multiprocessors, for the first program of the way `split`.
    share: float = 0.25
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """What a process has to do: some programs of a setting, by their numbers."""

    name: str
    #: Of `RUNNERS`.
    kind: str
    numbers: Sequence[int]
    setting: Setting
    #: Of the multiprocessors, for the program of the highest priority; None if nobody divides them.
    share: float | None = None
    #: Where a runtime writes its timeline; empty if it writes none.
    trace: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def programs(self) -> dict[int, Program]:
        """The programs that are measured."""
        return {number: self.setting.programs[number] for number in self.numbers}

    def runner(self, programs: Mapping[int, Program]) -> Runner:
        """Who runs these programs."""
        priorities = dict(enumerate(self.setting.case.priorities))
        share: dict[str, Any] = {} if self.share is None else {"share": self.share}
        make: Any = RUNNERS[self.kind]
        runner: Runner = make(programs, priorities, ahead=self.setting.ahead, submit=self.setting.submit, **share)
        return runner


def wait_until(moment: float) -> None:
    """Until `time.monotonic` says so; the last millisecond without sleep."""
    while (left := moment - time.monotonic()) > 0:
        if left > 0.001:
            time.sleep(left - 0.001)


class _Desk:
    """In the process: what the benchmark may ask for."""

    def __init__(self, task: Task) -> None:
        import celerity_py as celerity

        self.programs = task.programs
        is_cuda = task.setting.is_cuda
        celerity.configure(backend="cuda" if is_cuda else "cpu", devices="0," if is_cuda else "cpu:1")
        small = {number: task.setting.small[number] for number in task.numbers}
        checked = task.runner(small)
        self._run_anew(checked, small)
        for number, program in small.items():
            program.check(checked.results(number), 1)
        checked.close()
        del checked
        if task.trace:
            celerity.configure(trace=task.trace)
        self.runner = task.runner(self.programs)

    @staticmethod
    def _run_anew(runner: Runner, programs: Mapping[int, Program]) -> None:
        runner.renew(list(programs))
        runner.start(list(programs), with_priorities=False)

    def digests(self) -> dict[int, int]:
        """Checksums of the results of a run from the initial contents, by program."""
        self._run_anew(self.runner, self.programs)
        found = {number: digest(self.runner.results(number)) for number in self.programs}
        gc.collect()
        gc.disable()
        return found

    def prepare(self, numbers: Sequence[int]) -> None:
        """See `Runner`."""
        self.runner.prepare(numbers)

    def start(self, numbers: Sequence[int], moment: float, with_priorities: bool) -> tuple[float, dict[int, float]]:
        """Wait for the moment and run; how many seconds late it was, and the end of each program."""
        wait_until(moment)
        late = time.monotonic() - moment
        return late, self.runner.start(numbers, with_priorities=with_priorities)

    def loop(
        self, jobs: Mapping[int, Job], moment: float, end: float, with_priorities: bool
    ) -> dict[int, list[tuple[float, float]]]:
        """From the moment to the end, repeat jobs, a thread for each program; when each repetition began and ended.

        Each job is done at least once, however late it is.
        """
        self.runner.use_priorities(with_priorities)

        def repeat(number: int) -> list[tuple[float, float]]:
            spans: list[tuple[float, float]] = []
            job = jobs[number]
            self.runner.enter_thread()
            wait_until(moment)
            while not spans or time.monotonic() < end:
                begun = time.monotonic()
                self.runner.repeat(number, job.runs)
                spans.append((begun, time.monotonic()))
                if job.pause_s:
                    time.sleep(job.pause_s)
            return spans

        with ThreadPoolExecutor(len(jobs)) as threads:
            return dict(zip(jobs, threads.map(repeat, jobs), strict=True))

    def close(self) -> None:
        """See `Runner`."""
        self.runner.close()


def _serve(task: Task, connection: Connection, parent: int) -> None:
    os.environ.update(task.environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    desk = None
    try:
        desk = _Desk(task)
        connection.send((True, desk.digests()))
        while True:
            while not connection.poll(1.0):
                if os.getppid() != parent:
                    return
            method, arguments = connection.recv()
            connection.send((True, getattr(desk, method)(*arguments)))
            if method == "close":
                return
    except Exception as error:  # noqa: BLE001 - whatever it is, the benchmark shall say so
        with contextlib.suppress(OSError):
            connection.send((False, describe(error)))


class Worker:
    """A process with programs, seen from the benchmark. Its first answer are its digests."""

    def __init__(self, task: Task) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.name = task.name
        self.numbers = tuple(task.numbers)
        self._connection, theirs = _forking.Pipe()
        self._process = _forking.Process(target=_serve, args=(task, theirs, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, method: str, *arguments: Any) -> None:
        """Ask for something; `answer` has to follow.

        Raises:
            WorkerError: If the process has ended.
        """
        try:
            self._connection.send((method, arguments))
        except OSError as error:
            raise WorkerError(f"{self.name}: the process has ended") from error

    def answer(self, seconds: float = ANSWER_S) -> Any:
        """What it answers.

        Raises:
            WorkerError: If it has failed or ended, or takes longer than `seconds`.
        """
        try:
            if not self._connection.poll(seconds):
                raise WorkerError(f"{self.name}: no answer within {seconds:.0f} s")
            is_good, content = self._connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerError(f"{self.name}: the process has ended with {self._process.exitcode}") from error
        if not is_good:
            raise WorkerError(f"{self.name}: {content}")
        return content

    def end(self) -> None:
        """End the process: by asking for it, or else by force."""
        with contextlib.suppress(WorkerError):
            self.ask("close")
            self.answer(_END_S)
        self._process.join(_END_S / 3)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class MultiProcessService:
    """The daemon of MPS, with folders of its own; `stop` has to follow.

    Raises:
        RuntimeError: If there is no MPS, or if it does not start.
    """

    def __init__(self) -> None:
        found = shutil.which("nvidia-cuda-mps-control")
        if found is None:
            raise RuntimeError("there is no nvidia-cuda-mps-control on this host")
        self._program = found
        self._folder = Path(tempfile.mkdtemp(prefix="mps-"))
        #: For the environment of processes that shall use it.
        self.variables = {"CUDA_DEVICE_MAX_CONNECTIONS": "8"}  # as the runtime sets it: all clients share the queues
        for what in ("pipe", "log"):
            (self._folder / what).mkdir()
            self.variables[f"CUDA_MPS_{what.upper()}_DIRECTORY"] = str(self._folder / what)
        # The service would number the GPUs of this variable anew, and its clients could not find them.
        self._environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"} | self.variables
        output = self._folder / "output"
        with output.open("w") as file:  # a pipe would stay open as long as the daemon lives
            started = subprocess.run(  # noqa: S603 - a program of the driver
                [found, "-d"], env=self._environment, stdout=file, stderr=file, timeout=30, check=False
            )
        if started.returncode:
            text = output.read_text().strip()
            self.stop()
            raise RuntimeError(f"nvidia-cuda-mps-control -d ended with {started.returncode}: {text}")

    def _tell(self, command: str) -> str:
        done = subprocess.run(  # noqa: S603
            [self._program],
            input=f"{command}\n",
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout.strip()

    def has_clients(self) -> bool:
        """Whether a process uses it: CUDA goes without it silently if it does not find it."""
        return bool(self._tell("get_server_list"))

    def stop(self) -> None:
        """Stop the daemon and its servers, by force if they do not obey."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._tell("quit -t 5")
        daemon = self._folder / "pipe" / "nvidia-cuda-mps-control.pid"
        with contextlib.suppress(OSError, ValueError):
            number = int(daemon.read_text())
            for _ in range(50):
                os.kill(number, 0)  # raises when it has ended
                time.sleep(0.1)
            os.kill(number, signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)
