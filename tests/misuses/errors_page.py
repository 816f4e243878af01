# SPDX-License-Identifier: MIT
"""Writes docs/errors.md, with the message of each misuse: `python -m tests.misuses.errors_page`.

`--run N` runs misuse N in this process and prints its message, as the program would see it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.misuses.misuse import PRELUDE, Misuse
from tests.misuses.misuses import MISUSES, WITHOUT_PROGRAM

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "errors.md"
WIDTH = 140
LONGEST_END_S = 20
EVERYWHERE = {"CELERITY_BACKEND": "cpu", "CELERITY_DEVICES": "cpu:1"}
ALL = [misuse for several in MISUSES.values() for misuse in several]

#: A line with a message: of an exception, in the log, or of the module `warnings`.
_MESSAGE = re.compile(
    r"^(?:MESSAGE |celerity_py (?=WARNING)|app\.py:\d+: (?=CelerityWarning))(.*)$", flags=re.MULTILINE
)

INTRODUCTION = f"""\
# Messages of errors

Each section shows a mistake and its message. [What is checked, and what is not](limits.md) lists the rules.
[Understand a failure](how_to/debugging.md#understand-a-failure) tells what to do next. `make errors-page` writes this
page: it runs all programs.

Every program is a file `app.py`, which uses the names of `prelude.py`. It runs on one CPU device per rank, unless a
setting says otherwise.

```python
{PRELUDE.strip()}
```
"""


def message_of(misuse: Misuse) -> str:
    """Run a misuse in processes of its own, and return the text that the program gets to see."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("CELERITY_", "PMI", "OMPI_"))}
    environment = kept | EVERYWHERE | misuse.variables | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.misuses.errors_page", "--run", str(ALL.index(misuse))]
    if misuse.ranks > 1:
        # Otherwise the launcher kills all ranks as soon as one has died.
        several = ["sh", "-c", f"{shlex.join(command)} || sleep {LONGEST_END_S}"]
        mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert mpiexec is not None, "the page needs an mpiexec: pip install mpich"
        command = [mpiexec, "-n", str(misuse.ranks), *several]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    texts = _MESSAGE.findall(run.stdout + run.stderr)
    assert texts, f"{misuse.title}: no message\n{run.stdout}{run.stderr}"
    return _without_chance(min(texts))  # several ranks: that of the first one


def section_of(misuse: Misuse, message: str) -> str:
    """The section of the page."""
    variables = " ".join(f"{name}={text}" for name, text in misuse.variables.items())
    lines = [f"### {misuse.title}", ""]
    if misuse.ranks > 1 or variables:
        launcher = f"mpirun -n {misuse.ranks} " if misuse.ranks > 1 else ""
        lines += ["```console", f"$ {variables}{' ' if variables else ''}{launcher}python app.py", "```", ""]
    if misuse.program:
        lines += ["```python", _source(misuse.program), "```", ""]
    return "\n".join([*lines, "```text", textwrap.fill(message, WIDTH, break_long_words=False), "```", ""])


def page() -> str:
    """The whole page."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        sections = map(section_of, ALL, list(pool.map(message_of, ALL)))
    parts = [INTRODUCTION]
    for heading, several in MISUSES.items():
        parts.append(f"## {heading}\n")
        parts += [next(sections) for _ in several]
    parts.append("## Errors without a program here\n")
    parts.append("\n".join(f"* `{kind}`: {reason}." for kind, reason in sorted(WITHOUT_PROGRAM.items())) + "\n")
    return "\n".join(parts)


def _source(program: str) -> str:
    return textwrap.dedent(program).strip("\n")


def _without_chance(text: str) -> str:
    """A message without what differs from run to run: ids of processes, addresses, and folders of this machine."""
    text = text.replace(str(Path(sys.executable).parent), "/usr/bin")
    text = re.sub(r"\(MPICH [\d.]+\)", "(MPICH)", text)
    text = text.replace(", finished>", ", pending>")
    text = re.sub(r"0x[0-9a-f]+", "0x...", text)
    text = re.sub(r"\(process \d+\)", "(process 4711)", text)
    return re.sub(r"this process \(\d+\)", "this process (4712)", text)


def _run(misuse: Misuse) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec(textwrap.dedent(misuse.hidden), names)
    try:
        exec(compile(PRELUDE, "prelude.py", "exec"), names)
        exec(compile(_source(misuse.program), "app.py", "exec"), names)
        names["queue"].close()  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - of the misuse
        line = f"MESSAGE {type(error).__name__}: {error}".replace("\n", " ")
        os.write(sys.stdout.fileno(), f"{line}\n".encode())  # in one piece: another rank may print at the same moment
    if misuse.ranks > 1:
        time.sleep(LONGEST_END_S)  # the runtime ends the job
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        _run(ALL[int(sys.argv[2])])
    PAGE.write_text(page())
