# SPDX-License-Identifier: MIT
"""A place of its own for one mutant at a time."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants import sources
from tests.mutants.mutation import Mutation
from tests.mutants.sources import Step

#: A program that takes longer hangs: most take a fraction of a second, but others may use the processors as well.
HANG_S = 120


class Workplace:
    """A copy of a built folder. Mutants are compiled there without ninja, whose files hold the path of the original.

    A mutant leaves nothing behind: its source and its objects come from the original again.
    """

    def __init__(self, original: Path, folder: Path, steps: list[Step], threads: int) -> None:
        self._original = original
        self._folder = folder
        self._steps = steps
        self._threads = threads
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder, symlinks=True)
        self._original_libraries = self._libraries()

    @property
    def _tree(self) -> Path:
        return self._folder / "tree"

    def judge(self, mutation: Mutation, seeds: int) -> list[tuple[int, str]]:
        """Per seed: programs until a failure, `limit` + 1 if there was none; and how it failed."""
        file = self._tree / mutation.file
        read_from = str(self._original / "tree" / mutation.file)
        compilations = [step for step in self._steps if read_from in step.inputs]
        if not compilations:
            raise RuntimeError(f"nothing is compiled from {mutation.file}")
        try:
            file.write_text(mutation.apply(file.read_text()))
            self._build(compilations)
            if mutation.changes_something and self._libraries() == self._original_libraries:
                raise RuntimeError("the libraries are the same as without the mutation")
            if mutation.native_test:
                return [self._run_native(mutation)]
            return [self._survived(seed, mutation.limit) for seed in range(1, seeds + 1)]
        finally:
            shutil.copy2(self._original / "tree" / mutation.file, file)
            for step in compilations:
                shutil.copy2(self._original / "output" / step.output, self._folder / "output" / step.output)

    def _libraries(self) -> list[bytes]:
        return sources.digest_libraries(self._tree)

    def _build(self, compilations: list[Step]) -> None:
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(self._run, compilations))
        for step in self._steps:
            if not step.inputs:
                self._run(step)
        sources.install(self._folder / "output", self._tree)

    def _run(self, step: Step) -> None:
        command = step.command.replace(str(self._original), str(self._folder))
        finished = subprocess.run(
            command, shell=True, check=False, capture_output=True, text=True, cwd=self._folder / "output"
        )
        if finished.returncode != 0:
            raise RuntimeError(f"the mutant does not compile:\n{finished.stdout}{finished.stderr}")

    def _run_native(self, mutation: Mutation) -> tuple[int, str]:
        program = self._folder / "output" / "native_tests" / mutation.native_test
        finished = subprocess.run([program], check=False, capture_output=True, text=True, timeout=HANG_S)
        if finished.returncode == 0:
            return mutation.limit + 1, "survived"
        return 1, (finished.stderr.splitlines() or ["crashes"])[0]

    def _survived(self, seed: int, limit: int) -> tuple[int, str]:
        # -S: an editable installation of the package would get in before PYTHONPATH
        paths = [str(self._tree), *site.getsitepackages()]
        command = [sys.executable, "-S", "-m", "tests.mutants.probe", str(seed), str(limit)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        started, found = 0, "crashes"
        with subprocess.Popen(
            command, cwd=self._tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
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
        if started == 0:
            raise RuntimeError(f"no program starts in {self._tree}: {' '.join(command)}")
        if is_hanging.is_set():
            return started, "hangs"
        return (limit + 1, "survived") if probe.returncode == 0 else (started, found)
