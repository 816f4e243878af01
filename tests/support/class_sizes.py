# SPDX-License-Identifier: MIT
"""How many methods and members the classes of C++ headers have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_HEAD = re.compile(r"\b(?:class|struct) (\w+)(?: final)?(?: : [^{;()]*)? \{")
_COMMENT_OR_TEXT = re.compile(r"//[^\n]*|\"(?:[^\"\\]|\\.)*\"")
_LABEL = re.compile(r"\b(?:public|private|protected):")
_NO_MEMBER = re.compile(r"(?:template <[^;]*>\s*)?(?:using|friend|struct|class|enum|static_assert)\b")
_BODY = re.compile(r"\)[^=;]*\{\}$")


class ClassSize(NamedTuple):
    """Of one class, without the classes in it."""

    name: str
    methods: int
    members: int


def class_sizes(source: str) -> Iterator[ClassSize]:
    """Count in the text of a header."""
    text = _COMMENT_OR_TEXT.sub("", source)
    for head in _HEAD.finditer(text):
        declared = list(_declarations(text[head.end() :]))
        methods = sum("(" in _without_templates(each) for each in declared)
        yield ClassSize(head[1], methods, len(declared) - methods)


def _declarations(text: str) -> Iterator[str]:
    """The declarations up to the end of the class; "{}" stands for each body or initializer."""
    depth, declared = 0, ""
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return
        if depth == 0:
            declared += "{}" if character == "}" else character
            if character == ";" or (character == "}" and _BODY.search(declared)):
                found = _LABEL.sub("", declared).strip(" \t\n;")
                if found and not _NO_MEMBER.match(found):
                    yield found
                declared = ""


def _without_templates(declared: str) -> str:
    """The declaration up to its initializer, without the arguments of templates."""
    shorter = re.sub(r"<[^<>]*>", "", declared)
    if shorter != declared:
        return _without_templates(shorter)
    return re.split(r"=|{}", declared, maxsplit=1)[0]
