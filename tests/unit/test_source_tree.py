# SPDX-License-Identifier: MIT
"""Layering and size of the sources, checked on their text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORES = ("scheduler/core", "executor/core")
# The rooms of each core, from below: a file sees its own room and those before it.
ROOMS = {
    "scheduler/core": ("base", "geometry", "vocabulary", "graphs", "instruction_graph", "replay", "pipeline"),
    "executor/core": (
        *("threads", "events", "memory", "network", "processes", "engine", "devices", "transfers"),
        *("backends/cpu", "backends/cuda", "dispatch", "runs", "loop"),
    ),
}
# The parts of the scheduler that the executor sees: data types, not its generators.
SHARED_ROOMS = {"base", "geometry", "vocabulary"}
SHARED_HEADERS = {"scheduler/core/graphs/program_log.hpp"}

SUFFIXES = (".py", ".cpp", ".hpp", ".cuh", ".js")
MAX_LINES = 500
MAX_FUNCTION_LINES = 60
# File -> why it may be longer.
LONGER_FILES = {
    "celerity_py/queue.py": "the methods of one class, most of whose lines are docstrings",
    "tests/mutants/scheduler_mutations.py": "a list, with a few lines per mutation",
    "tests/unit/celerity_py/cuda/device_header_check.cpp": "one program, so that tests compile the device header once",
}

# Tests of the repository as a whole, beside the folders of `tests/unit`.
TESTS_OF_THE_WHOLE = {
    *("architecture_pages", "class_sizes", "import_circles", "packaging", "parity"),
    *("pictures", "reference", "releases", "source_tree"),
}


def _sources(*suffixes: str) -> list[Path]:
    folders = ("celerity_py", "scheduler", "executor", "tests", "cluster_jobs")
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    )


def test_unit_tests_lie_in_the_folders_of_the_rooms_that_they_test() -> None:
    unit = ROOT / "tests/unit"
    assert {path.stem.removeprefix("test_") for path in unit.glob("test_*.py")} == TESTS_OF_THE_WHOLE
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")} - {Path()}
    rooms = {folder: [ROOT / folder, ROOT / folder.parts[0] / "core" / Path(*folder.parts[1:])] for folder in folders}
    assert [folder for folder, places in rooms.items() if not any(place.is_dir() for place in places)] == []


def _includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*([<"][^>"]+)[>"]', path.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("core", CORES)
def test_the_cores_know_neither_python_nor_mpi_nor_a_cuda_header(core: str) -> None:
    foreign = re.compile(r"[<\"](Python\.h|nanobind/|mpi\.h|cuda\.h|cuda_runtime|cupy|nccl)")
    offenders = [
        f"{path.relative_to(ROOT)} includes {include[1:]}"
        for path in sorted((ROOT / core).rglob("*.?pp"))
        for include in _includes(path)
        if foreign.match(include)
    ]
    assert not offenders


def _own_includes(core: str) -> list[tuple[Path, Path]]:
    """Each file of a core with each file of this tree that it includes, named from its room, its core or the root."""
    pairs = []
    for path in sorted((ROOT / core).rglob("*.?pp")):
        for include in (include[1:] for include in _includes(path) if include[0] == '"'):
            (found,) = (base / include for base in (path.parent, ROOT / core, ROOT) if (base / include).exists())
            pairs.append((path.relative_to(ROOT), found.relative_to(ROOT)))
    return pairs


@pytest.mark.parametrize("core", CORES)
def test_a_room_of_a_core_includes_only_itself_and_the_rooms_below(core: str) -> None:
    rooms = [f"{core}/{room}" for room in ROOMS[core]]
    assert {str(path.parent.relative_to(ROOT)) for path in (ROOT / core).rglob("*.?pp")} == set(rooms)
    offenders = [
        f"{path} includes {included}"
        for path, included in _own_includes(core)
        if included.is_relative_to(core) and rooms.index(str(included.parent)) > rooms.index(str(path.parent))
    ]
    assert not offenders


def test_the_scheduler_core_includes_only_itself() -> None:
    assert not [pair for pair in _own_includes("scheduler/core") if not pair[1].is_relative_to("scheduler/core")]


def test_the_executor_core_sees_only_the_data_types_of_the_scheduler() -> None:
    offenders = [
        f"{path} includes {included}"
        for path, included in _own_includes("executor/core")
        if not included.is_relative_to("executor/core")
        and included.parent not in {Path("scheduler/core") / room for room in SHARED_ROOMS}
        and str(included) not in SHARED_HEADERS
    ]
    assert not offenders


def _imports(path: Path) -> set[str]:
    """The names imported when the file runs: not those below `if TYPE_CHECKING`."""
    names: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        nodes.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize(("layer", "below"), [("scheduler", ("scheduler",)), ("executor", ("executor", "scheduler"))])
def test_a_layer_imports_only_itself_and_what_lies_below(layer: str, below: tuple[str, ...]) -> None:
    allowed = tuple(f"celerity_py.{name}" for name in (*below, "_native"))
    offenders = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / layer).rglob("*.py"))
        for name in sorted(_imports(path))
        if name.startswith("celerity_py") and not name.startswith(allowed)
    ]
    assert not offenders


def test_one_module_imports_mpi() -> None:
    importers = {
        str(path.relative_to(ROOT))
        for folder in ("celerity_py", "scheduler", "executor")
        for path in (ROOT / folder).rglob("*.py")
        if any(name.startswith(("mpi4py.MPI", "mpi4py.util")) for name in _imports(path))
    }
    assert importers == {"executor/network/mpi_library.py"}


def test_one_module_reads_the_settings() -> None:
    read = re.compile(r"""(?:environ(?:\.get|\.pop|\.setdefault)?|getenv)[\[(]\s*f?["']_?CELERITY_""")
    assert read.search('os.environ.get("CELERITY_POLL")') is not None
    readers = {
        str(path.relative_to(ROOT))
        for folder in ("celerity_py", "scheduler", "executor")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SUFFIXES and read.search(path.read_text())
    }
    assert readers <= {"celerity_py/configuration.py"}


def test_no_file_is_longer_than_a_reader_takes_in() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in _sources(*SUFFIXES)}
    longer = {path: count for path, count in lines.items() if count > MAX_LINES}
    assert {path: count for path, count in longer.items() if path not in LONGER_FILES} == {}
    assert set(longer) == set(LONGER_FILES), "an exception that is not needed"


def test_no_python_function_is_longer_than_a_screen() -> None:
    offenders = []
    for path in _sources(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
                documented = docstring.end_lineno - docstring.lineno + 1 if docstring and docstring.end_lineno else 0
                lines = (node.end_lineno or node.lineno) - node.lineno + 1 - documented
                name = f"{path.relative_to(ROOT)}:{node.name}"
                if lines > MAX_FUNCTION_LINES:
                    offenders.append((lines, name))
    assert not offenders


def test_no_block_of_cupy_sets_the_device() -> None:
    """Leaving one makes a context on the first GPU; see `cuda/contexts.py`."""
    for folder in ("celerity_py", "scheduler", "executor"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert "with cupy.cuda.Device(" not in text.replace("`with cupy.cuda.Device(n)`", ""), path
            assert "setDevice(" not in text, path
