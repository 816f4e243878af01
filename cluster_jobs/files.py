# SPDX-License-Identifier: MIT
"""Files that are whole, or not there."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file that nobody ever sees half of, not even after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    unfinished = path.parent / f".{path.name}.{socket.gethostname()}.{os.getpid()}.unfinished"
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all."""
    write_whole(path, json.dumps(value, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """The contents of a JSON file; None if it does not exist, or is not JSON."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return None
