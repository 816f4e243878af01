# SPDX-License-Identifier: MIT
"""The scene of `rsim.py`: a room like Cornell's with two boxes in it, made of triangles, and what it looks like.

The room is one unit wide, high and deep, with x to the right, y up and z away from the viewer, and open at the front.
The lamp is a part of the ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import frame
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

WHITE, RED, GREEN = (0.76, 0.75, 0.70), (0.63, 0.07, 0.06), (0.15, 0.48, 0.10)
LAMP_SIDE = (0.36, 0.64)  # of the ceiling, in x as well as in z
LAMP_POWER = 14.0
# Centre, half the extents, and angle about the vertical axis of each box.
BOXES = (
    ((0.34, 0.30, 0.64), (0.145, 0.30, 0.145), 0.30),
    ((0.68, 0.15, 0.34), (0.145, 0.15, 0.145), -0.28),
)
# A box hides patches behind it, but not those on its own surface, whatever is rounded.
SHRINKING = 0.999
# Rows of `Room.geometry`: a position, an area, a normal, the share of light that is reflected, then the position in the
# axes of each box, from its centre.
POSITION, AREA, NORMAL, REFLECTANCE, IN_BOXES = 0, 3, 4, 7, 8
NUM_ROWS = IN_BOXES + 3 * len(BOXES)
EYE, FOCUS = (0.5, 0.5, -1.3), 1.3  # a pinhole camera looks at the plane z = 0


@dataclass(frozen=True)
class Room:
    """Patches: triangles of about the same size."""

    #: Corners, float64, (patches, 3, 3).
    corners: NDArray[np.float64]
    #: Red, green and blue reflectance, (patches, 3).
    colours: NDArray[np.float64]
    #: Light that a patch sends out by itself, float32, (patches,).
    emission: NDArray[np.float32]
    #: The quantities that light transport depends on, float32, (`NUM_ROWS`, patches).
    geometry: NDArray[np.float32]


def half_extents() -> NDArray[np.float32]:
    """Half the extents of the boxes as light sees them, float32, (boxes, 3)."""
    return np.array([np.multiply(half, SHRINKING) for _, half, _ in BOXES], dtype=np.float32)


def furnish(num_patches: int) -> Room:
    """Make the room out of about so many triangles of about the same size: an even number, at least 46."""
    triangles, colours, glows = _triangles()
    areas = np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1) / 2
    areas = np.repeat(areas[::2], 2)  # both triangles of a rectangle are divided alike, whatever is rounded
    # Each is divided into n² alike. The number of all grows as their size shrinks: halve the interval.
    low, high = 1e-9, float(areas.sum())
    for _ in range(100):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if _divisions(areas, middle).sum() > num_patches else (low, middle)
    sizes = sorted((low, high), key=lambda size: abs(_divisions(areas, size).sum() - num_patches))
    divisions = np.sqrt(_divisions(areas, sizes[0])).round().astype(int)
    corners = np.concatenate([_divide(triangle, n) for triangle, n in zip(triangles, divisions, strict=True)])
    colour, glow = (np.repeat(values, divisions**2, axis=0) for values in (colours, glows))
    return Room(corners, colour, glow.astype(np.float32), _geometry(corners, colour))


def _divisions(areas: NDArray[np.float64], size: float) -> NDArray[np.float64]:
    return np.asarray(np.maximum(1, np.round(np.sqrt(areas / size))) ** 2)


def _divide(triangle: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Cut a triangle into n² similar ones, (n², 3, 3), strip by strip."""
    origin, along, across = triangle[0], (triangle[1] - triangle[0]) / n, (triangle[2] - triangle[0]) / n
    parts = []
    for row in range(n):
        for column in range(n - row):
            corner = origin + column * along + row * across
            parts.append([corner, corner + along, corner + across])
            if column < n - row - 1:
                parts.append([corner + along + across, corner + across, corner + along])
    return np.array(parts)


def _triangles() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """All surfaces: corners with the normal by the right hand, colours, and how bright they are by themselves."""
    x, y, z = np.eye(3)
    surfaces: list[tuple[Any, Any, Any, Any, float]] = [  # a corner, two edges, a colour, a brightness
        (0 * x, z, x, WHITE, 0.0),  # floor
        (z, y, x, WHITE, 0.0),  # back
        (0 * x, y, z, RED, 0.0),  # left
        (x, z, y, GREEN, 0.0),  # right
    ]
    cuts = (0.0, *LAMP_SIDE, 1.0)
    for i in range(3):
        for k in range(3):
            size = (cuts[i + 1] - cuts[i]) * x, (cuts[k + 1] - cuts[k]) * z
            surfaces.append((y + cuts[i] * x + cuts[k] * z, *size, WHITE, LAMP_POWER if i == k == 1 else 0.0))
    for centre, half, angle in BOXES:
        u, v, w = (extent * axis for extent, axis in zip(half, _axes(angle), strict=True))
        for a, b, c in ((u, v, w), (v, w, u), (w, u, v)):
            surfaces += [(centre + sign * a - b - c, 2 * b, 2 * c, WHITE, 0.0) for sign in (1, -1) if sign * a[1] >= 0]
    corners, colours, glows = [], [], []
    centres = [*np.full((13, 3), 0.5), *(centre for centre, _, _ in BOXES for _ in range(5))]
    for number, ((corner, b, c, colour, glow), centre) in enumerate(zip(surfaces, centres, strict=True)):
        outwards = np.dot(np.cross(b, c), corner + (b + c) / 2 - centre) > 0
        if outwards != (number >= 13):  # walls face inwards, boxes outwards
            b, c = c, b  # noqa: PLW2901 - the other way round
        corners += [(corner, corner + b, corner + c), (corner + b + c, corner + c, corner + b)]
        colours += 2 * [colour]
        glows += 2 * [glow]
    return np.array(corners), np.array(colours), np.array(glows)


def _axes(angle: float) -> tuple[NDArray[np.float64], ...]:
    """The axes of a box that is turned about the vertical."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([cos, 0, -sin]), np.array([0.0, 1, 0]), np.array([sin, 0, cos])


def _geometry(corners: NDArray[np.float64], colours: NDArray[np.float64]) -> NDArray[np.float32]:
    result = np.empty((NUM_ROWS, len(corners)))
    centres = corners.mean(axis=1)
    products = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(products, axis=1)
    result[POSITION : POSITION + 3] = centres.T
    result[AREA] = lengths / 2
    result[NORMAL : NORMAL + 3] = (products / lengths[:, np.newaxis]).T
    result[REFLECTANCE] = colours.mean(axis=1)
    for number, (centre, _, angle) in enumerate(BOXES):
        for axis, direction in enumerate(_axes(angle)):
            result[IN_BOXES + 3 * number + axis] = (centres - centre) @ direction
    return result.astype(np.float32)


def draw(path: Path, room: Room, panels: Mapping[str, NDArray[Any]]) -> None:
    """Draw the room, once for each of several states of its light.

    Args:
        path: File to write; its suffix chooses the format.
        room: The patches.
        panels: Title, and the light that leaves each patch.
    """
    from_eye = room.corners - EYE
    centres = from_eye.mean(axis=1)
    normals = room.geometry[NORMAL : NORMAL + 3].T
    seen = np.flatnonzero((centres * normals).sum(axis=1) < 0)
    order = seen[np.argsort(-np.linalg.norm(centres[seen], axis=1))]  # near patches hide far ones
    flat = FOCUS * from_eye[order, :, :2] / from_eye[order, :, 2:]

    plt = frame.pyplot()
    from matplotlib.collections import PolyCollection

    figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 5.6), squeeze=False, layout="constrained")
    for axis, (title, light) in zip(axes[0], panels.items(), strict=True):
        # A patch is as bright as it is lit, and as coloured as it reflects; a lamp is white.
        lit = light[order] / room.geometry[REFLECTANCE][order]
        exposed = 1 - np.exp(-1.8 * lit[:, np.newaxis] * room.colours[order])
        colours = np.clip(exposed, 0, 1) ** (1 / 2.2)
        axis.add_collection(PolyCollection(list(flat), facecolors=colours, edgecolors=colours, linewidths=0.6))
        axis.set(xlim=(-0.52, 0.52), ylim=(-0.52, 0.52), aspect="equal", title=title, xticks=[], yticks=[])
        axis.set_facecolor("black")
    frame.save_figure(path, figure)
