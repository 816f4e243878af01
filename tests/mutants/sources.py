# SPDX-License-Identifier: MIT
"""A copy of the sources that is built once, and the commands that build parts of it again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutation import NATIVE_TESTS

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "scheduler", "executor", "celerity_py", "tests")
TARGETS = ("_native", "_native_testing", *NATIVE_TESTS)


@dataclass(frozen=True)
class Step:
    """A command of the build, to be run in the output folder."""

    command: str
    output: str
    #: Of a compilation: the absolute paths that it reads. Empty for archives and links.
    inputs: frozenset[str]


def copy_sources(tree: Path) -> None:
    """Brings `tree` up to date; files that did not change keep their time, so that builds stay incremental."""
    keep = {path.relative_to(tree) for path in tree.rglob("*") if path.is_file()} if tree.exists() else set()
    for name in COPIED:
        source = ROOT / name
        files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
        for path in files:
            relative = path.relative_to(ROOT)
            if (
                "__pycache__" in path.parts
                or path.suffix == ".so"
                or any(parent.is_symlink() for parent in path.parents)
            ):
                continue
            keep.discard(relative)
            write(tree / relative, path.read_bytes())
    for relative in keep:
        if relative.suffix not in (".so", ".pyc"):
            (tree / relative).unlink()
    for name in ("scheduler", "executor"):
        link = tree / "celerity_py" / name
        if not link.is_symlink():
            link.symlink_to(Path("..") / name)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def build(tree: Path, output: Path) -> list[Step]:
    """Builds the extension modules and puts them into the tree. Returns the steps, each behind those it needs."""
    if not (output / "build.ninja").exists():
        command = ["cmake", "-S", str(tree), "-B", str(output), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"]
        command += ["-DCMAKE_BUILD_TYPE=Release", "-DCELERITY_WERROR=OFF", "-DCELERITY_TESTING=ON"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    run_ninja(output, *TARGETS)
    install(output, tree)
    outputs = {entry["command"]: entry["output"] for entry in json.loads(run_ninja(output, "-t", "compdb"))}
    inputs = read_inputs(run_ninja(output, "-t", "deps"), output)
    commands = run_ninja(output, "-t", "commands", *TARGETS).splitlines()
    return [Step(command, outputs[command], inputs.get(outputs[command], frozenset())) for command in commands]


def run_ninja(output: Path, *arguments: str) -> str:
    command = ["cmake", "--build", str(output), "--", "--quiet", *arguments]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{finished.stdout}{finished.stderr}")
    return finished.stdout


def read_inputs(table: str, output: Path) -> dict[str, frozenset[str]]:
    """The files that each object depends on, from ninja's table of them, where a path may be relative to `output`."""
    inputs = {}
    for block in table.split("\n\n"):
        head, *files = block.splitlines() or [""]
        name = head.partition(": #deps")[0]
        if name.endswith(".o"):  # some versions of CMake list the inputs of links as well
            inputs[name] = frozenset(os.path.normpath(output / file.strip()) for file in files)
    return inputs


def digest_libraries(tree: Path) -> list[bytes]:
    """Of the extension modules that programs import."""
    return [hashlib.sha256(library.read_bytes()).digest() for library in sorted(tree.glob("celerity_py/_native*.so"))]


def install(output: Path, tree: Path) -> None:
    for library in output.glob("_native*.so"):
        shutil.copy2(library, tree / "celerity_py")
