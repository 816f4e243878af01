# SPDX-License-Identifier: MIT
"""Files that cannot be written: found out at the start if possible, and a warning at the end."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.scheduler.errors import ConfigurationError
from tests.failures.launching import run

PROGRAM = """
import numpy as np
import celerity_py as celerity
with celerity.Queue() as queue:
    buffer = celerity.Buffer.from_array(np.ones(8))
    print("sum", queue.fence(buffer).result().sum())
"""


@pytest.fixture(autouse=True)
def propagate() -> None:
    logging.getLogger("celerity_py").propagate = True


def run_queue() -> float:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8, np.float64)
        queue.parallel_for(8, lambda chunk, view: view.array.fill(2), buffer.write(access.one_to_one()))
        return float(queue.fence(buffer).result().sum())


@pytest.mark.parametrize("variable", ["STATS", "TRACE"])
def test_a_folder_in_the_place_of_the_file_is_noticed_at_the_start(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.json").mkdir()
    monkeypatch.setenv(f"CELERITY_{variable}", str(tmp_path / "out.json"))
    with pytest.raises(ConfigurationError, match=rf"{variable}=.*out\.json: this is a folder"):
        celerity.Queue()


@pytest.mark.parametrize("name", ["/", ".", "..", "traces", "traces/", "new/"])
def test_a_setting_that_names_a_folder_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CELERITY_TRACE", name)
    with pytest.raises(ConfigurationError, match=rf"TRACE={name}: this is a folder\. Name a file, such as .*out\.json"):
        celerity.Queue()
    assert [path.name for path in tmp_path.rglob("*")] == ["traces"]


def test_looking_at_the_start_leaves_no_file_and_changes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_STATS", str(tmp_path / "new" / "stats.json"))
    monkeypatch.setenv("CELERITY_TRACE", str(tmp_path / "trace.json"))
    (tmp_path / "trace.json").write_text("old", encoding="ascii")
    with celerity.Queue():
        assert not list((tmp_path / "new").iterdir())
        assert (tmp_path / "trace.json").read_text(encoding="ascii") == "old"
    assert json.loads((tmp_path / "new" / "stats.json").read_bytes())["rank"] == 0
    assert json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]


@pytest.mark.parametrize(("full", "other"), [("STATS", "TRACE"), ("TRACE", "STATS")])
def test_a_full_disk_is_a_warning_and_the_other_file_is_written(
    full: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "full.json").symlink_to("/dev/full")
    monkeypatch.setenv(f"CELERITY_{full}", str(tmp_path / "full.json"))
    monkeypatch.setenv(f"CELERITY_{other}", str(tmp_path / "other.json"))
    assert run_queue() == 16
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"{full}: the file {tmp_path / 'full.json'} could not be written")
    assert "No space left on device" in warning
    assert json.loads((tmp_path / "other.json").read_bytes())
    assert run_queue() == 16, "another runtime may start"


def test_half_a_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_TRACE", str(tmp_path / "trace.json"))

    def fail(file: Path, *_: object) -> None:
        file.write_text("[1, 2", encoding="ascii")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("celerity_py.timeline.chrome._write", fail)
    assert run_queue() == 16
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_a_full_disk_does_not_fail_a_program_that_has_finished(num_ranks: int | None, tmp_path: Path) -> None:
    for name in ("out.json", "out.0.json", "out.1.json"):
        (tmp_path / name).symlink_to("/dev/full")
    variables = {"CELERITY_STATS": str(tmp_path / "out"), "CELERITY_TRACE": str(tmp_path / "out")}
    outcome = run(num_ranks, sys.executable, "-c", PROGRAM, variables=variables)
    assert outcome.status == 0, outcome.errors
    assert outcome.output.count("sum 8.0") == (num_ranks or 1)
    assert outcome.errors.count("could not be written, and is left out") == 2 * (num_ranks or 1)
