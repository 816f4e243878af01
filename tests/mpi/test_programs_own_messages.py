# SPDX-License-Identifier: MIT
"""Programs that use MPI themselves while the runtime exchanges data."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.mpi.test_programs import random_array, reference_wave, wave_step

pytestmark = pytest.mark.mpi(min_size=2)
HELD_S = 1.0


def test_halos_go_on_while_a_receive_of_the_program_waits() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    following, preceding = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.zeros(1)
    receiver = threading.Thread(target=lambda: comm.Recv(received, preceding))
    receiver.start()
    initial = random_array(24, 10)
    num_pairs = 0
    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        u, u_next = (celerity.Buffer.from_array(initial) for _ in range(2))
        one, around = access.one_to_one(), access.neighborhood(1, 1, shape="axes")
        until = time.monotonic() + HELD_S
        is_over = False
        while not is_over:
            for now, then in ((u, u_next), (u_next, u)):
                queue.parallel_for(initial.shape, wave_step, then.read_write(one), now.read(around), 0.25)
            queue.wait()
            num_pairs += 1
            is_over = bool(comm.allreduce(time.monotonic() >= until, MPI.LAND))
        assert receiver.is_alive()
        result = queue.fence(u).result()
    comm.Send(np.ones(1), following)
    receiver.join(30)
    celerity.configure(devices=None)
    assert received[0] == 1
    assert num_pairs >= 3
    np.testing.assert_array_equal(result, reference_wave(initial, 2 * num_pairs))
    comm.Free()
