# SPDX-License-Identifier: MIT
"""Checkpoints of an application: it goes on from the last one, and writes one when the batch system wants it to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import frame

import celerity_py as celerity

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--checkpoint` and `--checkpoint-every`."""
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FOLDER", help="go on from the last checkpoint in FOLDER, and write more"
    )
    parser.add_argument(
        "--checkpoint-every", type=frame.positive_int, default=1000, metavar="S", help="steps between checkpoints"
    )


class Checkpoints:
    """The checkpoints of a loop over steps, if the command line asks for them. Collective."""

    def __init__(self, queue: celerity.Queue, arguments: argparse.Namespace) -> None:
        self._queue, self._every = queue, arguments.checkpoint_every
        self.folder = arguments.checkpoint
        self.restored = None
        if self.folder is not None:
            celerity.stop_requested(every=1)  # from now on a signal does not kill this process
            self.restored = celerity.restore(self.folder, missing_ok=True)
        self.first = self.restored.step if self.restored else 0  # the steps that are done already
        self.done = self.first

    def run(
        self, steps: int, submit: Callable[[int], bool | None], state: Callable[[], Mapping[str, celerity.Buffer[Any]]]
    ) -> bool:
        """Submit the steps that are left, with checkpoints between them.

        Args:
            steps: Of the whole run.
            submit: Submits so many steps; true if the loop ends with them.
            state: The buffers of a checkpoint, by name.

        Returns:
            Whether the loop has come to its end. If not, the batch system has asked for an early one, and a checkpoint
            is written.
        """
        if self.folder is None:
            submit(steps)
            return True
        before = None
        while self.done < steps:
            count = min(self._every, steps - self.done)
            if submit(count):
                return True
            self.done += count
            must_stop = celerity.stop_requested(every=1)
            buffers = state()
            celerity.checkpoint(self._queue, self.folder, buffers, step=self.done)
            # So that the program is two checkpoints ahead at most, and ends soon after a signal.
            buffer = next(iter(buffers.values()))
            mark = self._queue.fence(buffer, celerity.Box((0,) * buffer.ndim, (1,) * buffer.ndim))
            if before is not None:
                before.result()
            before = mark
            if must_stop and self.done < steps:
                self._queue.barrier()
                if celerity.is_master():
                    print(f"Stopped after {self.done} of {steps} steps. Start it again: it goes on from {self.folder}.")
                return False
        return True
