# SPDX-License-Identifier: MIT
"""A rank of a program that is planned and never executed, with the log that ranks compare."""

from __future__ import annotations

from typing import Any

from celerity_py import _native, _native_testing, access, hints
from celerity_py._native import Box, ProgramLog, RangeMapper, Task

RANKS = 2
READ, WRITE = 0, 1


class Planned:
    """A rank that plans and executes nothing."""

    def __init__(self, rank: int = 0) -> None:
        self.log = ProgramLog(RANKS)
        planning = _native.PlanningSettings(
            num_ranks=RANKS,
            rank=rank,
            num_devices=1 + rank,  # ranks may have different numbers of devices
            lookahead="none",
            horizon_step=4,
            horizon_max_parallelism=64,
            program=self.log,
        )
        self.scheduler = _native.Scheduler(planning, None, run_ahead=1000)
        self.scheduler.start()

    def __enter__(self) -> Planned:
        return self

    def __exit__(self, *_: object) -> None:
        self.scheduler.stop()

    def buffer(self, shape: tuple[int, ...] = (8,), dtype: str = "float32", name: str = "u", contents: int = 0) -> int:
        info = _native.BufferInfo(
            shape=shape,
            element_size=4,
            alignment=4,
            name=name,
            type_name=dtype,
            contents_digest=contents,
            site=7,
        )
        return self.scheduler.create_buffer(info)

    def kernel(self, buffer: int, mapper: RangeMapper | None = None, **options: Any) -> None:
        where = options.pop("box", Box((0,), (8,)))
        mode = options.pop("mode", WRITE)
        origin = options.pop("origin", (1, 2))
        name = options.pop("name", "step")
        division = tuple(options.pop(key, value) for key, value in hints.Division()._asdict().items())
        accesses = [(buffer, mode, mapper or access.one_to_one())]
        task = Task.kernel(where, division=division, origin=origin, **options)
        _native_testing.submit_task(self.scheduler, _native_testing.with_accesses(task, accesses, name))

    def latest(self) -> tuple[int, int]:
        self.scheduler.wait_until_planned()
        return self.log.latest
