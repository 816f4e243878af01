# SPDX-License-Identifier: MIT
"""CELERITY_ variables and celerity.configure."""

from __future__ import annotations

import dataclasses

import pytest

from celerity_py import configuration
from celerity_py.configuration import DeviceChoice, MemoryBudget, configure, resolve
from celerity_py.errors import ConfigurationError, UsageError


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_settings", {})
    monkeypatch.setattr(configuration, "_running", None)


def test_without_variables_everything_has_its_documented_default() -> None:
    result = resolve({}, {})
    assert result.backend == "auto"
    assert result.devices == DeviceChoice("default", 1)
    assert (result.lookahead, result.transport, result.poll) == ("auto", "auto", "adaptive")
    assert (result.horizon_step, result.horizon_max_parallelism, result.run_ahead) == (4, 64, 16)
    assert (result.kernel_lanes, result.kernel_order, result.gpu_memory) == (12, "age", None)
    assert not any([result.check, result.bounds_check, result.sync, result.stats, result.trace])
    assert result.dry_run_ranks == 0


def test_the_configuration_cannot_be_changed_after_it_was_read() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolve({}, {}).check = True  # type: ignore[misc]


def test_variables_of_other_programs_are_ignored() -> None:
    assert resolve({"HOME": "/", "XCELERITY_FOO": "1"}, {}) == resolve({}, {})


def test_an_empty_variable_counts_as_unset() -> None:
    assert resolve({"CELERITY_TRACE": "", "CELERITY_HORIZON_STEP": " "}, {}) == resolve({}, {})


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("LOOKAHAED", "LOOKAHEAD"), ("DEVICE", "DEVICES"), ("LOGLEVEL", "LOG_LEVEL"), ("DRY_RUN_NODES", "DRY_RUN_RANKS")],
)
def test_a_misspelt_variable_is_an_error_that_suggests_the_right_name(typo: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"CELERITY_{typo}='1'.*Did you mean CELERITY_{meant}"):
        resolve({f"CELERITY_{typo}": "1"}, {})


def test_a_variable_unlike_any_other_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="Known are CELERITY_BACKEND, CELERITY_DEVICES"):
        resolve({"CELERITY_QQQQQQQQQQQQ": "1"}, {})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("LOOKAHEAD", "infinit", "one of none, auto, infinite .did you mean 'infinite'"),
        ("HORIZON_STEP", "0", "an integer from 1 to 65536"),
        ("HORIZON_STEP", "four", "an integer from 1 to 65536"),
        ("CHECK", "maybe", "expected 0 or 1"),
        ("DEVICES", "gpu:2", "cpu:4"),
        ("DEVICES", "0", "a count such as .* for GPU 0 alone '0,'"),
        ("BACKEND", "gpu", "did you mean 'cuda'"),
        ("BACKEND", "cpy", "did you mean 'cpu'"),
        ("DEVICES", "1,1", "names each device once"),
        ("DEVICES", "cpu:0", "at most 62 devices"),
        ("DEVICES", "-1", "a count such as"),
        ("KERNEL_ORDER", "paths", "one of age, path, predecessors .did you mean 'path'"),
        ("GPU_MEMORY", "101%", "a share such as '40%', or a size such as '20GB'"),
        ("GPU_MEMORY", "0%", "a share such as"),
        ("GPU_MEMORY", "20", "a share such as"),
        ("GPU_MEMORY", "20 parsec", "a share such as"),
    ],
)
def test_a_malformed_value_is_an_error_that_says_what_is_expected(name: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected) as error:
        resolve({f"CELERITY_{name}": text}, {})
    assert f"CELERITY_{name}={text}" in str(error.value)
    assert isinstance(error.value, UsageError)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("text", "choice"),
    [("2", DeviceChoice("count", 2)), ("cpu:4", DeviceChoice("cpu", 4)), (" CPU:1 ", DeviceChoice("cpu", 1))],
)
def test_devices_are_a_count_or_cpu_devices(text: str, choice: DeviceChoice) -> None:
    assert resolve({"CELERITY_DEVICES": text}, {}).devices == choice


@pytest.mark.parametrize(("text", "shown", "count"), [("0,2", "0,2 lists", 2), ("2,", "2, lists", 1)])
def test_a_list_of_devices_on_the_cpu_backend_names_the_cpu_form(text: str, shown: str, count: int) -> None:
    with pytest.raises(ConfigurationError, match=f"DEVICES={shown} GPUs.*DEVICES=cpu:{count}"):
        resolve({"CELERITY_DEVICES": text, "CELERITY_BACKEND": "cpu"}, {})


def budget(text: str) -> MemoryBudget:
    found = resolve({"CELERITY_GPU_MEMORY": text}, {}).gpu_memory
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("40%", 400), ("100 %", 1000), ("3gb", 1000), ("512MiB", 1000)],
)
def test_the_memory_of_gpus_is_bounded_by_a_share_or_a_size(text: str, num_bytes: int) -> None:
    assert budget(text).of(1000) == num_bytes


def test_a_size_of_memory_has_decimal_and_binary_units() -> None:
    sizes = [budget(text).of(10**15) for text in ("2GB", "2GiB", "3MB", "3MiB")]
    assert sizes == [2 * 10**9, 2 << 30, 3 * 10**6, 3 << 20]
    assert str(budget("2gib")) == "2GiB"


def test_cpu_devices_on_the_cuda_backend_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="BACKEND=cuda contradicts DEVICES=cpu:2"):
        resolve({"CELERITY_DEVICES": "cpu:2", "CELERITY_BACKEND": "cuda"}, {})


@pytest.mark.parametrize("name", ["stats", "trace"])
def test_stats_and_trace_take_a_switch_or_a_file_name(name: str) -> None:
    variable = f"CELERITY_{name.upper()}"
    assert getattr(resolve({variable: "1"}, {}), name) == f"celerity_{name}"
    assert getattr(resolve({variable: "out/run7"}, {}), name) == "out/run7"
    assert getattr(resolve({variable: "0"}, {}), name) == ""


def test_a_setting_in_code_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_LOOKAHEAD", "none")
    monkeypatch.setenv("CELERITY_HORIZON_STEP", "7")
    configure(lookahead="infinite", devices="cpu:2", check=True)
    result = configuration.freeze()
    assert (result.lookahead, result.horizon_step, result.check) == ("infinite", 7, True)
    assert result.devices == DeviceChoice("cpu", 2)


def test_a_typo_in_the_environment_is_found_even_if_code_overrides_the_value() -> None:
    with pytest.raises(ConfigurationError, match="CELERITY_LOOKAHEAD=ato"):
        resolve({"CELERITY_LOOKAHEAD": "ato"}, {"lookahead": "none"})


def test_none_takes_a_setting_back() -> None:
    configure(horizon_step=9)
    configure(horizon_step=None)
    assert configuration.freeze().horizon_step == 4


def test_configure_validates_at_once_and_changes_nothing_on_error() -> None:
    with pytest.raises(ConfigurationError, match=r"configure\(horizon_step=0\)"):
        configure(lookahead="none", horizon_step=0)
    assert configuration.freeze().lookahead == "auto"


def test_configure_suggests_the_right_name() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown setting device='cpu:2'. Did you mean devices\?"):
        configure(device="cpu:2")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"unknown setting DEVICES=.* Did you mean devices\?"):
        configure(DEVICES="cpu:2")  # type: ignore[call-arg]


def test_configure_after_the_start_comes_too_late() -> None:
    configuration.freeze()
    with pytest.raises(ConfigurationError, match="before the first Buffer or Queue"):
        configure(check=True)
    configuration.thaw()
    configure(check=True)


def test_configure_after_the_start_accepts_the_values_that_the_runtime_has() -> None:
    configure(horizon_step=9)
    configuration.freeze()
    configure(horizon_step=9, check=False, devices=None)
    with pytest.raises(
        ConfigurationError, match=r"configure\(horizon_step\) .* with horizon_step=9\. .*restart the kernel"
    ):
        configure(horizon_step=8, check=False)
    with pytest.raises(ConfigurationError, match="horizon_step"):
        configure(horizon_step=None)
    configuration.thaw()
    assert configuration.freeze().horizon_step == 9


def test_sequences_and_numbers_are_devices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERITY_BACKEND", raising=False)
    configure(devices=3)
    assert configuration.freeze().devices == DeviceChoice("count", 3)
    configuration.thaw()
    configure(devices=[2])
    assert configuration.freeze().devices == DeviceChoice("list", 1, (2,))


def test_a_communicator_comes_from_code_only() -> None:
    with pytest.raises(ConfigurationError, match=r"CELERITY_COMM=world is not understood.*configure\(comm=comm\)"):
        resolve({"CELERITY_COMM": "world"}, {})
    with pytest.raises(ConfigurationError, match=r"configure\(comm='world'\) is not understood: expected an intracomm"):
        configure(comm="world")  # type: ignore[arg-type]
