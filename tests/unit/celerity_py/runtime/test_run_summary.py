# SPDX-License-Identifier: MIT
"""The summary of a run by LOG_LEVEL=info, and the notice about buffers that are allocated again and again."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.configuration import resolve
from celerity_py.errors import ResourceError
from celerity_py.executor.network.local_communicator import LocalCommunicator
from celerity_py.runtime import native_objects, runtime
from celerity_py.runtime.devices import Devices
from celerity_py.runtime.run_summary import (
    describe_division,
    describe_parts,
    describe_rank,
    describe_ranks,
    describe_run,
)
from tests.failures.launching import run

PROGRAM = "import celerity_py as celerity\nwith celerity.Queue() as queue: queue.wait()"


@pytest.mark.parametrize(
    ("ranks", "text"), [([1], "rank 1"), ([0, 1, 2], "ranks 0-2"), ([0, 2, 3, 7], "ranks 0, 2-3, 7")]
)
def test_ranks_are_told_as_ranges(ranks: list[int], text: str) -> None:
    assert describe_ranks(ranks) == text


def test_each_rank_tells_how_it_reaches_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        rank, size = 2, 6

    monkeypatch.setattr("celerity_py._native.cuda_device_name", lambda ordinal: f"H{ordinal}00")
    devices = Devices("cuda", 2, (1, 2), all_peers=False)
    assert describe_rank(Fake(), devices, [True, False, False, True, False, False]) == (  # type: ignore[arg-type]
        "Rank 2 drives GPU 1 (H100), GPU 2 (H200), which do not all reach each other's memory. It exchanges data by "
        "direct transfers with ranks 0, 3 and messages of MPI with ranks 1, 4-5."
    )


def test_a_gpu_tells_how_it_may_be_divided_and_how_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celerity_py._native.cuda_division", lambda ordinal: (132, 8, 8))
    assert describe_division(3) == "GPU 3 has 132 multiprocessors: queues may have a share of 8 or more, in steps of 8"

    def refuse(_: int) -> Any:
        raise RuntimeError("the CUDA driver is too old")

    monkeypatch.setattr("celerity_py._native.cuda_division", refuse)
    assert describe_division(0) == "GPU 0 has no parts for Queue(multiprocessors=...): the CUDA driver is too old"
    parts = [{"share": 32, "rest": 100}, {"share": 16, "rest": 92}]
    assert describe_parts(1, Devices("cuda", 2, (0, 2)), parts, 4) == (
        "Rank 1 gives 32 of the 132 multiprocessors of GPU 0, 16 of the 108 multiprocessors of GPU 2 to queues of "
        "priority 4, and the rest to all others."
    )


@pytest.mark.parametrize(
    ("num_ranks", "transport", "ways"),
    [(None, "auto", ""), (2, "direct", "direct transfers with rank "), (2, "host", "messages of MPI with rank ")],
)
def test_a_run_tells_what_it_has_found_and_chosen(num_ranks: int | None, transport: str, ways: str) -> None:
    variables = {"CELERITY_LOG_LEVEL": "info", "CELERITY_TRANSPORT": transport, "CELERITY_DEVICES": "cpu:3"}
    outcome = run(num_ranks, sys.executable, "-c", PROGRAM, variables=variables)
    assert outcome.status == 0, outcome.errors
    count = num_ranks or 1
    assert outcome.errors.count(f", {count} rank(s), {count} of them on this host, ") == 1
    assert re.search(r"celerity_py \S.*, Python 3\..*; backend cpu, lookahead auto\. Settings: ", outcome.errors)
    chosen = [f"{name}={value}" for name, value in variables.items() if value != "auto"]
    assert f"{', '.join(sorted(chosen))}.\n" in outcome.errors
    assert ("MPICH" in outcome.errors or "Open MPI" in outcome.errors) == (num_ranks is not None)
    for rank in range(num_ranks or 1):
        assert f"Rank {rank} drives 3 CPU device(s)." in outcome.errors
        assert not ways or f"{ways}{1 - rank}." in outcome.errors


def test_a_run_without_gpus_tells_why() -> None:
    settings = resolve({"CELERITY_CHECK": "1", "CELERITY_DEVICES": "2"}, {})
    devices = Devices("cpu", 2, why_no_gpus="no CUDA driver")
    text = describe_run(settings, LocalCommunicator(), devices)
    assert text.endswith(" No GPUs: no CUDA driver. Settings: CELERITY_DEVICES=2, CELERITY_CHECK=1.")


def test_a_run_tells_nothing_of_that_by_default() -> None:
    assert run(None, sys.executable, "-c", PROGRAM).errors == ""


def test_a_buffer_that_is_allocated_again_and_again_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("celerity_py").propagate = True
    monkeypatch.setenv("CELERITY_LOOKAHEAD", "none")
    monkeypatch.setenv("CELERITY_DEVICES", "cpu:2")
    rows = 60
    with celerity.Queue() as queue:
        names = ("history", "other")
        buffers = [celerity.Buffer((rows, 8), np.float32, name=name) for name in names]

        def write_row(chunk: Any, *views: Any) -> None:
            for view in views:
                view[...] = 1

        for step in range(rows):
            row = access.slice(0, at=step)
            accesses = [buffer.write(row) for buffer in buffers]
            queue.parallel_for(Box((0, 0), (1, 8)), write_row, *accesses, hints=celerity.hints.split_2d())
        for buffer in buffers:
            assert queue.fence(buffer).result(20).sum() == rows * 8
    told = [record.getMessage() for record in caplog.records if "was allocated" in record.getMessage()]
    assert len(told) == len(names)
    for name in names:
        [text] = [text for text in told if f'"{name}"' in text]
        assert "times so far in " in text
        assert "CELERITY_LOOKAHEAD" in text
        assert "Submitted at " in text


def test_gpus_that_cannot_be_set_up_are_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("cuDevicePrimaryCtxRetain failed: out of memory")

    monkeypatch.setattr(runtime, "choose_devices", lambda *_: Devices("cuda", 2, (4, 5)))
    monkeypatch.setattr(native_objects, "small_copy_functions", fail)
    with pytest.raises(
        ResourceError, match=r"rank 0 cannot set up its GPUs 4, 5: RuntimeError: cuDevice.* out of memory.*nvidia-smi"
    ):
        celerity.Queue()
    (tmp_path / "control").touch()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    with pytest.raises(ResourceError, match=r"Under MPS.*CUDA_DEVICE_MAX_CONNECTIONS=32: a smaller number"):
        celerity.Queue()
    monkeypatch.undo()
    with celerity.Queue() as queue:
        queue.wait()
