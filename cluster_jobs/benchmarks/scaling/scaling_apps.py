# SPDX-License-Identifier: MIT
"""The applications of the scaling benchmark: sizes, work, and the parts of the runtime that can be taken away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cluster_jobs.benchmarks.scaling.limits import COPY, PRODUCT_OF_DOUBLES, PRODUCT_OF_FLOATS

LAYOUTS = ("process", "rank")


@dataclass(frozen=True)
class ScalingApp:
    """An application `apps/<name>.py` with `--size`, `--steps`, `--benchmark` and `--verify`.

    Its peer in a layout is `python -m cluster_jobs.benchmarks.scaling.peers <name> <layout>`.
    """

    name: str
    #: Of plots; "{size}" stands for the size.
    title: str
    #: The sizes if the command line names none: on GPUs, and on CPU devices.
    sizes: tuple[int, ...]
    cpu_sizes: tuple[int, ...]
    #: Steps of a batch on GPUs: about a quarter of a second on one of them.
    steps_for: Callable[[int], int]
    #: Arguments of the run that is compared with NumPy. Of a size that no number of devices divides.
    check: tuple[str, ...]
    #: Which ablations it has arguments for, besides those that every application has.
    ablations: frozenset[str]
    #: The bytes or operations of a step, in words, and by the figures of a run; and the limit that they come up to.
    work_name: str
    work: Callable[[Mapping[str, Any]], float]
    limit: str
    #: Rows that are computed first in the ablation of the border.
    border: int = 0


def _clamp(value: float, low: int, high: int) -> int:
    return int(min(high, max(low, value)))


_ALL = (
    ScalingApp(
        name="wave_sim", title="WaveSim, {size}² cells", sizes=(16384, 4096), cpu_sizes=(512,),
        steps_for=lambda size: _clamp(200 * (16384 / size) ** 2, 100, 1000), check=("--size", "515", "--steps", "60"),
        ablations=frozenset({"split", "oversubscription", "border"}), border=8,
        work_name="12 bytes per cell", work=lambda run: 12 * run["size"] ** 2, limit=COPY,
    ),
    ScalingApp(
        name="nbody", title="N-body, {size} bodies", sizes=(131072, 32768), cpu_sizes=(1024,),
        steps_for=lambda size: _clamp(25 * (131072 / size) ** 2, 25, 500), check=("--size", "1021", "--steps", "20"),
        ablations=frozenset({"oversubscription"}),
        work_name="20 operations per pair", work=lambda run: 20 * run["size"] ** 2, limit=PRODUCT_OF_FLOATS,
    ),
    ScalingApp(
        name="rsim", title="RSim, about {size} patches", sizes=(32768, 8192), cpu_sizes=(500,),
        steps_for=lambda _: 200,  # a batch is a whole run, whose history grows
        check=("--size", "301", "--steps", "40"), ablations=frozenset(),
        work_name="5 bytes per pair of patches", work=lambda run: 5 * run["patches"] ** 2, limit=COPY,
    ),
    ScalingApp(
        name="matmul", title="two matrix products, {size}² float64", sizes=(8192, 4096), cpu_sizes=(256,),
        steps_for=lambda size: _clamp(2 * (8192 / size) ** 3, 2, 100), check=("--size", "397", "--steps", "2"),
        ablations=frozenset({"split", "oversubscription"}),
        work_name="4 n³ operations", work=lambda run: 4 * run["size"] ** 3, limit=PRODUCT_OF_DOUBLES,
    ),
    ScalingApp(
        name="convolution", title="convolution, {size} rows of pixels", sizes=(8192, 2048), cpu_sizes=(256,),
        steps_for=lambda size: _clamp(200 * (8192 / size) ** 2, 100, 1000), check=("--size", "211", "--steps", "6"),
        ablations=frozenset({"split", "oversubscription", "border"}), border=16,
        work_name="162 operations per pixel, not fused",
        work=lambda run: 162 * run["size"] * (run["size"] * 4 // 3), limit=PRODUCT_OF_FLOATS,
    ),
)  # fmt: skip
APPS = {app.name: app for app in _ALL}


@dataclass(frozen=True)
class Variant:
    """A way to run an application."""

    label: str
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    #: The way of `other_ways` in which the program runs.
    way: str = ""


# The first of each is compared with the peer. "{border}" stands for a number of rows.
ABLATIONS: dict[str, tuple[Variant, ...]] = {
    "lookahead": tuple(Variant(f"lookahead {value}", {"CELERITY_LOOKAHEAD": value}) for value in ("auto", "none")),
    "transport": tuple(Variant(f"transport {value}", {"CELERITY_TRANSPORT": value}) for value in ("direct", "host")),
    "overwrites": (
        Variant("overwrites wait on the host", way="host-overwrites"),
        Variant("overwrites wait on the device"),
    ),
    "events": (Variant("events on"), Variant("events off", way="host-waits")),
    "split": (Variant("split 1-D"), Variant("split 2-D", arguments=("--split-2d",))),
    "oversubscription": tuple(
        Variant(f"oversubscription {factor}", arguments=("--oversubscribe", str(factor))) for factor in (1, 2, 4)
    ),
    "border": tuple(Variant(f"{rows} border rows first", arguments=("--border", rows)) for rows in ("{border}", "0")),
    "planning": (
        Variant("planned concurrently"),
        Variant("planned inline", way="inline-planning"),
        Variant("replayed", arguments=("--replay",)),
    ),
}
OF_ALL_APPS = frozenset({"events", "lookahead", "overwrites", "planning", "transport"})


def variants_of(app: ScalingApp, ablation: str) -> tuple[Variant, ...]:
    """The ways to run an application in an ablation."""

    def filled(text: str) -> str:
        return text.replace("{border}", str(app.border))

    return tuple(
        replace(variant, label=filled(variant.label), arguments=tuple(map(filled, variant.arguments)))
        for variant in ABLATIONS[ablation]
    )
