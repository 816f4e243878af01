# SPDX-License-Identifier: MIT
"""docs/errors.md shows each kind of error, with the message that a program gets today."""

from __future__ import annotations

import re

import pytest

from tests.misuses.errors_page import ALL, INTRODUCTION, PAGE, message_of, section_of
from tests.misuses.misuse import Misuse
from tests.misuses.misuses import WITHOUT_PROGRAM, kinds_of_errors

STALE = "`make errors-page` writes docs/errors.md anew"


def test_each_kind_of_error_has_a_program_or_a_reason() -> None:
    shown = {kind for misuse in ALL for kind in misuse.kinds}
    assert not shown & WITHOUT_PROGRAM.keys()
    assert shown | WITHOUT_PROGRAM.keys() == kinds_of_errors()


def test_the_page_has_the_sections_of_the_programs_and_no_others() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^### (.*)$", text, flags=re.MULTILINE) == [misuse.title for misuse in ALL], STALE
    assert text.startswith(INTRODUCTION), STALE
    for kind, reason in WITHOUT_PROGRAM.items():
        assert f"* `{kind}`: {reason}." in text, STALE


@pytest.mark.parametrize("misuse", [pytest.param(misuse, id=misuse.title) for misuse in ALL])
def test_the_page_shows_the_message_of_today(misuse: Misuse) -> None:
    message = message_of(misuse)
    expected = "WARNING" if misuse.kinds[0].startswith("PlanningNotice") else misuse.kinds[0]
    assert message.startswith(f"{expected}: "), message
    if misuse.ranks == 1:  # otherwise chance decides which rank finds the mistake
        assert section_of(misuse, message) in PAGE.read_text(), STALE
