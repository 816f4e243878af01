# SPDX-License-Identifier: MIT
"""Checkpoints: complete or not there, restored on any number of ranks and devices."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, ResourceError, UsageError
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.io import checkpoints
from celerity_py.io.checkpoints import CheckpointWriter
from celerity_py.io.writing import Share, rows_of
from tests.support import killed_checkpoints

VALUES = np.arange(60.0).reshape(10, 6)
RECORDS = np.array([(1.5, (2, 3)), (4.5, (5, 6))], dtype=[("a", "<f4"), ("b", "<i8", (2,))])


@celerity.kernel
def increase(chunk: Any, u: Any) -> None:
    u[chunk.box] += 1


class Log:
    def __init__(self) -> None:
        self.steps: list[int] = []

    def state(self) -> dict[str, Any]:
        return {"steps": list(self.steps)}


def note(part: Any, step: int, log: Any) -> None:
    log.steps.append(step)


def test_a_program_goes_on_from_its_checkpoint(queue: celerity.Queue, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checkpoints"
    u = celerity.Buffer.from_array(VALUES, name="u")
    given: dict[str, Any] = {
        "u": u,
        "matrices": celerity.Buffer.from_array(VALUES.reshape(5, 4, 3), element=(4, 3)),
        "records": celerity.Buffer.from_array(RECORDS),
        "dt": celerity.Buffer.from_array(np.array(0.5)),
        "nothing": celerity.Buffer((0, 4), np.int8),
        "log": celerity.HostObject(Log()),
        "pair": celerity.HostObject((1, "a")),
        "none": celerity.HostObject(None),
    }
    for step in range(1, 6):
        queue.parallel_for(u.shape, increase, u.read_write(access.one_to_one()))
        queue.host_task(note, step, given["log"].side_effect())
        celerity.checkpoint(queue, folder, given, step=step, attrs={"seed": 7}, keep=3)
    queue.barrier()
    assert sorted(path.name for path in folder.iterdir()) == [f"step-{step:012}" for step in (3, 4, 5)]
    for wanted in (None, 4):
        restored = celerity.restore(folder, step=wanted)
        assert (restored.step, restored.attrs) == (wanted or 5, {"seed": 7})
        assert set(restored) == set(given)
        np.testing.assert_array_equal(queue.fence(restored["u"]).result(), VALUES + restored.step)
        np.testing.assert_array_equal(queue.fence(restored["matrices"]).result(), VALUES.reshape(5, 4, 3))
        np.testing.assert_array_equal(queue.fence(restored["records"]).result(), RECORDS)
        assert queue.fence(restored["dt"]).result() == 0.5
        assert (restored["nothing"].shape, restored["nothing"].dtype) == ((0, 4), np.int8)
        assert queue.fence(restored["log"]).result() == {"steps": list(range(1, restored.step + 1))}
        assert queue.fence(restored["pair"]).result() == (1, "a")
        assert queue.fence(restored["none"]).result() is None


def written_by(folder: Path, size: int, objects: dict[int, Any]) -> None:
    """A checkpoint of so many ranks, with the objects of some."""
    arrays = {"u": StoredArray(VALUES.shape, VALUES.dtype), "dt": StoredArray((), np.dtype(np.float64))}
    told = {"step": 3, "ranks": size, "attrs": {}, "objects": ["log"]}
    writer = CheckpointWriter(folder, arrays, told, 2, set())
    writer.begin(1)
    for rank in range(size):
        box = rows_of(VALUES.shape, 1, (rank, rank + 1), size)
        shares = [Share("u", box, VALUES[box.slices])] if box else []
        if rank == 0:
            shares.append(Share("dt", celerity.Box((), ()), np.array(0.25)))
        writer.write(1, rank, shares, {"log": objects.get(rank)})
    writer.finish(1)


@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_one_rank_restores_what_several_have_written(queue: celerity.Queue, tmp_path: Path, size: int) -> None:
    written_by(tmp_path, size, {0: [1, 2]})
    restored = celerity.restore(tmp_path)
    np.testing.assert_array_equal(queue.fence(restored["u"]).result(), VALUES)
    np.testing.assert_array_equal(queue.fence(restored["u"], np.s_[3:7, 2:4]).result(), VALUES[3:7, 2:4])
    assert queue.fence(restored["dt"]).result() == 0.25
    assert queue.fence(restored["log"]).result() == [1, 2]


def test_objects_of_several_ranks_need_as_many_again(queue: celerity.Queue, tmp_path: Path) -> None:
    written_by(tmp_path, 2, {0: "a", 1: "b"})
    with pytest.raises(UsageError, match=r"has host objects of 2 ranks, and this run has 1\. Start as many ranks"):
        celerity.restore(tmp_path)


def test_a_checkpoint_that_is_not_complete_is_not_there(queue: celerity.Queue, tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        assert celerity.restore(folder, missing_ok=True) is None
        with pytest.raises(UsageError, match=r"has no complete checkpoint\."):
            celerity.restore(folder)
    written_by(tmp_path, 2, {})
    (tmp_path / ".step-000000000009.1.partial").mkdir()
    (tmp_path / "step-000000000008").mkdir()  # without a manifest
    assert celerity.restore(tmp_path).step == 3
    with pytest.raises(UsageError, match=r"has no complete checkpoint of step 8\."):
        celerity.restore(tmp_path, step=8)


def test_a_damaged_checkpoint_is_refused(queue: celerity.Queue, tmp_path: Path) -> None:
    written_by(tmp_path, 2, {})
    path = tmp_path / "step-000000000003"
    share = path / "u.1.npy"
    content = share.read_bytes()
    for damage in (content[:-1], b""):
        share.write_bytes(damage)
        with pytest.raises(UsageError, match=r"step-000000000003 is damaged .*Restore an earlier step"):
            celerity.restore(tmp_path)
    share.unlink()
    with pytest.raises(UsageError, match=r"is damaged .*u\.1\.npy"):
        celerity.restore(tmp_path)
    share.write_bytes(content)
    np.save(share, VALUES)
    with pytest.raises(UsageError, match=r"u\.1\.npy has the shape \(10, 6\) instead of \(5, 6\)"):
        celerity.restore(tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"layout": 99}))
    with pytest.raises(UsageError, match="has the layout 99 of another celerity_py; this one reads 1"):
        celerity.restore(tmp_path)


def test_the_folder_that_was_restored_stays_for_its_buffers(queue: celerity.Queue, tmp_path: Path) -> None:
    written_by(tmp_path, 1, {})
    restored = celerity.restore(tmp_path)
    other = celerity.Buffer.from_array(np.zeros(3))
    for step in (4, 5, 6):
        celerity.checkpoint(queue, tmp_path, {"other": other}, step=step, keep=1)
    queue.barrier()
    assert sorted(int(path.name[5:]) for path in tmp_path.iterdir()) == [3, 6]
    np.testing.assert_array_equal(queue.fence(restored["u"]).result(), VALUES)  # read now


def test_a_failed_checkpoint_leaves_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, contents: Any) -> None:
        path.write_bytes(b"some")
        raise OSError(28, "No space left on device")

    queue = celerity.Queue()
    u = celerity.Buffer.from_array(VALUES, name="u")
    celerity.checkpoint(queue, tmp_path, {"u": u}, step=1)
    queue.barrier()
    monkeypatch.setattr(checkpoints, "write_npy", refuse)
    celerity.checkpoint(queue, tmp_path, {"u": u}, step=2)
    message = (
        r'rank 0 cannot write its share of "u" to .*step-000000000002: No space left on device. Earlier checkpoint'
    )
    with pytest.raises(ResourceError, match=message):
        queue.wait()
    monkeypatch.undo()
    with celerity.Queue() as queue:
        restored = celerity.restore(tmp_path)
        assert restored.step == 1
        celerity.checkpoint(queue, tmp_path, {"u": restored["u"]}, step=2)
        queue.barrier()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000001", "step-000000000002"]


def test_mistakes_of_checkpoint(queue: celerity.Queue, tmp_path: Path) -> None:
    u = celerity.Buffer.from_array(VALUES, name="u")
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentTypeError, match=r"takes an int as step=, not 1\.5"):
        celerity.checkpoint(queue, tmp_path, {"u": u}, step=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a step from 0 on and keep= from 1 on, not step=-1 and keep=2"):
        celerity.checkpoint(queue, tmp_path, {"u": u}, step=-1)
    with pytest.raises(UsageError, match="file is no folder"):
        celerity.checkpoint(queue, tmp_path / "file", {"u": u}, step=1)
    with pytest.raises(ArgumentTypeError, match="takes buffers and host objects, but 'u' is 3"):
        celerity.checkpoint(queue, tmp_path, {"u": 3}, step=1)  # type: ignore[dict-item]
    celerity.checkpoint(queue, tmp_path, {"u": u}, step=5)
    with pytest.raises(UsageError, match=r"step=5, but .* has a checkpoint of step 5\. Steps of a folder ascend"):
        celerity.checkpoint(queue, tmp_path, {"u": u}, step=5)


_MOMENTS = """
import os, sys
from pathlib import Path
import numpy as np
from celerity_py import Box
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.io.checkpoints import CheckpointWriter
from celerity_py.io.writing import Share

folder, array = Path(sys.argv[1]), StoredArray((4, 3), np.dtype(float))

def write(step):
    told = {"step": step, "ranks": 1, "attrs": {}, "objects": ["log"]}
    writer = CheckpointWriter(folder, {"u": array}, told, 2, set())
    writer.begin(step)
    writer.write(step, 0, [Share("u", Box((0, 0), (4, 3)), np.full((4, 3), float(step)))], {"log": step})
    writer.finish(step)

def end_at(number):
    left = iter(range(number))
    sys.addaudithook(lambda event, _: next(left, None) is None and os._exit(9) if event in EVENTS else None)

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.listdir", "os.scandir"}
for step in (1, 2):
    write(step)
status, moment = 9, 0
while status:
    child = os.fork()
    if child == 0:
        end_at(moment)
        write(3 + moment)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    moment += 1
    names = sorted(path.name for path in folder.glob("step-*"))
    print(*names, flush=True)
    for name in names:
        assert set(os.listdir(folder / name)) == {"u.0.npy", "log.0.pickle", "manifest.json"}, os.listdir(folder / name)
        assert np.all(np.load(folder / name / "u.0.npy") == int(name[5:]))
    assert len(names) >= 2
"""


def test_a_checkpoint_is_whole_or_not_there_wherever_its_writer_is_killed(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", _MOMENTS, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) > 10  # moments
    assert len(set(lines)) > 3  # some before the new checkpoint is there, some after


def test_a_killed_program_goes_on_from_a_whole_state(tmp_path: Path) -> None:
    chance = random.Random(5)
    counts = killed_checkpoints.kill(tmp_path, 1, chance) + killed_checkpoints.kill(tmp_path, 1, chance)
    assert (counts["kills"], counts["wrong"]) == (2, 0)
    assert counts["restored"] >= 4
