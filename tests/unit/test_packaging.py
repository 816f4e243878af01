# SPDX-License-Identifier: MIT
"""What is installed, and what importing it costs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import celerity_py.configuration

ROOT = Path(__file__).parents[2]
EXTENSION = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
HEADER = "cuda/celerity_device.cuh"

# Everything that is installed. A new module is added here, and to its layer in pyproject.toml ([tool.importlinter]).
INSTALLED = {
    "celerity_py": """
        __init__ access agreement arguments buffer call_checks completion configuration cuda_compilation
        cuda_contexts cuda_execution cuda_launches cuda_signatures custom_mappers devices digests
        empty_reductions errors execution executor_delegate fill_patterns forks futures hints host_objects
        index_spaces kept_arrays kernel_folder kernels lifecycle log mapper_identity mapping native_objects notation
        origins outer_variables outputs parts plain_values planning_notices queue read_checks reducers reductions
        refused_operators run_summary runtime small_copies spinning start_watch statistics submissions
        submit_memos trace tracing type_rules user_memory views violations
    """,
    "celerity_py/executor": """
        __init__ communicator delegate direct_peers failure failure_handler flag interpreter launcher
        leftovers live_executor local_communicator missing_attributes mpi_communicator mpi_library native_failures
        pacing program_activity program_comparison progress_watchdog quantities silent_peers
        strided_layout uncaught_exceptions user_frames
    """,
    "celerity_py/scheduler": "__init__ errors",
}


def test_each_module_of_the_tree_is_expected_in_the_wheel() -> None:
    for folder, modules in INSTALLED.items():
        assert {path.stem for path in (ROOT / folder).glob("*.py")} == set(modules.split())


def _python(code: str, *, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("package", ["scheduler", "executor"])
def test_importing_a_layer_by_its_folder_name_is_refused(package: str) -> None:
    result = _python(f"import {package}")
    assert result.returncode != 0
    assert f"ImportError: import this package as 'celerity_py.{package}', not as '{package}'" in result.stderr


def test_importing_celerity_py_loads_neither_mpi_nor_cuda_and_starts_no_thread() -> None:
    result = _python(
        "import sys, threading, celerity_py, celerity_py.scheduler, celerity_py.executor\n"
        "print([name for name in ('mpi4py.MPI', 'cupy', 'matplotlib', 'rich') if name in sys.modules])\n"
        "print(threading.active_count(), len(list(__import__('pathlib').Path('/proc/self/task').iterdir())))"
    )
    assert result.returncode == 0, result.stderr
    loaded, threads = result.stdout.splitlines()
    assert loaded == "[]"
    python_threads, native_threads = map(int, threads.split())
    assert python_threads == 1
    numpy_only = _python("import numpy; print(len(list(__import__('pathlib').Path('/proc/self/task').iterdir())))")
    assert native_threads <= int(numpy_only.stdout)  # numpy's BLAS starts its own


def test_the_readme_explains_every_setting_that_can_be_made() -> None:
    documented = re.findall(r"^\| `([A-Z_]+[A-Z])` \|", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    table = celerity_py.configuration._TABLE
    usable = [name for name, variable in table.items() if variable.available is None or len(variable.available) > 1]
    assert documented == usable


def test_the_package_requires_what_it_imports_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]}  # type: ignore[index]
    sources = [
        path.read_text() for folder in INSTALLED for path in (ROOT / folder.removeprefix("celerity_py/")).glob("*.py")
    ]
    imported = {name for text in sources for name in re.findall(r"^\s*(?:import|from) (\w+)", text, flags=re.MULTILINE)}
    foreign = (
        imported - set(sys.stdlib_module_names) - {"celerity_py", "cupy"}
    )  # CuPy is an extra, looked for at run time
    assert required == foreign


@pytest.mark.skipif(importlib.util.find_spec("scikit_build_core") is None, reason="the build backend is not installed")
def test_a_wheel_holds_the_python_files_and_the_extension_and_nothing_else(tmp_path: Path) -> None:
    # In the folder and the way of the editable installation of `make test`, so that nothing is compiled again.
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "."]
    command += ["--wheel-dir", str(tmp_path), "--config-settings=cmake.build-type=RelWithDebInfo"]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {f"{folder}/{module}.py" for folder, modules in INSTALLED.items() for module in modules.split()}
    assert names == expected | {f"celerity_py/{name}" for name in (EXTENSION, "_native.pyi", "py.typed", HEADER)}
    assert "abi3" not in wheel.name
