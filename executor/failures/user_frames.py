# SPDX-License-Identifier: MIT
"""Tracebacks that begin and end with a line of the user's program."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Final

from celerity_py.scheduler.errors import UsageError

_STANDARD_LIBRARY: Final = Path(sysconfig.get_path("stdlib"))
#: Of this Python, of the user, of Debian, or named by PYTHONPATH.
_PACKAGES: Final = {"site-packages", "dist-packages"}
_PACKAGE_FOLDERS: Final = (Path(__file__).parents[2], Path(__file__).resolve().parents[1])


def is_ours(filename: str) -> bool:
    """Whether a file is one of this package."""
    return any(Path(filename).is_relative_to(folder) for folder in _PACKAGE_FOLDERS)


def is_library(filename: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    path = Path(filename)
    return path.is_relative_to(_STANDARD_LIBRARY) or not _PACKAGES.isdisjoint(path.parts)


def name_of_file(filename: str) -> str:
    """The name of a file in messages: a cell of a notebook is "Cell In[3]", as IPython names it in tracebacks."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return filename
    try:
        kind, name = ipython.get_ipython().compile.format_code_name(filename)
    except (AttributeError, TypeError, ValueError):  # no session, another version of IPython, or no cell
        return filename
    return f"{kind} {name}"


def trim_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our frames before the program's first one and behind its last one.

    Behind the last one, the frames of libraries that ours have called are left out as well. Those of libraries that the
    program has called by itself stay. A traceback without a frame of the program stays as it is.
    """
    nodes: list[TracebackType] = []
    while trace is not None:
        nodes.append(trace)
        trace = trace.tb_next
    files = [node.tb_frame.f_code.co_filename for node in nodes]
    ours = [is_ours(file) for file in files]
    users = [index for index, file in enumerate(files) if not ours[index] and not is_library(file)]
    if not users:
        return nodes[0] if nodes else None
    first = ours.index(False)
    behind = users[-1] + 1
    end = behind if any(ours[behind:]) else len(nodes)
    result: TracebackType | None = None
    for node in reversed(nodes[first:end]):
        result = TracebackType(result, node.tb_frame, node.tb_lasti, node.tb_lineno)
    return result


def line_of_program(trace: TracebackType | None) -> str:
    """The innermost line of the program in a traceback, as "file:line"; "an unknown line" if there is none."""
    found = "an unknown line"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_ours(file) and not is_library(file):
            found = f"{name_of_file(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def trim_chain(error: BaseException) -> None:
    """Trim the tracebacks of an uncaught exception, and of the exceptions that it was raised from.

    A mistake that we found behind a call of the program, such as elements left unwritten, keeps no frame: its text
    names the line.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        trace = trim_frames(current.__traceback__)
        is_all_ours = trace is not None and is_ours(trace.tb_frame.f_code.co_filename)
        current.__traceback__ = None if is_all_ours and isinstance(current, UsageError) else trace
        current = current.__cause__ or current.__context__
