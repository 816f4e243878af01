# SPDX-License-Identifier: MIT
"""The results of the first programs of the README and the tutorial, computed by NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]


def _disc() -> Array:
    rows, columns = np.arange(256)[:, np.newaxis], np.arange(256)[np.newaxis, :]
    return (np.hypot(rows - 128, columns - 128) < 20).astype(np.float32)


def _waves(initial: Array) -> Iterator[Array]:
    """The wave after each step."""
    u, u_next = initial.copy(), initial.copy()
    while True:
        inner = u[1:-1, 1:-1]
        laplacian = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner
        u_next[1:-1, 1:-1] = 2 * inner - u_next[1:-1, 1:-1] + np.float32(0.25) * laplacian
        u, u_next = u_next, u
        yield u


def _readme() -> Array:
    initial = np.zeros((1024, 1024), dtype=np.float32)
    initial[500:524, 500:524] = 1
    return next(u for step, u in enumerate(_waves(initial), start=1) if step == 400)


def _loop() -> Array:
    return next(u for step, u in enumerate(_waves(_disc()), start=1) if step == 200)


def _decision() -> Array:
    waves = enumerate(_waves(_disc()), start=1)
    return next(u for step, u in waves if step == 2000 or (step % 100 == 0 and np.abs(u).max() < 0.3))


def _history() -> Array:
    history = np.zeros((10, 100), np.float32)
    for t in range(10):
        history[t] = 1 + history[:t].sum() / 100
    return history


#: By the name of the program.
RESULTS: Final[dict[str, Callable[[], Array]]] = {
    "readme": _readme,
    "first": _disc,
    "loop": _loop,
    "decision": _decision,
    "mapper": _history,
}
