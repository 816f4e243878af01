# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import pytest

from celerity_py.executor.failures.failure import Failure, decode_failure, identity_of, make_failure
from celerity_py.executor.network.communicator import NOTICE_LIMIT_BYTES


@pytest.mark.parametrize("character", ["x", '"', "\n", "\u00e4", "\u6f22", "\U0001f30d", "\ud800"])
def test_a_failure_of_whatever_characters_fits_into_a_notice_and_keeps_what_it_can(character: str) -> None:
    text, task, site = "E: " + character * 9000, "task " + character * 900, character * 900 + "/program.py:12"
    failure = Failure(3, text, task, site, identity=identity_of(KeyError()))
    content = failure.encode()
    assert 0.9 * NOTICE_LIMIT_BYTES < len(content) <= NOTICE_LIMIT_BYTES
    told = decode_failure(content)
    assert failure.text.startswith(told.text)
    assert len(told.text) > 200
    assert failure.task.startswith(told.task)
    assert failure.site.endswith(told.site)
    assert told.site.endswith("/program.py:12")


LONG = "\U0001f30d" * 9000


class SilentError(ValueError):
    def __reduce__(self) -> tuple[Any, ...]:
        raise MemoryError


def told_by_another_rank(error: BaseException) -> Failure:
    return decode_failure(make_failure(1, error, identity=identity_of(error)).encode())


def raised(error: BaseException, *, elsewhere: bool = False) -> BaseException:
    try:
        if elsewhere:
            raise error
        raise error
    except type(error) as caught:
        return caught


def test_a_failure_repeats_an_exception_of_the_same_class_contents_and_line() -> None:
    assert told_by_another_rank(raised(ValueError(LONG))).repeats(raised(ValueError(LONG)))
    assert told_by_another_rank(raised(OSError(2, "gone", "a"))).repeats(raised(OSError(2, "gone", "a")))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ValueError(LONG + "1"), ValueError(LONG + "2")),
        (ValueError("1"), ValueError(1)),
        (ValueError("1"), TypeError("1")),
        (OSError(2, "gone", "a"), OSError(2, "gone", "b")),
        (SilentError("1"), SilentError("1")),
    ],
)
def test_a_failure_does_not_repeat_what_tells_more_than_the_beginning_of_its_text(
    one: BaseException, other: BaseException
) -> None:
    assert not told_by_another_rank(raised(one)).repeats(raised(other))


def test_a_failure_repeats_neither_what_another_line_has_raised_nor_what_a_task_has() -> None:
    assert not told_by_another_rank(raised(KeyError(1))).repeats(raised(KeyError(1), elsewhere=True))
    assert not decode_failure(make_failure(1, raised(KeyError(1)), task="step").encode()).repeats(raised(KeyError(1)))


def test_a_short_failure_is_told_in_full() -> None:
    told = decode_failure(Failure(1, "E: \u6f22", "step", "program.py:3", exit_status=7).encode())
    assert (told.rank, told.text, told.task, told.site, told.exit_status) == (1, "E: \u6f22", "step", "program.py:3", 7)
