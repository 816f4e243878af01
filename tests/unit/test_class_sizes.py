# SPDX-License-Identifier: MIT
"""No class is larger than a reader can hold in mind.

Methods and members of the cores are counted in the headers; those of Python are the attributes that a class sets.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_METHODS = 40
MOST_MEMBERS = 30
# Class -> why it may have more.
ALLOWED_LARGER = {
    "driver": "a table of the driver's functions",
    "mpi_api": "a table of the functions of MPI",
    "Runtime": "connects all parts of a run, and hands them out",
}


@dataclass
class Size:
    name: str
    methods: set[str]
    members: list[str]


def _without_comments(text: str) -> str:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', "0", text)
    return re.sub(r"^\s*#[^\n]*", "", text, flags=re.MULTILINE)


def _end_of_block(text: str, start: int) -> int:
    """Behind the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("a brace is never closed")


_HEAD = re.compile(r"\b(?:class|struct)\s+(\w+)?\s*(?:final\s*)?(?::[^;{()]*)?\{")


def sizes_of(text: str) -> list[Size]:
    """The classes of a header, nested ones included."""
    text = _without_comments(text)
    found = []
    position = 0
    while head := _HEAD.search(text, position):
        if text[: head.start()].endswith("enum "):
            position = head.end()
            continue
        end = _end_of_block(text, head.end() - 1)
        body = text[head.end() : end - 1]
        found.append(_size(head.group(1) or "", body))
        found += sizes_of(body)
        position = end
    return found


def _size(name: str, body: str) -> Size:
    size = Size(name, set(), [])
    for statement in _statements(body):
        if re.match(r"(using|typedef|friend|enum|class|struct|static_assert|static constexpr|[A-Z_]+\()", statement):
            continue
        if "operator" in statement:
            if not re.search(r"operator\s*=\s*\(", statement):
                size.methods.add(statement)
        elif function := re.search(r"(~?\w+)\s*\((?!\*)", statement.split("=")[0]):
            if function.group(1) not in {name, f"~{name}"}:
                size.methods.add(statement)
        else:
            size.members += [part for part in statement.split(",") if part.strip()]
    return size


def _statements(body: str) -> list[str]:
    """The declarations of a class without the bodies of functions, default values and template arguments."""
    statements, current, position = [], "", 0
    while position < len(body):
        if body[position] == "{":
            end = _end_of_block(body, position)
            is_function = ")" in current and not re.search(r"=\s*$", current)
            position = end
            if not is_function or re.match(r"\s*[,{]", body[end:]):
                continue  # an initializer, or a nested type
            statements.append(current)
            current = ""
        elif body[position] == ";":
            statements.append(current)
            current = ""
            position += 1
        else:
            current += body[position]
            position += 1
    return [text for statement in statements if (text := _plain(statement))]


def _plain(statement: str) -> str:
    text = re.sub(r"\b(public|private|protected)\s*:(?!:)", "", statement)
    text = re.sub(r"operator\s*(<=>|<<|>>|<=|>=|<|>)", "operator+", text)
    before = ""
    while before != text:
        before, text = text, re.sub(r"(?<!\()<[^<>]*>", "", text)
    return " ".join(re.sub(r"^\s*template\s*", "", text).split())


def _all_sizes() -> list[Size]:
    headers = [path for core in ("scheduler/core", "executor/core") for path in sorted((ROOT / core).rglob("*.hpp"))]
    return [size for path in headers for size in sizes_of(path.read_text())]


def sizes_of_python(text: str) -> Iterator[Size]:
    """The classes of a module, nested ones included. Methods of the language and constants do not count."""
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(node, ast.ClassDef):
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            fields = {target for each in node.body if isinstance(each, ast.AnnAssign) for target in _names(each.target)}
            set_by_methods = {name for each in ast.walk(node) for name in _attributes_of_self(each)}
            members = {name for name in fields | set_by_methods if not name.isupper()}
            yield Size(node.name, {name for name in methods if not name.startswith("__")}, sorted(members))


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id


def _attributes_of_self(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
            yield name


def _all_sizes_of_python() -> list[Size]:
    modules = [
        path for folder in ("celerity_py", "executor", "scheduler") for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    return [size for path in modules for size in sizes_of_python(path.read_text())]


def test_sizes_are_counted_as_a_reader_would() -> None:
    (outer, inner) = sizes_of(
        """
        class outer final : public base<int> {
          public:
            outer(int a) : m_a(a) {} // no method
            int value() const { return m_a > 0 ? m_a : 0; }
            void set_callback(std::function<void(int)> callback) { m_callback = std::move(callback); }
            void set_callback(int number);
            template <typename F>
            void each(F&& f);
            struct inner {
                int a = 0, b = 0;
                friend bool operator==(const inner&, const inner&) = default;
            };
            outer& operator=(const outer&) = delete;
            static constexpr int most = 3;
          private:
            enum class kind { one, two };
            std::function<void(int)> m_callback;
            int m_a{2};
            std::map<int, inner> m_map;
        };
        """
    )
    assert (outer.name, len(outer.methods), len(outer.members)) == ("outer", 4, 3)
    assert (inner.name, len(inner.methods), len(inner.members)) == ("inner", 0, 2)


def test_methods_and_attributes_of_python_are_counted() -> None:
    (size,) = sizes_of_python(
        """
        class Counter(Base):
            total: int = 0
            LIMIT: Final = 3
            def __init__(self, step: int) -> None:
                self.step, self._seen = step, 0
                self.callback: Callable[[], None] = print
            def count(self) -> None:
                self._seen += self.step
                other.value = 1
            @property
            def seen(self) -> int:
                return self._seen
        """
    )
    assert (size.name, size.methods) == ("Counter", {"count", "seen"})
    assert sorted(size.members) == ["_seen", "callback", "step", "total"]


def test_no_class_is_too_large() -> None:
    large = {
        size.name: f"{size.name}: {len(size.methods)} methods, {len(size.members)} members"
        for size in [*_all_sizes(), *_all_sizes_of_python()]
        if len(size.methods) > MOST_METHODS or len(size.members) > MOST_MEMBERS
    }
    assert [text for name, text in large.items() if name not in ALLOWED_LARGER] == []
    assert set(large) == set(ALLOWED_LARGER), "an exception that is not needed"
