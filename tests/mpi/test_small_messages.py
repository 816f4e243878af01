# SPDX-License-Identifier: MIT
"""Messages that travel together with their pilots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from celerity_py.executor.network.communicator import LARGEST_SMALL_BYTES
from tests.support.mpi_ports import Inbox, box_of, neighbours, receive, send_small

if TYPE_CHECKING:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

pytestmark = pytest.mark.mpi


@pytest.mark.mpi(min_size=2)
def test_small_messages_come_with_their_pilots_while_the_receiver_has_room(
    communicator: MpiCommunicator, inbox: Inbox
) -> None:
    following, preceding = neighbours(communicator)
    sources = np.arange(100) + 1000 * communicator.rank
    destinations = np.full(100, -1)
    count = 0
    while send_small(communicator, b"%d" % count, box_of(sources, following, count, (count,), (1,))):
        sources[count] = -1  # it has been copied
        count += 1
    assert 1 < count < 100
    inbox.poll_until(lambda: len(inbox.pilots) == count)
    assert inbox.pilots == [(preceding, b"%d" % i) for i in range(count)]
    receipts = [box_of(destinations, preceding, i, (i,), (1,)) for i in reversed(range(count))]
    for receipt in receipts:
        receive(communicator, receipt)
    inbox.wait(*(receipt.request for receipt in receipts))
    np.testing.assert_array_equal(destinations[:count], np.arange(count) + 1000 * preceding)
    with pytest.raises(ValueError, match=str(LARGEST_SMALL_BYTES + 1)):
        send_small(
            communicator, b"", box_of(np.zeros(10000, dtype=np.int8), following, 1, (0,), (LARGEST_SMALL_BYTES + 1,))
        )


@pytest.mark.mpi(min_size=2)
def test_small_messages_in_one_direction_only_never_run_out_of_credits(
    communicator: MpiCommunicator, inbox: Inbox
) -> None:
    value = np.zeros(1)
    if communicator.rank == 0:
        for i in range(300):
            payload = box_of(value, 1, i, (0,), (1,))
            while not send_small(communicator, b"%d" % i, payload):
                communicator.poll()
    elif communicator.rank == 1:
        for i in range(300):
            inbox.poll_until(lambda: bool(inbox.pilots))
            assert inbox.pilots.pop(0) == (0, b"%d" % i)
            receipt = box_of(value, 0, i, (0,), (1,))
            receive(communicator, receipt)
            inbox.wait(receipt.request)
