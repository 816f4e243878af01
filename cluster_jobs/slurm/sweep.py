# SPDX-License-Identifier: MIT
"""The points of a sweep, and the settings that all of them share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

LAYOUTS = {"node": "one rank per node", "device": "one rank per device"}


@dataclass(frozen=True, order=True)
class Shape:
    """The nodes and devices of a point, and how ranks share them."""

    nodes: int
    devices_per_node: int
    layout: str  # of LAYOUTS

    @property
    def devices(self) -> int:
        """Of all nodes."""
        return self.nodes * self.devices_per_node

    @property
    def ranks_per_node(self) -> int:
        """One, or as many as devices."""
        return self.devices_per_node if self.layout == "device" else 1

    @property
    def ranks(self) -> int:
        """Of all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def devices_per_rank(self) -> int:
        """All of the node, or one."""
        return self.devices_per_node // self.ranks_per_node

    @property
    def name(self) -> str:
        """For files and jobs."""
        return f"{self.nodes}x{self.devices_per_node}-{self.layout}"

    def __str__(self) -> str:
        return f"{self.nodes} node(s) with {self.devices_per_node} device(s) each, {LAYOUTS[self.layout]}"


@dataclass(frozen=True, order=True)
class Point:
    """One run of the application, and with that one task of a job array."""

    size: int
    shape: Shape
    repetition: int  # from 0

    @property
    def name(self) -> str:
        """For its folder; no two points of a sweep share it."""
        return f"{self.size}-{self.shape.name}-run{self.repetition}"

    def to_json(self) -> dict[str, Any]:
        """The form that `point_from_json` reads."""
        return asdict(self)


def point_from_json(fields: dict[str, Any]) -> Point:
    """The point that `Point.to_json` described.

    Raises:
        KeyError, TypeError: If the fields are not those of a point.
    """
    return Point(fields["size"], Shape(**fields["shape"]), fields["repetition"])


@dataclass(frozen=True)
class Settings:
    """The settings that all points of a sweep share, so that their times are comparable."""

    app: str
    backend: str
    steps: int | None  # None: the application's own number
    arguments: tuple[str, ...]  # of the application, besides size, steps and --benchmark
    variables: tuple[str, ...]  # NAME=VALUE, sorted
    version: str  # of the code

    def to_json(self) -> dict[str, Any]:
        """As JSON reads it back: with lists."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


class SettingsDifferError(ValueError):
    """A folder holds results of other settings."""


@dataclass(frozen=True)
class Sweep:
    """All that a folder of results is about."""

    settings: Settings
    points: tuple[Point, ...]

    def to_json(self) -> dict[str, Any]:
        """The form that `sweep_from_json` reads."""
        return {"settings": self.settings.to_json(), "points": [point.to_json() for point in self.points]}

    def extended_by(self, other: Sweep) -> Sweep:
        """The points of both.

        Raises:
            SettingsDifferError: If they would not be comparable; says in what.
        """
        mine, others = self.settings.to_json(), other.settings.to_json()
        differences = [
            f"{key} was {mine[key]!r} and is now {others[key]!r}" for key in mine if mine[key] != others[key]
        ]
        if differences:
            raise SettingsDifferError("; ".join(differences))
        return Sweep(self.settings, tuple(sorted({*self.points, *other.points})))


def sweep_from_json(fields: dict[str, Any]) -> Sweep:
    """The sweep that `Sweep.to_json` described.

    Raises:
        KeyError, TypeError: If the fields are not those of a sweep.
    """
    settings: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields["settings"].items()
    }
    return Sweep(Settings(**settings), tuple(point_from_json(point) for point in fields["points"]))


def all_points(
    *, nodes: Sequence[int], devices_per_node: Sequence[int], layouts: Sequence[str], sizes: Sequence[int], runs: int
) -> tuple[Point, ...]:
    """Every combination. With one device per node both layouts are the same, and only the first of them is taken."""
    shapes = {
        Shape(count, devices, layouts[0] if devices == 1 else layout)
        for count in nodes
        for devices in devices_per_node
        for layout in layouts
    }
    return tuple(sorted(Point(size, shape, run) for size in sizes for shape in shapes for run in range(runs)))
