# SPDX-License-Identifier: MIT
import threading

import pytest

from celerity_py.cuda.turns import Turns


def test_calls_of_several_threads_do_not_overlap() -> None:
    turns, inside, most = Turns(longest_s=60), [0], [0]

    def call() -> None:
        for _ in range(200):
            with turns.take():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                threading.Event().wait(1e-6)  # lets others run
                inside[0] -= 1

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1]


def test_a_call_that_waits_for_another_device_is_overtaken() -> None:
    turns, other_has_run = Turns(longest_s=0.01), threading.Event()

    def other() -> None:
        with turns.take():
            other_has_run.set()

    with turns.take():
        thread = threading.Thread(target=other)
        thread.start()
        assert other_has_run.wait(60)
    thread.join(60)
    with turns.take():  # the one that overtook has not given back a turn that it never had
        assert not turns._lock.acquire(blocking=False)


def test_an_exception_ends_the_turn() -> None:
    turns = Turns(longest_s=60)
    with pytest.raises(ValueError, match="boom"), turns.take():
        raise ValueError("boom")
    with turns.take():
        pass
