# SPDX-License-Identifier: MIT
"""The kernels of recent reductions, for messages, and warnings of extrema that no chunk has combined a value into."""

from __future__ import annotations

import logging
import threading
import time

from celerity_py.calls.binder import Flat
from celerity_py.kernels import CudaKernel
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.vocabulary.submissions import Submission

_log = logging.getLogger(__name__)

_MOST_WATCHED = 1024
_LOOKS, _LOOK_S = 20, 0.01


class EmptyReductions:
    """Knows the reductions that were submitted last, by the numbers that the task graph gives them."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[Submission, ReductionPort]] = {}
        self._warned: set[int] = set()  # buffers
        self._lock = threading.Lock()

    def note(self, submission: Submission, last_number: int) -> None:
        """A kernel with reductions was submitted, which have numbers up to `last_number`."""
        ports = [arg for arg in submission.args if arg.__class__ is ReductionPort]
        for number, port in enumerate(ports, last_number - len(ports) + 1):
            if not port.has_value_of_nothing and port.combination is None:
                continue
            if submission.function.__class__ is CudaKernel and port.record.dtype.kind != "f":
                continue  # not known to be empty: 0 may be the true maximum of unsigned numbers
            with self._lock:
                while len(self._watched) >= _MOST_WATCHED:
                    self._watched.pop(next(iter(self._watched)))
                self._watched[number] = (submission, port)

    def find(self, number: int) -> Submission | None:
        """The kernel of a reduction whose partial results combine by a call, for the report of a failure; any thread.

        The application notes a kernel behind its submit, so that a failure may come first. None after many others.
        """
        for _ in range(_LOOKS):
            with self._lock:
                submission = self._watched.get(number, (None, None))[0]
            if submission is not None:
                return submission
            time.sleep(_LOOK_S)
        return None

    def report(self, number: int) -> None:
        """The result of a reduction is that of nothing; any thread."""
        with self._lock:
            submission, port = self._watched.pop(number, (None, None))
        if submission is not None and port is not None and not port.has_combined:
            self._warn(submission, port)

    def look_at(self, submission: Submission, chunk: Flat) -> None:
        """A chunk of a kernel has run; if it was the only one, nobody reduces its partial result. Any thread."""
        whole = submission.box
        if whole is None or tuple(whole.flat()) != tuple(chunk):
            return
        for port in submission.args:
            if port.__class__ is ReductionPort and port.has_value_of_nothing and not port.has_combined:
                self._warn(submission, port)

    def look_at_nothing(self, submission: Submission) -> None:
        """A kernel has an empty index space, and does not run. Application thread."""
        for port in submission.args:
            if port.__class__ is ReductionPort and port.has_value_of_nothing:
                self._warn(submission, port)

    def _warn(self, submission: Submission, port: ReductionPort) -> None:
        record = port.record
        with self._lock:
            if record.id in self._warned:
                return
            self._warned.add(record.id)
        _log.warning(
            "%s: no chunk has combined a value into %s, so that its %s is %s, as of nothing. Call "
            "combine() in the kernel, or use include_current=True to keep the value of the buffer then. (Said once per "
            "buffer.)",
            submission.describe(),
            record.label,
            {"min": "minimum", "max": "maximum"}.get(port.op, port.op),
            port.identity.reshape(-1)[0] if port.combination is not None else port.identity,
        )
