# SPDX-License-Identifier: MIT
"""A scheduler that plans WaveSim as the first of some ranks with four devices each; nothing is executed."""

from __future__ import annotations

from celerity_py import Box, _native, access
from cluster_jobs.benchmarks.internals import _native_testing

DEVICES = 4
_READ, _WRITE, _READ_WRITE = range(3)


class WavePlanner:
    """Two buffers of `size`² cells, both filled.

    Args:
        ranks: How many there are.
        size: Of the buffers.
        run_ahead: Horizons by which submits may be ahead of planning.
        is_open: Whether the thread plans from the beginning.
    """

    def __init__(self, ranks: int, size: int, run_ahead: int, *, is_open: bool = True) -> None:
        planning = _native.PlanningSettings(
            num_ranks=ranks,
            rank=0,
            num_devices=DEVICES,
            user_device_peers=False,
            lookahead="auto",
            horizon_step=4,
            horizon_max_parallelism=64,
        )
        self.native = _native.Scheduler(planning, None, run_ahead=run_ahead)
        _native_testing.set_paused(self.native, not is_open)
        self.native.start()
        self._whole = _native.Task.kernel(Box((0, 0), (size, size)))
        self._own, self._halo = access.one_to_one(), access.neighborhood(1, 1, shape="axes")
        infos = [_native.BufferInfo(shape=(size, size), element_size=4, name=name) for name in ("u", "u_next")]
        self._buffers = [self.native.create_buffer(info) for info in infos]
        for buffer in self._buffers:
            self._submit("fill", (buffer, _WRITE, self._own))

    def _submit(self, name: str, *accesses: tuple[int, int, _native.RangeMapper]) -> None:
        task = _native_testing.with_accesses(self._whole, list(accesses), name)
        _native_testing.submit_task(self.native, task)

    def step(self) -> None:
        """Submit a step."""
        u, u_next = self._buffers
        self._submit("step", (u_next, _READ_WRITE, self._own), (u, _READ, self._halo))
        self._buffers.reverse()

    def finish(self) -> float:
        """Wait until all is planned, and end the thread; the seconds for which it was busy."""
        self.native.wait_until_planned()
        self.native.stop()
        return float(self.native.statistics()["busy_s"])
