# SPDX-License-Identifier: MIT
"""Several threads submit: one program order with one rank, and none that ranks could differ in with several."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime import lifecycle
from celerity_py.scheduler.errors import UsageError

THREADS = 4
STEPS = 150


@celerity.kernel
def add(chunk: Any, view: Any, amount: Any) -> None:
    view[chunk.box] += amount


def run_threads(bodies: list[Any]) -> list[BaseException]:
    errors: list[BaseException] = []

    def guarded(body: Any) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - to be looked at by the test
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[body]) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_with_one_rank_every_submit_of_every_thread_counts() -> None:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(8, np.int64))
        seen: list[int] = []

        def submit() -> None:
            for step in range(STEPS):
                queue.parallel_for(8, add, buffer.read_write(access.one_to_one()), 1)
                queue.parallel_for(8, add, buffer.read_write(lambda chunk: chunk.box), 1)
                queue.host_task(lambda part, view: view.array.__iadd__(1), buffer.read_write(access.all()))
                if step % 20 == 0:
                    seen.append(int(queue.fence(buffer).result(60)[0]))
                if step % 50 == 0:
                    queue.wait()

        assert not run_threads([submit] * THREADS)
        assert (queue.fence(buffer).result(60) == 3 * STEPS * THREADS).all()
        assert all(0 < count <= 3 * STEPS * THREADS for count in seen)


def test_with_several_ranks_a_call_that_another_thread_overtakes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_DRY_RUN_RANKS", "2")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8)

        def submit() -> None:
            queue.parallel_for(8, print, buffer.write(access.one_to_one()))

        def mapper(chunk: Any) -> Any:
            assert not run_threads([submit])
            return chunk.box

        with pytest.raises(UsageError, match="another thread submitted at the same time") as caught:
            queue.parallel_for(8, print, buffer.write(mapper), name="overtaken")
        assert 'kernel "overtaken" (submitted at ' in str(caught.value)
        assert "All 2 ranks must submit in the same order" in str(caught.value)
        runtime: Any = lifecycle.current()
        assert all(entry.name == "print" for entry in runtime.submissions.values())
        submit()  # goes on
        for _ in range(3):
            assert not run_threads([submit])  # one after the other is an order
        queue.wait()
