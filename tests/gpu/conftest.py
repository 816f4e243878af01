# SPDX-License-Identifier: MIT
"""GPU tests run on every host that has a GPU: there, a skip is a failure, so that nothing goes unnoticed."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import celerity_py as celerity
from celerity_py import _native
from celerity_py.errors import CelerityWarning
from tests.gpu.driver_copies import find_cupti

# Read when the first context is made, which may be CuPy's and not the runtime's.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

_HERE = Path(__file__).parent
_counts = {"run": 0, "skipped": 0}
_left_out: list[str] = []


def _count_gpus() -> tuple[int, str]:
    try:
        return len(_native.cuda_device_ids()), "the CUDA driver shows no GPU"
    except RuntimeError as error:
        return 0, str(error)


NUM_GPUS, WHY_NONE = _count_gpus()
_SOME_COUNTS = sorted({count for count in (1, 2, 4, NUM_GPUS) if 1 <= count <= max(1, NUM_GPUS)})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    impossible = []
    for item in items:
        if _HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.gpu)
        several = item.get_closest_marker("several_gpus")
        module = item.get_closest_marker("needs_module")
        if NUM_GPUS == 0:
            item.add_marker(pytest.mark.skip(reason=f"no GPU is visible: {WHY_NONE}"))
        elif (
            (several is not None and NUM_GPUS < 2)
            or (module is not None and find_spec(module.args[0]) is None)
            or (item.get_closest_marker("needs_cupti") is not None and find_cupti() is None)
        ):
            impossible.append(item)
    if impossible:
        items[:] = [item for item in items if item not in impossible]
        config.hook.pytest_deselected(items=impossible)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Also of tests that the command line leaves out."""
    _left_out.extend(item.nodeid for item in items if _HERE in item.path.parents)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if NUM_GPUS > 0 and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"Skipped although this host has {NUM_GPUS} GPU(s), which counts as a failure: {report.longrepr}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        _counts["run"] += 1
    _counts["skipped"] += report.outcome == "skipped" and not hasattr(report, "wasxfail")
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if any(_counts.values()) or _left_out:
        terminalreporter.write_line(
            f"GPU tests: {_counts['run']} run, {_counts['skipped']} skipped, {len(_left_out)} left out, "
            f"on {NUM_GPUS} GPU(s)"
        )
        functions = Counter(name.partition("[")[0] for name in _left_out)
        for function, count in functions.items():
            terminalreporter.write_line(f"  left out: {function} ({count})")


class Launch:
    """Starts runtimes on GPUs with other settings than the fixture `queue`; all of them end with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._set: set[str] = set()

    def __call__(self, num_gpus: int = 1, **settings: Any) -> celerity.Queue:
        settings = {"backend": "cuda", "devices": num_gpus, **settings}
        celerity.configure(**settings)
        self._set |= settings.keys()
        return self._stack.enter_context(celerity.Queue())

    def forget(self) -> None:
        celerity.configure(**dict.fromkeys(self._set))


@pytest.fixture
def only_fused_on_one_gpu() -> Iterator[None]:
    """A fused function that Python runs is a failure, as is any other warning of the runtime."""
    celerity.configure(devices="0,")
    with warnings.catch_warnings():
        warnings.simplefilter("error", CelerityWarning)
        yield
    celerity.configure(devices=None, check=None)


@pytest.fixture
def launch() -> Iterator[Callable[..., celerity.Queue]]:
    start: Launch | None = None
    try:
        with ExitStack() as stack:
            start = Launch(stack)
            yield start
    finally:
        if start is not None:
            start.forget()


@pytest.fixture(params=_SOME_COUNTS, ids=lambda count: f"{count}gpu")
def num_gpus(request: pytest.FixtureRequest) -> int:
    """From one to all of them."""
    return int(request.param)


@pytest.fixture
def queue(num_gpus: int, launch: Launch) -> celerity.Queue:
    """A fresh runtime on one or more GPUs."""
    return launch(num_gpus)
