# SPDX-License-Identifier: MIT
"""The applications of the scaling benchmark: their sizes, and the parts of the runtime that can be taken away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
    #: Which ablations it has arguments for, besides those that are made by environment variables.
    ablations: frozenset[str]


def _clamp(value: float, low: int, high: int) -> int:
    return int(min(high, max(low, value)))


APPS = {
    app.name: app
    for app in (
        ScalingApp(
            name="wave_sim",
            title="WaveSim, {size}² cells",
            sizes=(16384, 4096),
            cpu_sizes=(512,),
            steps_for=lambda size: _clamp(200 * (16384 / size) ** 2, 100, 1000),
            check=("--size", "515", "--steps", "60"),
            ablations=frozenset({"split", "oversubscription", "border"}),
        ),
        ScalingApp(
            name="nbody",
            title="N-body, {size} bodies",
            sizes=(131072, 32768),
            cpu_sizes=(1024,),
            steps_for=lambda size: _clamp(25 * (131072 / size) ** 2, 25, 500),
            check=("--size", "1021", "--steps", "20"),
            ablations=frozenset({"oversubscription"}),
        ),
        ScalingApp(
            name="rsim",
            title="RSim, about {size} patches",
            sizes=(32768, 8192),
            cpu_sizes=(500,),
            steps_for=lambda _: 200,  # a batch is a whole run, whose history grows
            check=("--size", "301", "--steps", "40"),
            ablations=frozenset(),
        ),
        ScalingApp(
            name="matmul",
            title="two matrix products, {size}² float64",
            sizes=(8192, 4096),
            cpu_sizes=(256,),
            steps_for=lambda size: _clamp(2 * (8192 / size) ** 3, 2, 100),
            check=("--size", "397", "--steps", "2"),
            ablations=frozenset({"split", "oversubscription"}),
        ),
        ScalingApp(
            name="convolution",
            title="convolution, {size} rows of pixels",
            sizes=(8192, 2048),
            cpu_sizes=(256,),
            steps_for=lambda size: _clamp(200 * (8192 / size) ** 2, 100, 1000),
            check=("--size", "211", "--steps", "6"),
            ablations=frozenset({"split", "oversubscription", "border"}),
        ),
    )
}


@dataclass(frozen=True)
class Variant:
    """A way to run an application."""

    label: str
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


# The first of each is compared with the peer.
ABLATIONS: dict[str, tuple[Variant, ...]] = {
    "lookahead": tuple(Variant(f"lookahead {value}", {"CELERITY_LOOKAHEAD": value}) for value in ("auto", "none")),
    "transport": tuple(Variant(f"transport {value}", {"CELERITY_TRANSPORT": value}) for value in ("direct", "host")),
    "overwrites": tuple(
        Variant(f"overwrites wait on the {where}", {"CELERITY_OVERWRITE_WAITS": where}) for where in ("host", "device")
    ),
    "events": tuple(
        Variant(f"events {name}", {"CELERITY_LANE_EVENTS": value}) for name, value in (("on", "1"), ("off", "0"))
    ),
    "split": (Variant("split 1-D"), Variant("split 2-D", arguments=("--split-2d",))),
    "oversubscription": tuple(
        Variant(f"oversubscription {factor}", arguments=("--oversubscribe", str(factor))) for factor in (1, 2, 4)
    ),
    "border": tuple(Variant(f"{rows} border rows first", arguments=("--border", str(rows))) for rows in (8, 0)),
}
BY_VARIABLES = frozenset({"events", "lookahead", "overwrites", "transport"})
