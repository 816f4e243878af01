# SPDX-License-Identifier: MIT
"""Imports in sub-interpreters, and imports after the modules were dropped from `sys.modules`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scripts import run

USE = """
with celerity.Queue() as queue:
    u = celerity.Buffer.from_array(np.ones(3))
    print("works", queue.fence(u).result(20).sum())
"""
SUB = '''
try:
    import _interpreters as interpreters  # of CPython 3.13
except ImportError:
    import _xxsubinterpreters as interpreters
text = f"""
import sys
sys.path[:] = {sys.path!r}
try:
    import celerity_py
except ImportError as error:
    print('refused', error)
"""
other = interpreters.create()
interpreters.run_string(other, text)
interpreters.destroy(other)  # one that outlives the main interpreter may end its thread without its process
'''
DROP = """
dropped = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "celerity_py"}
for name in dropped:
    del sys.modules[name]
"""
AGAIN = """
import celerity_py as again
assert again is celerity and again.Buffer is celerity.Buffer
missing = [name for name in dropped if sys.modules.get(name) is not dropped[name]]
assert not missing, missing
"""


def test_a_sub_interpreter_is_refused_and_the_main_one_goes_on(tmp_path: Path) -> None:
    outcome = run(tmp_path, SUB + USE)
    assert outcome.returncode == 0, outcome.stderr
    refusal, works = outcome.stdout.splitlines()
    assert refusal.startswith("refused celerity_py is imported in a sub-interpreter, but it works in the main interpr")
    assert works == "works 3.0"


@pytest.mark.parametrize("program", [USE + DROP + USE + AGAIN, DROP + AGAIN + USE, USE + DROP + AGAIN + USE])
def test_an_import_after_the_modules_were_dropped_gives_those_of_the_first_one(program: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, program)
    assert outcome.returncode == 0, outcome.stderr
    assert set(outcome.stdout.splitlines()) == {"works 3.0"}
