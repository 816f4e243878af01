# SPDX-License-Identifier: MIT
"""Launches of CUDA kernels without GPUs: what the compiler and the devices are asked for."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from celerity_py import _native
from celerity_py._native import Box
from celerity_py.cuda import compilation
from celerity_py.cuda.compilation import CompilationError, Program
from celerity_py.cuda.launches import prepare_launch
from celerity_py.kernels import CudaKernel
from celerity_py.vocabulary.accesses import READ, Port
from celerity_py.vocabulary.submissions import Submission


class FakeRecord:
    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.id = 3
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.label = 'B3 "u"'
        self.runtime = None


def fake_record(*args: Any) -> Any:
    return FakeRecord(*args)


def port(mode: int = READ, shape: tuple[int, ...] = (8, 8), dtype: Any = np.float32) -> Port:
    return Port(fake_record(shape, dtype), mode)


class FakeGpus:
    """Stands in for compiler and devices, and notes the requests to them."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.native: dict[str, Any] = {}
        self.drains = 0
        self.is_loaded = False
        self.most_threads = 1024
        self.most_shared_bytes = 200_000
        self.allowed: list[int] = []
        self.runtime: Any = SimpleNamespace(
            devices=SimpleNamespace(ordinals=(0, 2)),
            configuration=SimpleNamespace(bounds_check=False),
            drain=self._drain,
        )

    def _drain(self) -> None:
        self.drains += 1

    def load(self, program: Program, ordinals: tuple[int, ...]) -> list[int]:
        if "syntax error" in program.source:
            raise CompilationError("f.cu(2): error: expected a ';'")
        self.programs.append(program)
        return [100 + ordinal for ordinal in ordinals]

    def allow(self, function: int, ordinal: int, shared_bytes: int) -> int:
        self.allowed.append(shared_bytes)
        return self.most_shared_bytes

    def make(self, **arguments: Any) -> str:
        self.native = arguments
        return "native function"


def stand_in_for_gpus(monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    """Let compiler and devices be fakes."""
    gpus = FakeGpus()
    monkeypatch.setattr(compilation, "load", gpus.load)
    monkeypatch.setattr(compilation, "is_loaded", lambda program, ordinals: gpus.is_loaded)
    monkeypatch.setattr(compilation, "most_threads", lambda function, ordinal: gpus.most_threads)
    monkeypatch.setattr(compilation, "allow_shared_bytes", gpus.allow)
    monkeypatch.setattr(_native, "CudaFunction", gpus.make)
    return gpus


def kernel_of(parameters: str, dims: int = 2, prelude: str = "", **settings: Any) -> CudaKernel:
    behind = f", {parameters}" if parameters else ""
    return CudaKernel(f"{prelude}__global__ void f(celerity::chunk<{dims}> chunk{behind}) {{}}", "f", **settings)


def submission_of(kernel: Any, args: list[Any], dims: int = 2) -> Submission:
    return Submission("kernel", "step", kernel, args, Box((0,) * dims, (8,) * dims), sys._getframe())


def prepare(gpus: FakeGpus, parameters: str, *args: Any, dims: int = 2, **settings: Any) -> bytes:
    kernel = kernel_of(parameters, dims, **settings)
    launch = prepare_launch(gpus.runtime, submission_of(kernel, [*args], dims), None)
    assert launch is not None
    plan, scalars = launch
    assert plan.function == "native function"
    return scalars
