# SPDX-License-Identifier: MIT
"""`celerity.stop_requested` on a single rank; tests/mpi has several."""

from __future__ import annotations

import signal
import threading

import pytest

import celerity_py as celerity
from celerity_py.errors import ArgumentTypeError, UsageError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_is_a_request_until_the_run_ends(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    for _ in range(2):
        with celerity.Queue():
            assert not celerity.stop_requested()
            signal.raise_signal(number)
            assert celerity.stop_requested()
            assert celerity.stop_requested(every=3)
        assert signal.getsignal(number) is before


def test_mistakes_of_stop_requested(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match=r"takes an int as every=, not 1\.5"):
        celerity.stop_requested(every=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="every= from 1 on, not 0"):
        celerity.stop_requested(every=0)
    told: list[str] = []

    def ask() -> None:
        with pytest.raises(UsageError, match="has to come from the main thread") as caught:
            celerity.stop_requested()
        told.append(str(caught.value))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert told
