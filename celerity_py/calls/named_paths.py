# SPDX-License-Identifier: MIT
"""The paths that the bytecode of a function names, such as `dt`, `self.grid.dx` and `parameters["dt"]`.

A walk over the instructions in their order follows values on the stack and in local variables. It takes no branch into
account. A path that the walk loses is not found; the part up to there is.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType
from typing import Any, Final, NamedTuple

#: A step of a path: "." and a name, "[" and a key, "*" for each element of a container, "?" for some element.
Step = tuple[str, Any]
EACH: Final[Step] = ("*", None)
SOME: Final[Step] = ("?", None)
#: The longest path has so many steps.
MOST_STEPS: Final = 4

_NULL_ABOVE: Final = sys.version_info >= (3, 13)  # LOAD_GLOBAL puts the marker of a call above the function
_FAST: Final = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_CELLS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_PAIRS: Final = frozenset({"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"})
_STORED: Final = {"GLOBAL": "global", "DEREF": "cell", "ATTR": "attribute"}
_STORES: Final = {f"{verb}_{what}": kind for what, kind in _STORED.items() for verb in ("STORE", "DELETE")}


class Path(NamedTuple):
    """A variable and the steps from its value.

    Attributes:
        kind: "global", "cell" (of the function or of one around it), "parameter", or "import" in the function.
        name: The name of the variable; of an import that of the module, behind a dot per level if it is relative.
        steps: At most `MOST_STEPS`.
    """

    kind: str
    name: str
    steps: tuple[Step, ...] = ()


class NamedPaths(NamedTuple):
    """What the bytecode of a function names, with that of the functions inside of it.

    Attributes:
        read: The longest paths that it reads.
        attributes: The names of all attributes that it reads.
        stored: The kinds ("global", "cell" or "attribute") and names of the variables and attributes that it assigns.
        changed: Paths to containers and arrays of which it assigns elements.
    """

    read: tuple[Path, ...]
    attributes: frozenset[str]
    stored: frozenset[tuple[str, str]]
    changed: tuple[Path, ...]


class _Constant(NamedTuple):
    value: Any


class _Node:
    """A path on the stack. `is_whole`: it is used itself, and not only on the way to an attribute or element."""

    __slots__ = ("is_whole", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_whole = True


@functools.lru_cache(maxsize=1024)
def named_paths(code: CodeType, excluded: frozenset[CodeType] = frozenset()) -> NamedPaths:
    """Find the paths. `excluded`: functions inside of this one that do not count."""
    walk = _Walk(code)
    for instruction in dis.get_instructions(code):
        walk.take(instruction)
    read = dict.fromkeys(node.path for node in walk.nodes if node.is_whole)
    attributes, stored, changed = set(walk.attributes), set(walk.stored), list(walk.changed)
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant not in excluded:
            inner = named_paths(constant, excluded)
            for path in inner.read:
                imported = walk.imported.get(path.name) if path.kind == "cell" else None
                if imported is not None:
                    read[imported._replace(steps=(*imported.steps, *path.steps)[:MOST_STEPS])] = None
                elif path.kind == "cell" and path.name in own:
                    read[path._replace(kind="parameter")] = None
                elif path.kind != "parameter":
                    read[path] = None
            attributes |= inner.attributes
            stored |= inner.stored
            changed += [path for path in inner.changed if path.kind != "parameter"]
    return NamedPaths(tuple(read), frozenset(attributes), frozenset(stored), tuple(changed))


class _Walk:
    """One walk over the instructions of a code object."""

    def __init__(self, code: CodeType) -> None:
        self.nodes: list[_Node] = []
        self.attributes: set[str] = set()
        self.stored: set[tuple[str, str]] = set()
        self.changed: list[Path] = []
        #: The variables of functions inside of this one that have something imported.
        self.imported: dict[str, Path] = {}
        self._stack: list[_Node | _Constant | None] = []
        count = code.co_argcount + code.co_kwonlyargcount
        self._locals: dict[str, Path | None] = {name: Path("parameter", name) for name in code.co_varnames[:count]}

    def take(self, instruction: dis.Instruction) -> None:
        """Follow one instruction."""
        name, value = instruction.opname, instruction.argval
        if name in _STORES:
            self.stored.add((_STORES[name], value))
        if name == "STORE_DEREF" and isinstance(top := self._stack[-1] if self._stack else None, _Node):
            if top.path.kind == "import":
                self.imported[value] = self._locals[value] = top.path
            top.is_whole &= top.path.kind != "import"
        if name.startswith("LOAD_") and self._load(instruction):
            return
        if name in {"LOAD_ATTR", "LOAD_METHOD"}:
            self.attributes.add(value)
            self._extend(self._pop(), (".", value))
            if name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and (instruction.arg or 0) & 1):
                self._stack.append(None)
        elif name.startswith("IMPORT_"):
            self._import(name, value)
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]"):
            key = self._pop()
            self._extend(self._pop(), ("[", key.value) if isinstance(key, _Constant) else SOME)
        elif name == "STORE_SUBSCR" and len(self._stack) >= 2 and isinstance(container := self._stack[-2], _Node):
            self.changed.append(container.path)
            self._move(instruction)
        elif name == "STORE_FAST":
            top = self._pop()
            self._locals[value] = top.path if isinstance(top, _Node) else None
            if isinstance(top, _Node):
                top.is_whole = False  # the loads of the variable count
        else:
            self._move(instruction)

    def _load(self, instruction: dis.Instruction) -> bool:
        """Put a variable or constant on the stack; False if the instruction loads something else."""
        name, value = instruction.opname, instruction.argval
        if name in _GLOBALS:
            self._load_global(instruction)
        elif name in _CELLS:
            self._push(self._locals.get(value, Path("cell", value)))  # a parameter may lie in a cell
        elif name in _FAST:
            self._push(self._locals.get(value))
        elif name in _PAIRS:
            for each in value:
                self._push(self._locals.get(each))
        elif name in {"LOAD_CONST", "LOAD_SMALL_INT"}:
            self._stack.append(_Constant(value))
        else:
            return False
        return True

    def _move(self, instruction: dis.Instruction) -> None:
        name, count = instruction.opname, instruction.arg or 0
        if name == "COPY":
            self._stack.append(self._stack[-count] if count <= len(self._stack) else None)
        elif name == "SWAP":
            if count <= len(self._stack):
                self._stack[-1], self._stack[-count] = self._stack[-count], self._stack[-1]
        elif name == "FOR_ITER":
            top = self._stack[-1] if self._stack else None
            self._extend(top, EACH)
        elif name == "UNPACK_SEQUENCE":
            top = self._pop()
            for _ in range(count):
                self._extend(top, EACH)
        elif name not in {"GET_ITER", "CACHE", "RESUME", "NOP", "EXTENDED_ARG", "PRECALL"}:
            self._drop(dis.stack_effect(instruction.opcode, instruction.arg, jump=False))

    def _drop(self, effect: int) -> None:
        """An instruction that makes at most one value."""
        for _ in range(-effect):
            self._pop()
        for _ in range(effect):
            self._stack.append(None)
        if effect <= 0 and self._stack:
            self._stack[-1] = None

    def _import(self, name: str, value: str) -> None:
        if name == "IMPORT_FROM" and self._stack:
            module = self._stack[-1]
            self._extend(module, (".", value))
        elif name == "IMPORT_NAME":
            wanted, level = self._pop(), self._pop()
            dots = "." * level.value if isinstance(level, _Constant) else ""
            is_top = isinstance(wanted, _Constant) and wanted.value is None  # `import a.b` gives `a`
            self._push(Path("import", value.partition(".")[0] if is_top else dots + value))

    def _load_global(self, instruction: dis.Instruction) -> None:
        node = _Node(Path("global", instruction.argval))
        self.nodes.append(node)
        is_called = instruction.opname == "LOAD_GLOBAL" and (instruction.arg or 0) & 1
        if not is_called:
            self._stack.append(node)
        else:
            self._stack += [node, None] if _NULL_ABOVE else [None, node]

    def _push(self, path: Path | None) -> None:
        if path is None:
            self._stack.append(None)
        else:
            self.nodes.append(_Node(path))
            self._stack.append(self.nodes[-1])

    def _extend(self, value: _Node | _Constant | None, step: Step) -> None:
        if isinstance(value, _Node) and len(value.path.steps) < MOST_STEPS:
            value.is_whole = False
            self._push(value.path._replace(steps=(*value.path.steps, step)))
        else:
            self._stack.append(None)

    def _pop(self) -> _Node | _Constant | None:
        return self._stack.pop() if self._stack else None
