# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from celerity_py.executor.failures.failure import Failure, decode_failure, describe_error
from celerity_py.executor.network.communicator import NOTICE_LIMIT_BYTES


@pytest.mark.parametrize("character", ["x", '"', "\n", "\u00e4", "\u6f22", "\U0001f30d", "\ud800"])
def test_a_failure_of_whatever_characters_fits_into_a_notice_and_keeps_what_it_can(character: str) -> None:
    failure = Failure(3, "E: " + character * 9000, "task " + character * 900, character * 900 + "/program.py:12")
    content = failure.encode()
    assert 0.9 * NOTICE_LIMIT_BYTES < len(content) <= NOTICE_LIMIT_BYTES
    told = decode_failure(content)
    assert failure.text.startswith(told.text)
    assert len(told.text) > 200
    assert failure.task.startswith(told.task)
    assert failure.site.endswith(told.site)
    assert told.site.endswith("/program.py:12")


def test_a_failure_that_was_cut_still_repeats_the_exception_of_another_rank() -> None:
    error = ValueError("\U0001f30d" * 9000)
    assert decode_failure(Failure(1, describe_error(error), error=error).encode()).repeats(error)


def test_a_short_failure_is_told_in_full() -> None:
    told = decode_failure(Failure(1, "E: \u6f22", "step", "program.py:3", exit_status=7).encode())
    assert (told.rank, told.text, told.task, told.site, told.exit_status) == (1, "E: \u6f22", "step", "program.py:3", 7)
