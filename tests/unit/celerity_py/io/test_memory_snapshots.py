# SPDX-License-Identifier: MIT
"""Checkpoints in memory, of which `celerity-py run --restarts` sets the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.errors import CelerityWarning, UsageError
from celerity_py.io import checkpoints
from celerity_py.io.checkpoints import CheckpointWriter

VALUES = np.arange(6.0)


def test_a_snapshot_that_nobody_keeps_is_warned_of_and_not_written(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(VALUES)
    with pytest.warns(
        CelerityWarning, match=r'got "memory" and writes nothing: nobody keeps it\. Start the program by'
    ):
        celerity.checkpoint(queue, "memory", {"u": u}, step=1)
    assert celerity.restore("memory", missing_ok=True) is None
    with pytest.raises(UsageError, match=r"Nobody keeps snapshots in memory for this run\. Start the program by"):
        celerity.restore("memory")


def test_memory_keeps_the_newest_snapshot_and_what_was_restored(tmp_path: Path) -> None:
    celerity.configure(snapshots=str(tmp_path), backend="cpu")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(VALUES)
        for step in (1, 2, 3):
            celerity.checkpoint(queue, "memory", {"u": u}, step=step)
        queue.barrier()
        assert [path.name for path in tmp_path.iterdir()] == ["step-000000000003"]
        restored = celerity.restore("memory")
        assert restored.step == 3
        celerity.checkpoint(queue, "memory", {"u": u}, step=4)
        np.testing.assert_array_equal(queue.fence(restored["u"]).result(), VALUES)
        with pytest.raises(UsageError, match=rf"{tmp_path} has no complete checkpoint of step 7\."):
            celerity.restore("memory", step=7)


def test_a_folder_may_have_the_name_memory(
    queue: celerity.Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    celerity.checkpoint(queue, Path("memory"), {"u": celerity.Buffer.from_array(VALUES)}, step=1)
    queue.barrier()
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]
    assert celerity.restore("./memory").step == 1


def test_ranks_of_several_hosts_have_no_snapshots_in_memory(
    queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    u = celerity.Buffer.from_array(VALUES)
    monkeypatch.setattr(queue._runtime, "size", 4)
    calls: tuple[Any, ...] = (
        lambda: celerity.checkpoint(queue, "memory", {"u": u}, step=1),
        lambda: celerity.restore("memory"),
    )
    for call in calls:
        with pytest.raises(UsageError, match="whose 4 ranks lie on several hosts, 1 of them on that of rank 0"):
            call()
    monkeypatch.undo()


def test_snapshots_on_another_host_than_that_of_the_launcher_are_refused(tmp_path: Path) -> None:
    celerity.configure(snapshots=str(tmp_path / "run"))
    with (
        celerity.Queue() as queue,
        pytest.raises(UsageError, match=r"run of celerity-py run is not on \S+, the host of"),
    ):
        celerity.checkpoint(queue, "memory", {"u": celerity.Buffer.from_array(np.zeros(4))}, step=1)


def test_full_memory_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SHARED_MEMORY", tmp_path)
    writer = CheckpointWriter(tmp_path / "run", {}, {"step": 1, "ranks": 1}, 1, set())
    (tmp_path / "run").touch()
    with pytest.raises(celerity.CelerityError, match=rf"cannot make .*Snapshots need room in {tmp_path}: see df -h"):
        writer.begin(1)
