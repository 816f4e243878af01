# SPDX-License-Identifier: MIT
"""The installed files, and the cost of importing them."""

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
HEADERS = (
    *(f"cuda/celerity_{name}.cuh" for name in ("device", "operations", "random", "reducers")),
    "cuda/small_copies.cuh",
    *(f"cuda/small_operations/{name}.cuh" for name in ("any", "copy", "dot", "fill")),
    "executor/core/devices/kernel_layouts.cuh",
    "fusion/fused_folds.cuh",
    "fusion/fused_operations.cuh",
    "fusion/fused_random.cuh",
    "fusion/fused_tiles.cuh",
    "fusion/fused_types.cuh",
    "reductions/cuda_reductions.cuh",
    "reductions/ordered_reductions.cuh",
)
PAGE = "tools/report/page.html", "tools/report/page.css", "tools/report/page.js"

# Everything that is installed. A new module is added here, and to its layer in pyproject.toml ([tool.importlinter]).
INSTALLED = {
    "celerity_py": """
        __init__ __main__ access buffer configuration errors fences fused_functions halo_checks hints host_objects
        kernels loops queue random recordings recovery redistribution single_import small_operations
    """,
    "celerity_py/calls": """
        __init__ binder call_checks divided_calls fill_patterns indices kept_arrays named_paths
        outer_variables padding places reached_values repeatable_functions views
    """,
    "celerity_py/tools/cli": """
        __init__ bind_rank completion demo dry_run fuse graph info launcher_process launchers main picture planned_run
        report restarts run trace words
    """,
    "celerity_py/comparison": "__init__ agreement mapper_identity program_digests pure_tables value_digests",
    "celerity_py/cpu": "__init__ compilation folds operations random_numbers",
    "celerity_py/cuda": """
        __init__ binder compilation contexts device_arrays launches library_streams mixed_arrays
        signatures small_copies turns
    """,
    "celerity_py/formats": "__init__ choice disk hdf5 libraries npy stored_arrays zarr_folders",
    "celerity_py/fusion": """
        __init__ array_folds arrays calls coordinates cpu_emission cpu_folds cpu_kernels emission folds functions
        interiors item_emission kernels launches lowering memories mistakes nodes operations ordering planning plans
        random_arrays reducers row_emission scalars storages stores structures tables tiling trace type_questions walks
    """,
    "celerity_py/io": """
        __init__ checkpoints loading memory_snapshots progress publishing restoring saving stops writing
    """,
    "celerity_py/kept_kernels": "__init__ kernel_folder results",
    "celerity_py/reductions": """
        __init__ combinations cuda_reductions empty_reductions host_combination host_reducers operations
        ordered_reductions partial_results reduction
    """,
    "celerity_py/tools": "__init__ fused_listing progress_bars step_counter",
    "celerity_py/graphs": "__init__ drawing explanations graphs nodes reading recorder stories",
    "celerity_py/tools/report": """
        __init__ advice analysis comparison critical_path instructions intervals levels make markup measures page
        runs words
    """,
    "celerity_py/runtime": """
        __init__ chance_orders closed collective_groups devices draining dry_results executor_delegate fence_submits
        forks futures initial_contents lifecycle live_view log native_objects outputs planning_notices profiling
        run_state run_summary runtime shares spinning statistics submissions_in_flight user_memory
    """,
    "celerity_py/submit": """
        __init__ arguments custom_mappers deep_halos delegate fused_forms fused_targets plain_values violations
    """,
    "celerity_py/timeline": "__init__ chrome reading recorder tracks",
    "celerity_py/vocabulary": """
        __init__ accesses buffer_records buffer_shapes foreign_arrays frozen_arrays gathered_rows hidden_mistakes
        index_spaces integers notation parameters parts refused_operators side_effects static_types submissions tables
        type_rules
    """,
    "celerity_py/executor": "__init__ delegate interpreter_settings live_executor quantities thread_flag",
    "celerity_py/executor/failures": """
        __init__ failure failure_handler forked_calls missing_attributes native_failures told_errors uncaught_exceptions
        user_frames
    """,
    "celerity_py/executor/network": """
        __init__ attendance communicator communicator_choice direct_peers launch_detection local_communicator
        mpi_communicator mpi_library pacing rank_process
    """,
    "celerity_py/executor/watch": """
        __init__ blocked_calls ended_processes leftovers program_activity program_comparison progress_watchdog
        silent_peers
    """,
    "celerity_py/scheduler": "__init__ errors",
}


def test_each_module_of_the_tree_is_expected_in_the_wheel() -> None:
    layers = {"celerity_py": "celerity_py", "celerity_py/executor": "executor", "celerity_py/scheduler": "scheduler"}
    found = {
        f"{installed}/{path.relative_to(ROOT / folder)}"
        for installed, folder in layers.items()
        for path in (ROOT / folder).rglob("*.py")
        if not {"executor", "scheduler"} & set(path.relative_to(ROOT / folder).parts)
    }
    assert found == {f"{folder}/{module}.py" for folder, modules in INSTALLED.items() for module in modules.split()}


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


def test_the_version_of_the_package_is_that_of_the_project_and_heads_the_changelog() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert celerity_py.__version__ == version
    releases = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert releases[:2] == ["Unreleased", version]


def test_a_page_explains_every_setting_that_can_be_made() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    documented = re.findall(r"^\| `([A-Z_]+[A-Z])` \|", page, flags=re.MULTILINE)
    assert documented == list(celerity_py.configuration._TABLE)


def test_the_package_requires_what_it_imports_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]}  # type: ignore[index]
    sources = [path.read_text() for folder in INSTALLED for path in (ROOT / folder).glob("*.py")]
    imported = {name for text in sources for name in re.findall(r"^\s*(?:import|from) (\w+)", text, flags=re.MULTILINE)}
    # CuPy, rich and numba are extras, looked for at run time; type checkers bring typing_extensions,
    # and notebooks IPython.
    extras = {"cupy", "rich", "numba", "llvmlite", "typing_extensions", "IPython"}
    assert required == imported - set(sys.stdlib_module_names) - {"celerity_py"} - extras


def test_the_command_starts_the_function_of_the_command_line() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    ((name, target),) = scripts.items()
    assert name == "celerity-py"
    module, function = target.split(":")
    result = _python(f"import {module}; {module}.{function}(['--version'])")
    assert result.stdout == f"celerity_py {celerity_py.__version__}\n"


def _unity_of_last_build() -> str:
    """ON if `make test` compiles several files at a time, as CI does."""
    caches = sorted((ROOT / "build").glob("cp*/CMakeCache.txt"), key=lambda path: path.stat().st_mtime)
    found = re.search(r"^CMAKE_UNITY_BUILD:\w+=(\w+)$", caches[-1].read_text() if caches else "", flags=re.MULTILINE)
    return found.group(1) if found else "OFF"


@pytest.mark.skipif(importlib.util.find_spec("scikit_build_core") is None, reason="the build backend is not installed")
def test_a_wheel_holds_the_python_files_and_the_extension_and_nothing_else(tmp_path: Path) -> None:
    # In the folder and the way of the editable installation of `make test`, so that nothing is compiled again.
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "."]
    command += ["--wheel-dir", str(tmp_path), "--config-settings=cmake.build-type=RelWithDebInfo"]
    command += [f"--config-settings=cmake.define.CMAKE_UNITY_BUILD={_unity_of_last_build()}"]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {f"{folder}/{module}.py" for folder, modules in INSTALLED.items() for module in modules.split()}
    assert names == expected | {
        f"celerity_py/{name}" for name in (EXTENSION, "_native.pyi", "py.typed", *HEADERS, *PAGE)
    }
    assert "abi3" not in wheel.name
