# SPDX-License-Identifier: MIT
"""Fixtures that several files use."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import celerity_py as celerity
from celerity_py import configuration
from celerity_py.errors import CelerityWarning
from tests.support.executor_harness import Harness

# Also on a host with GPUs; the tests of GPUs are in tests/gpu.
os.environ.setdefault("CELERITY_BACKEND", "cpu")


@pytest.fixture(autouse=True)
def settings_of_one_test() -> Iterator[None]:
    """What a test configures holds for no other one."""
    before = dict(configuration._settings)
    yield
    configuration._settings.clear()
    configuration._settings.update(before)


@pytest.fixture
def only_fused() -> Iterator[None]:
    """A fused function that Python runs is a failure, as is any other warning of the runtime."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CelerityWarning)
        yield


@pytest.fixture(params=[1, 3])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    """On one device, and on three with separate memories."""
    celerity.configure(devices=f"cpu:{request.param}", horizon_step=2)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, horizon_step=None)


@pytest.fixture
def harness() -> Iterator[Callable[..., Harness]]:
    made: list[Harness] = []

    def make(**options: Any) -> Harness:
        made.append(Harness(**options))
        return made[-1]

    yield make
    for item in made:
        item.close()
