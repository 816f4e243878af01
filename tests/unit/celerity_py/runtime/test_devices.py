# SPDX-License-Identifier: MIT
"""Which GPUs a rank drives, decided by all ranks of a run together."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from celerity_py import _native
from celerity_py.configuration import resolve
from celerity_py.runtime import devices
from celerity_py.scheduler.errors import ConfigurationError

FOUR = ["a", "b", "c", "d"]


class Host:
    """Ranks on one host, each with given devices."""

    def __init__(self, rank: int, visible: list[list[str]]) -> None:
        self.rank = self.local_rank = rank
        self.size = self.local_size = len(visible)
        self.local_ranks = tuple(range(len(visible)))
        self._visible = visible

    def exchange(self, data: bytes) -> list[bytes]:
        mine = json.loads(data)
        everyone = [[gpus, "" if gpus else "nothing there", mine[2]] for gpus in self._visible]
        everyone[self.rank] = mine
        return [json.dumps(item).encode() for item in everyone]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Any:
    def choose(rank: int, visible: list[list[str]], **environment: str) -> devices.Devices:
        gpus = visible[rank]
        monkeypatch.setattr(devices, "_visible_gpus", lambda: (gpus, "" if gpus else "nothing there"))
        monkeypatch.setattr(_native, "cuda_probe", lambda ordinals: (True, 0, [0] * len(ordinals) ** 2))
        settings = resolve({f"CELERITY_{name}": text for name, text in environment.items()}, {})
        return devices.choose_devices(settings, Host(rank, visible))  # type: ignore[arg-type]

    return choose


def test_one_rank_drives_all_gpus(choose: Any) -> None:
    assert choose(0, [FOUR]) == devices.Devices("cuda", 4, (0, 1, 2, 3))


@pytest.mark.parametrize("rank", range(2))
def test_the_gpus_of_a_host_are_divided_among_its_ranks(choose: Any, rank: int) -> None:
    assert choose(rank, [FOUR, FOUR]).ordinals == ((0, 1), (2, 3))[rank]


def test_an_uneven_division_leaves_none_out(choose: Any) -> None:
    assert [choose(rank, [FOUR] * 3).ordinals for rank in range(3)] == [(0,), (1,), (2, 3)]


def test_gpus_that_the_launcher_has_divided_are_not_divided_again(choose: Any) -> None:
    assert choose(1, [["a"], ["b"]]).ordinals == (0,)


@pytest.mark.parametrize(
    ("visible", "are_shared"),
    [
        ([FOUR], False),
        ([FOUR, FOUR], False),
        ([["a"], ["b"]], False),
        ([["a", "b"]] * 3, True),
        ([["a", "b"], ["b", "a"]], True),
        ([["a", "b"], ["c", "d"]], False),
        ([["a", "b"], ["c", "a"]], True),
    ],
)
def test_a_rank_knows_whether_others_use_its_gpus(choose: Any, visible: list[list[str]], are_shared: bool) -> None:
    assert choose(0, visible).are_shared == are_shared


def test_more_ranks_than_gpus_take_turns_and_say_so(choose: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert [choose(rank, [["a", "b"]] * 3).ordinals for rank in range(3)] == [(0,), (1,), (0,)]
    assert "3 ranks share the 2 GPU(s)" in caplog.text


def test_a_list_names_gpus_of_the_host(choose: Any) -> None:
    assert [choose(rank, [FOUR, FOUR], DEVICES="3,1").ordinals for rank in range(2)] == [(3,), (1,)]


def test_a_listed_gpu_that_does_not_exist_is_named(choose: Any) -> None:
    with pytest.raises(ConfigurationError, match="names the GPU 7, but rank 0 sees only 4"):
        choose(0, [FOUR], DEVICES="0,7")


def test_a_count_is_that_of_the_host(choose: Any) -> None:
    assert [choose(rank, [FOUR, FOUR], DEVICES="2").ordinals for rank in range(2)] == [(0,), (1,)]
    with pytest.raises(ConfigurationError, match="DEVICES=5 asks for more GPUs than rank 0 sees: 4"):
        choose(0, [FOUR, FOUR], DEVICES="5")


def test_without_gpus_the_cpu_is_used(choose: Any) -> None:
    assert choose(0, [[]]) == devices.Devices("cpu", 1)


def test_a_list_without_gpus_names_the_cpu_form(choose: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"DEVICES=1, lists GPUs.*DEVICES=cpu:1"):
        choose(0, [[]], DEVICES="1,")


def test_gpus_on_some_ranks_only_are_not_used(choose: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert choose(0, [FOUR, []]).backend == "cpu"
    assert "Only 1 of 2 ranks see a GPU" in caplog.text


def test_cuda_where_one_rank_has_none_is_an_error_everywhere(choose: Any) -> None:
    with pytest.raises(ConfigurationError, match="BACKEND=cuda cannot be used on rank 1: nothing there"):
        choose(0, [FOUR, []], BACKEND="cuda")


def test_cpu_devices_are_not_gpus(choose: Any) -> None:
    assert choose(0, [FOUR], DEVICES="cpu:3") == devices.Devices("cpu", 3)


@pytest.mark.parametrize(
    ("num_ranks", "environment", "count"),
    [
        (1, {}, 2),
        (2, {}, 1),
        (1, {"DEVICES": "cpu:1"}, 1),
        (1, {"DEVICES": "1"}, 1),
        (1, {"DRY_RUN_RANKS": "4"}, 1),
        (1, {"CHECK": "0"}, 1),
    ],
)
def test_one_rank_that_everything_is_checked_of_has_two_cpu_devices(
    choose: Any, num_ranks: int, environment: dict[str, str], count: int
) -> None:
    chosen = choose(0, [[]] * num_ranks, **{"CHECK": "1", **environment})
    assert (chosen.backend, chosen.count) == ("cpu", count)


@pytest.mark.parametrize(
    ("is_running", "given", "expected"), [(True, None, "8"), (False, None, "32"), (True, "4", "4")]
)
def test_processes_that_share_a_gpu_by_mps_share_its_hardware_queues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_running: bool, given: str | None, expected: str
) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    if is_running:
        (tmp_path / "control").touch()
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", given or "")  # so that the variable is put back in the end
    if given is None:
        del os.environ["CUDA_DEVICE_MAX_CONNECTIONS"]
    devices._visible_gpus()
    assert os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] == expected
