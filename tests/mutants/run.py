# SPDX-License-Identifier: MIT
"""Builds deliberately broken cores, and requires that random programs find each of them.

    python tests/mutants/run.py [--only TEXT ...] [--seeds 3]

The sources are copied once and built in one folder, so that a mutant costs a few files. Prints how many programs each
mutant survived; a mutant that survives 500, or its own limit, is a failure.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants.mutations import MUTATIONS, Mutation  # noqa: E402  (run as a script, the tests are no package)

FOLDER = ROOT / "build" / "mutants"
TREE = FOLDER / "tree"
LIMIT = 500
#: A program that takes longer hangs: most take a fraction of a second, but others may use the processors as well.
HANG_S = 120
COPIED = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "scheduler", "executor", "celerity_py", "tests")


def prepare() -> None:
    """A fresh copy of the sources; files that did not change keep their time, so that builds stay incremental."""
    keep = {path.relative_to(TREE) for path in TREE.rglob("*") if path.is_file()} if TREE.exists() else set()
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
            write(TREE / relative, path.read_bytes())
    for relative in keep:
        if relative.suffix not in (".so", ".pyc"):
            (TREE / relative).unlink()
    for name in ("scheduler", "executor"):
        link = TREE / "celerity_py" / name
        if not link.is_symlink():
            link.symlink_to(Path("..") / name)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def build() -> None:
    """Configures once, then builds what changed."""
    output = FOLDER / "output"
    command = ["cmake", "-S", str(TREE), "-B", str(output), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"]
    command += ["-DCMAKE_BUILD_TYPE=Release", "-DCELERITY_WERROR=OFF", "-DCELERITY_TESTING=ON"]
    if not (output / "build.ninja").exists():
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    finished = subprocess.run(
        ["cmake", "--build", str(output), "--target", "_native", "_native_testing"],
        check=False,
        capture_output=True,
        text=True,
    )
    if finished.returncode != 0:
        raise SystemExit(f"the mutant does not compile:\n{finished.stdout}")
    for library in output.glob("_native*.so"):
        shutil.copy2(library, TREE / "celerity_py")


def survived(seed: int, limit: int = LIMIT) -> tuple[int, str]:
    """Programs until a failure, `limit` + 1 if there was none; and how it failed."""
    # -S: an editable installation of the package would get in before PYTHONPATH
    paths = [str(TREE), sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]]
    command = [sys.executable, "-S", "-m", "tests.mutants.probe", str(seed), str(limit)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    started, found = 1, "crashes"
    with subprocess.Popen(
        command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as probe:
        is_hanging = threading.Event()

        def watch() -> threading.Timer:
            timer = threading.Timer(HANG_S, lambda: (is_hanging.set(), probe.kill()))
            timer.start()
            return timer

        assert probe.stdout is not None
        timer = watch()
        for line in map(str.strip, probe.stdout):
            timer.cancel()
            if line.isdigit():
                started = int(line)
            elif line.startswith("found"):
                found = line
            timer = watch()
        timer.cancel()
    if is_hanging.is_set():
        return started, "hangs"
    return (limit + 1, "survived") if probe.returncode == 0 else (started, found)


def judge(mutation: Mutation, seeds: int) -> tuple[float, str]:
    original = (ROOT / mutation.file).read_text()
    changed = original
    for old, new in ((mutation.old, mutation.new), *mutation.more):
        if original.count(old) != 1:
            raise SystemExit(f'"{mutation.name}": {old!r} occurs {original.count(old)} times in {mutation.file}')
        changed = changed.replace(old, new)
    target = TREE / mutation.file
    target.write_text(changed)
    try:
        build()
        results = [survived(seed, mutation.limit) for seed in range(1, seeds + 1)]
    finally:
        target.write_text(original)
    return statistics.median(count for count, _ in results), results[0][1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="run the mutants whose name contains one of these")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if any(text in mutation.name for text in options.only)]
    prepare()
    build()
    count, how = survived(1)
    if count <= LIMIT:
        raise SystemExit(f"without any mutation program {count} fails already: {how}")
    missed = []
    for mutation in chosen:
        start = time.monotonic()
        median, how = judge(mutation, options.seeds)
        if median > mutation.limit:
            missed.append(mutation.name)
        print(f"{median:6.0f} programs  {time.monotonic() - start:5.1f} s  {mutation.name}: {how}", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
