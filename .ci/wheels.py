# SPDX-License-Identifier: MIT
"""Builds the source distribution and the wheels in dist/: `python .ci/wheels.py 3.11 3.12` (`make wheel`).

The wheels are built from the source distribution, by zig, and run on every x86-64 Linux with the glibc that they name.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
GLIBC = (2, 28)
PLATFORM = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"
#: The parts of glibc. Whatever else an extension needed would have to come with the wheel, or be found at run time.
_ALLOWED_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
_EXTENSION = re.compile(r"celerity_py/_native\.cpython-\d+-x86_64-linux-gnu\.so")
#: Where pyenv and uv put interpreters, below the home folder.
_INTERPRETERS = (".pyenv/versions/{0}.*/bin/python{0}", ".local/share/uv/python/cpython-{0}*/bin/python{0}")
_ASK_INTERPRETER = (
    "import pathlib, sys, sysconfig; "
    "assert sys.implementation.name == 'cpython' and not sysconfig.get_config_var('Py_GIL_DISABLED'); "
    "print('%d.%d' % sys.version_info[:2], pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists())"
)


def find_interpreter(version: str, *, with_headers: bool) -> Path | None:
    """A CPython of this version, such as "3.11": on PATH, from pyenv or from uv."""
    on_path = shutil.which(f"python{version}")
    found = [Path(on_path)] if on_path else []
    for pattern in _INTERPRETERS:
        found += sorted(Path.home().glob(pattern.format(version)))
    for path in found:
        answer = subprocess.run([path, "-c", _ASK_INTERPRETER], capture_output=True, text=True, check=False)
        if answer.stdout.split() in ([version, "True"], *([] if with_headers else [[version, "False"]])):
            return path
    return None


def find_faults(wheel: Path) -> list[str]:
    """What keeps a wheel from running on a machine with the oldest glibc and without a compiler."""
    faults = [] if wheel.name.endswith(f"-{PLATFORM}.whl") else [f"its platform is not {PLATFORM}"]
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if re.search(r"\.so(\.|$)", name)]
        if len(libraries) != 1 or not _EXTENSION.fullmatch(libraries[0]):
            faults.append(f"its libraries are {', '.join(libraries) or 'none'}, not the extension alone")
        for name in libraries:
            elf = ELFFile(BytesIO(archive.read(name)))
            faults += [f"{name} {fault}" for fault in _find_faults_of_library(elf)]
    return faults


def _find_faults_of_library(elf: ELFFile) -> list[str]:
    needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
    faults = [f"needs {library}" for library in sorted(needed - _ALLOWED_LIBRARIES)]
    versions = elf.get_section_by_name(".gnu.version_r")
    for library, symbols in versions.iter_versions() if versions else ():
        for symbol in symbols:
            match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", symbol.name)
            if not match or (int(match[1]), int(match[2])) > GLIBC:
                faults.append(f"needs {symbol.name} of {library.name}")
    return faults


def _run(*command: str | Path, **environment: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env=os.environ | environment, cwd=ROOT)


def build_source_distribution() -> Path:
    """Make the source distribution in dist/, and unpack it into build/wheels/source, whose path is returned."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    _run(sys.executable, "-m", "build", "--sdist", "--outdir", BUILD, ".")
    (archive,) = BUILD.glob("*.tar.gz")
    release = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(BUILD, filter="data")
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("celerity_py-*"):
        if not old.name.startswith(f"{release}-"):
            old.unlink()  # of another version, or the last archive
    shutil.move(archive, DIST / archive.name)
    # A path without the version, so that ccache knows the sources again.
    return (BUILD / release).rename(BUILD / "source")


def write_zig_commands(folder: Path) -> None:
    """Write scripts that start zig's commands, under their usual names."""
    zig = distribution("ziglang").locate_file("ziglang/zig")
    target = f"-target x86_64-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    folder.mkdir(exist_ok=True)
    for name, command in {"clang++": f"c++ {target}", "ar": "ar", "ranlib": "ranlib"}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{zig}" {command} "$@"\n')
        (folder / name).chmod(0o755)


def link_debian_headers(interpreter: Path, folder: Path) -> str:
    """Return the flags for zig with which an interpreter's Python.h finds all its parts.

    Debian keeps pyconfig.h elsewhere, and includes it relative to /usr/include. There zig must not look, for the
    headers of this machine's glibc are there. A link in the folder leads to the part of Python alone.
    """
    question = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('MULTIARCH'), sep='|')"
    answer = subprocess.run([interpreter, "-c", question], capture_output=True, text=True, check=True).stdout.strip()
    headers, multiarch = answer.split("|")
    part = Path(headers).parent / multiarch / Path(headers).name
    if not part.exists():
        return ""
    link = folder / "headers" / multiarch / part.name
    link.parent.mkdir(parents=True)
    link.symlink_to(part)
    return f"-isystem {shlex.quote(str(folder / 'headers'))}"


def build_wheel(interpreter: Path, version: str, source: Path) -> Path:
    """Build the wheel of one CPython from the unpacked source distribution, and check it. Returns its path in dist/."""
    folder = BUILD / version
    _run(interpreter, "-m", "venv", folder / "venv")
    write_zig_commands(BUILD / "commands")
    _run(
        *(folder / "venv" / "bin" / "python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder / "linked"),
        *("--config-settings", f"build-dir={folder / 'build'}", source),
        ZIG_COMMANDS=str(BUILD / "commands"),
        CXXFLAGS=link_debian_headers(interpreter, folder),
        CMAKE_TOOLCHAIN_FILE=str(ROOT / ".ci" / "zig.cmake"),
        CCACHE_COMPILERTYPE="clang",
        CCACHE_COMPILERCHECK=f"string:zig {distribution('ziglang').version}",  # not the script, whose time is new
    )
    (linked,) = (folder / "linked").glob("*.whl")
    _run("auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "--wheel-dir", folder / "repaired", linked)
    (repaired,) = (folder / "repaired").glob("*.whl")
    if faults := find_faults(repaired):
        sys.exit("\n".join(f"{repaired.name}: {fault}" for fault in faults))
    return Path(shutil.move(repaired, DIST / repaired.name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="of CPython, such as 3.11")
    asked = parser.parse_args().versions
    interpreters = {version: find_interpreter(version, with_headers=True) for version in asked}
    unpacked = build_source_distribution()
    for version, interpreter in interpreters.items():
        if interpreter:
            print(build_wheel(interpreter, version, unpacked))
    if missing := [version for version, interpreter in interpreters.items() if interpreter is None]:
        sys.exit(
            f"No wheel for CPython {', '.join(missing)}: there is no such interpreter on PATH, in ~/.pyenv or with uv"
            f" that has headers. Install it, such as by 'uv python install {missing[0]}'."
        )
