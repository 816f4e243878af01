# SPDX-License-Identifier: MIT
"""The reference has every public name, and docstrings tell a caller what there is to know."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access, errors, hints, random

PAGES: Final = Path(__file__).parents[2] / "docs" / "reference"
MODULES: Final = (access, hints, random)
#: Parts of the index space and what tasks get with them: there are no ranks to talk to inside of a task.
INSIDE_OF_TASKS: Final = (celerity.Chunk, celerity.MapperChunk, celerity.Part, celerity.Reducer, celerity.View)
_DIRECTIVE: Final = re.compile(r"^::: celerity_py\.(\S+)\n((?: +.*\n)*)", flags=re.MULTILINE)
_SECTION: Final = re.compile(r"^(Args|Attributes|Raises|Returns):\n((?: +.*\n|\n)*)", flags=re.MULTILINE)
#: The first words of a summary that names the result.
_RESULTS: Final = ("A ", "An ", "False", "Make a ", "Numbers ", "One ", "Random ", "The ", "Whether ")


class Entry(NamedTuple):
    """An object of the reference."""

    name: str
    value: Any
    members: list[str] | None  # of a class, those shown; None: all
    owner: Any = None  # the class or module whose docstring holds for it as well


def entries() -> Iterator[Entry]:
    for page in sorted(PAGES.glob("*.md")):
        for name, options in _DIRECTIVE.findall(page.read_text()):
            members = re.search(r"members: \[(.*)\]", options)
            value: Any = celerity
            for part in name.split("."):
                value = getattr(value, part)
            yield Entry(name, value, None if members is None else re.findall(r"\w+", members[1]))


def exported(module: ModuleType) -> list[str]:
    if module is errors:
        return [name for name, value in vars(errors).items() if inspect.isclass(value)]
    names: list[str] = module.__all__
    return names


def members_of(entry: Entry) -> Iterator[Entry]:
    """The parts of an entry that its page shows."""
    if inspect.ismodule(entry.value):
        for name in exported(entry.value):
            found = Entry(f"{entry.name}.{name}", getattr(entry.value, name), None, entry.value)
            yield from (found, *members_of(found))
    elif inspect.isclass(entry.value) and not issubclass(entry.value, Exception):
        names = entry.members
        if names is None:
            fields = [*getattr(entry.value, "__slots__", ()), *getattr(entry.value, "__dataclass_fields__", ())]
            names = [name for name in vars(entry.value) if not name.startswith("_") and name not in fields]
        for name in names:
            value = inspect.getattr_static(entry.value, name)
            value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            yield Entry(f"{entry.name}.{name}", value, None, entry.value)


ENTRIES = list(entries())
SHOWN = [each for entry in ENTRIES for each in (entry, *members_of(entry)) if entry.name != "__version__"]
FUNCTIONS = [entry for entry in SHOWN if isinstance(entry.value, FunctionType)]


def by_name(shown: list[Entry]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", shown, ids=[entry.name for entry in shown])


def docstring_of(value: Any) -> str:
    return inspect.getdoc(value) or ""


def sections_of(value: Any) -> dict[str, str]:
    return dict(_SECTION.findall(docstring_of(value) + "\n"))


def test_each_public_name_is_on_one_page() -> None:
    shown = [entry.name for entry in ENTRIES]
    assert len(shown) == len(set(shown))
    assert set(shown) >= {name for name in celerity.__all__ if not hasattr(errors, name)}


def test_the_first_page_lists_the_names_of_each_page() -> None:
    rows = re.findall(r"^\| \[.*?\]\((\w+\.md)\) \| (.*) \|$", (PAGES / "README.md").read_text(), flags=re.MULTILINE)
    expected = {}
    for page in set(PAGES.glob("*.md")) - {PAGES / "README.md"}:
        expected[page.name] = set[str]()
        for name, _ in _DIRECTIVE.findall(page.read_text()):
            value = getattr(celerity, name, None)
            expected[page.name] |= set(exported(value) if inspect.ismodule(value) else [name.split(".")[-1]])
    expected["errors.md"] = {"CelerityWarning"}
    assert {page: set(re.findall(r"`(\w+)`", names)) for page, names in rows} == expected


@by_name([entry for entry in ENTRIES if inspect.isclass(entry.value) and not issubclass(entry.value, Exception)])
def test_each_class_tells_a_debugger_what_its_objects_are(entry: Entry) -> None:
    assert entry.value.__repr__ is not object.__repr__


@by_name(SHOWN)
def test_each_name_has_a_docstring(entry: Entry) -> None:
    assert docstring_of(entry.value)


@by_name(FUNCTIONS)
def test_a_docstring_explains_arguments_result_and_exceptions(entry: Entry) -> None:
    signature = inspect.signature(entry.value)
    sections = sections_of(entry.value)
    arguments = [name for name in signature.parameters if name not in {"self", "cls"}]
    assert re.findall(r"^    \*{0,2}(\w+): ", sections.get("Args", ""), flags=re.MULTILINE) == arguments
    if arguments and entry.name != "Future.add_done_callback":
        assert "Raises" in sections
    if signature.return_annotation not in {None, "None"}:
        whose = docstring_of(entry.owner) if inspect.ismodule(entry.owner) else ""
        names_result = docstring_of(entry.value).startswith(_RESULTS) or "A function of this module returns" in whose
        assert names_result or "Returns" in sections


@by_name([entry for entry in SHOWN if not (inspect.isclass(entry.value) and issubclass(entry.value, Exception))])
def test_a_docstring_names_the_exceptions_that_the_body_raises(entry: Entry) -> None:
    function = entry.value.__init__ if inspect.isclass(entry.value) else getattr(entry.value, "fget", entry.value)
    if not isinstance(function, FunctionType) or dataclasses.is_dataclass(entry.value):
        return  # native, or generated
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    raised = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    assert raised <= set(re.findall(r"^    (\w+): ", sections_of(entry.value).get("Raises", ""), flags=re.MULTILINE))


@by_name([entry for entry in SHOWN if entry.owner is None and not inspect.ismodule(entry.value)])
def test_a_docstring_tells_which_threads_and_ranks_make_a_call(entry: Entry) -> None:
    text = docstring_of(entry.value)
    assert re.search(r"\bthreads?\b", text)
    if entry.value not in INSIDE_OF_TASKS and entry.value not in {Box, Region}:
        assert re.search(r"\b(collective|rank)\b", text, flags=re.IGNORECASE)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_tells_which_threads_and_ranks_make_its_calls(module: ModuleType) -> None:
    assert re.search(r"[Aa]ny thread may call", docstring_of(module))
    assert re.search(r"\branks?\b", docstring_of(module))


@by_name([entry for entry in FUNCTIONS if entry.owner is celerity.Queue or entry.name.startswith("Buffer.from")])
def test_a_call_of_the_runtime_tells_whether_it_is_collective(entry: Entry) -> None:
    assert re.search(r"Collective|Any rank may call this by itself", docstring_of(entry.value))
