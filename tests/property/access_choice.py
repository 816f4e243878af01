# SPDX-License-Identifier: MIT
"""Which accesses a task may legally have: candidates per buffer, and the rules that they must obey together."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.property.draws import Draws, chance, choice
from tests.property.programs import Access, BufferDecl
from tests.support import mappers, uneven_mappers
from tests.support.mappers import Mapper
from tests.verification.elements import FlatBox, UserBox, element_mask, flat_boxes, full_box, to_flat

PERMUTATIONS: dict[int, list[tuple[int, ...]]] = {
    2: [(1, 0)],
    3: [(0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)],
}


@dataclass
class LiveBuffer:
    decl: BufferDecl
    initialised: int
    """Bit mask of the elements that somebody wrote."""

    @property
    def space(self) -> FlatBox:
        return to_flat(full_box(self.decl.shape))

    @property
    def all_elements(self) -> int:
        return element_mask(self.space, (self.space,))

    def mask(self, boxes: list[UserBox]) -> int:
        return element_mask(self.space, flat_boxes(boxes))


@dataclass(frozen=True)
class WriterChoice:
    """A mapper that sends different items to different elements of a buffer, and an index space that suits it."""

    mapper: Mapper
    box: UserBox
    may_split_2d: bool = True


def writers_of(draws: Draws, decl: BufferDecl) -> WriterChoice:  # noqa: PLR0912  (one case per mapper)
    shape = decl.shape
    dims = len(shape)
    if dims == 0:
        return WriterChoice(mappers.all_(), ())
    kinds = ["one_to_one", "part", "overhang", "blocks", "rows_apart", "mirrored", "even_split", "single"]
    kinds += ["slice", "same_slice", "same_slice", "same_slice", "permute"] if dims >= 2 else []
    kinds += ["row"] if dims == 2 else []
    # one_to_one is what most kernels use
    kind = "one_to_one" if chance(draws, 35) else choice(draws, kinds)
    rows = shape[0]
    if kind == "part":
        return WriterChoice(mappers.one_to_one(), random_box(draws, shape))
    if kind == "overhang":
        return WriterChoice(_clamped(dims), tuple((0, extent + draws.integer(0, 4)) for extent in shape))
    if kind == "blocks":
        size = draws.integer(1, 4)
        return WriterChoice(mappers.blocks(size), ((0, -(-rows // size)),))
    if kind == "rows_apart":
        step = draws.integer(2, 3)
        phase = draws.integer(0, step - 1)
        return WriterChoice(mappers.rows_apart(step, phase), ((0, max(1, (rows - phase + step - 1) // step)),))
    if kind == "mirrored":
        return WriterChoice(mappers.mirrored(), ((0, rows),))
    if kind == "even_split":
        return WriterChoice(mappers.even_split(draws.integer(1, 3)), ((0, draws.integer(1, 7)),))
    if kind == "single":
        mapper = mappers.all_() if chance(draws, 50) else mappers.fixed(random_box(draws, shape))
        return WriterChoice(mapper, choice(draws, [(), ((0, 1),)]))
    if kind == "slice":
        dim = draws.integer(0, dims - 1)
        return WriterChoice(_slice(draws, dim, shape), full_box(shape[:dim] + shape[dim + 1 :]))
    if kind == "same_slice":
        return WriterChoice(mappers.slice_(draws.integer(1, dims - 1)), full_box(shape), may_split_2d=False)
    if kind == "permute":
        order = choice(draws, PERMUTATIONS[dims])
        extents = [0] * dims
        for buffer_dim, kernel_dim in enumerate(order):
            extents[kernel_dim] = shape[buffer_dim]
        return WriterChoice(mappers.permute(*order), full_box(extents))
    if kind == "row":
        row = draws.integer(0, rows - 1)
        mapper = mappers.slice_(0, row) if chance(draws, 50) else mappers.row_of_columns(row)
        return WriterChoice(mapper, ((0, shape[1]),))
    return WriterChoice(mappers.one_to_one(), full_box(shape))


def uneven_writers_of(draws: Draws, decl: BufferDecl) -> WriterChoice | None:
    """Writers that leave gaps, make many boxes, or lie in part or wholly outside of the buffer; None for a scalar."""
    shape = decl.shape
    dims = len(shape)
    if dims == 0:
        return None
    rows = shape[0]
    kinds = ["outside", "overhang_below", "backwards_pick", "scattered", "checkerboard", "sparse"]
    kind = choice(draws, [*kinds, "triangle"] if dims == 2 else kinds)
    if kind == "outside":  # whatever is asked for clamps to nothing
        return WriterChoice(mappers.shifted(*shape), full_box(shape))
    if kind == "overhang_below":
        box = tuple((-draws.integer(0, 4), extent + draws.integer(0, 4)) for extent in shape)
        return WriterChoice(mappers.shifted(*(draws.integer(-2, 2) for _ in shape)), box)
    if kind == "backwards_pick":
        step = draws.integer(1, 3)
        return WriterChoice(uneven_mappers.backwards_pick(step, draws.integer(0, 3)), ((0, rows // step + 2),))
    if kind == "scattered":
        return WriterChoice(uneven_mappers.scattered(draws.integer(0, 20)), ((0, draws.integer(1, rows)),))
    if kind == "triangle":
        return WriterChoice(uneven_mappers.triangle(), ((0, rows),))
    if kind == "checkerboard":
        return WriterChoice(uneven_mappers.checkerboard(draws.integer(0, 1)), full_box(shape))
    return WriterChoice(uneven_mappers.sparse(draws.integer(0, 50), draws.integer(20, 80)), full_box(shape))


def _clamped(dims: int) -> Mapper:
    """Each item the element with its own coordinates, if there is one."""
    return mappers.shifted(*(0 for _ in range(dims)))


def _slice(draws: Draws, dim: int, shape: tuple[int, ...]) -> Mapper:
    """All of a dimension, or one index."""
    return mappers.slice_(dim, draws.integer(0, shape[dim] - 1) if chance(draws, 35) else None)


def further_writers(decl: BufferDecl, kernel_dims: int) -> list[Mapper]:
    """Mappers under which disjoint chunks write disjoint elements, for an index space that is already chosen."""
    dims = len(decl.shape)
    result: list[Mapper] = []
    if dims == kernel_dims and dims > 0:
        result.append(mappers.one_to_one())
        result += [mappers.permute(*order) for order in PERMUTATIONS.get(dims, [])]
    if dims == kernel_dims + 1 and kernel_dims > 0:
        result += [mappers.slice_(dim) for dim in range(dims)]
    if kernel_dims == 1 and dims >= 1:
        result += [
            mappers.mirrored(),
            mappers.blocks(1),
            mappers.blocks(2),
            mappers.rows_apart(2, 0),
            mappers.rows_apart(2, 1),
        ]
    if kernel_dims == 0:
        result.append(mappers.all_())
    return result


def readers_of(draws: Draws, decl: BufferDecl, whole: UserBox) -> Mapper:
    shape = decl.shape
    dims, kernel_dims = len(shape), len(whole)
    kinds = ["all"]
    if dims >= 1:
        kinds += ["fixed", "corners"]
    if dims == kernel_dims and dims >= 1:
        kinds += ["one_to_one", "neighborhood", "neighborhood", "axes", "axes", "shifted", "same_slice"]
    if dims == kernel_dims and dims >= 2:
        kinds += ["permute"]
    if dims == kernel_dims + 1 and kernel_dims >= 1:
        kinds += ["slice", "slice"]
    if kernel_dims == 1 and dims >= 1:
        kinds += ["blocks", "rows_apart", "mirrored", "prefix", "nothing_in_first_half"]
        if whole[0][0] >= 0:
            kinds += ["gather", "gather"]
        if whole[0][0] == 0:
            kinds += ["even_split"]
    if kernel_dims == 1 and dims == 2:
        kinds += ["history"]
    if chance(draws, 35) and (uneven := _uneven_kinds(shape, kernel_dims)):
        return _uneven_reader(draws, choice(draws, uneven), shape)
    kind = choice(draws, kinds)
    mapper = gather_of(draws, whole, shape) if kind == "gather" else _reader(draws, kind, shape)
    if mapper.gives_all(whole, shape):
        return mapper
    return _clamped(dims) if dims == kernel_dims else mappers.all_()


def gather_of(draws: Draws, whole: UserBox, shape: tuple[int, ...]) -> Mapper:
    """Lists of rows near the same part of the buffer, of equal lengths or not."""
    rng = random.Random(draws.integer(0, 1000))
    num_items, rows = whole[0][1], shape[0]
    most = draws.integer(1, 3)
    is_even = chance(draws, 50)
    reach = draws.integer(0, 3)
    indices = []
    for item in range(num_items):
        middle = item * rows // num_items
        length = most if is_even else rng.randint(0, most)
        indices.append(tuple(rng.randint(max(middle - reach, 0), min(middle + reach, rows - 1)) for _ in range(length)))
    return mappers.gather(tuple(indices), draws.integer(0, 2))


def _uneven_kinds(shape: tuple[int, ...], kernel_dims: int) -> list[str]:
    dims = len(shape)
    if dims == 0 or kernel_dims == 0:
        return []
    kinds = []
    if kernel_dims in (1, dims):
        kinds += ["strided_hull", "backwards_hull", "backwards_pick", "scattered_hull", "scattered"]
    if dims == kernel_dims:
        kinds += ["periodic", "periodic", "aligned", "swollen", "all_if_longer", "checkerboard", "sparse", "far_away"]
        kinds += ["mirror_hull"] if dims > 1 else []
    if kernel_dims == 1 and dims == 2:
        kinds += ["triangle"]
    return kinds


def _uneven_reader(draws: Draws, kind: str, shape: tuple[int, ...]) -> Mapper:
    step, phase, seed = draws.integer(2, 4), draws.integer(0, 3), draws.integer(0, 20)
    reaches = [draws.integer(0, 2) for _ in shape]
    candidates: dict[str, Callable[[], Mapper]] = {
        "strided_hull": lambda: uneven_mappers.strided_hull(step, phase),
        "backwards_hull": lambda: uneven_mappers.backwards_hull(step, phase),
        "backwards_pick": lambda: uneven_mappers.backwards_pick(step, phase),
        "scattered_hull": lambda: uneven_mappers.scattered_hull(seed),
        "scattered": lambda: uneven_mappers.scattered(seed),
        "periodic": lambda: uneven_mappers.periodic(*reaches),
        "aligned": lambda: uneven_mappers.aligned(step),
        "swollen": uneven_mappers.swollen,
        "all_if_longer": lambda: uneven_mappers.all_if_longer(seed // 2 + 1),
        "checkerboard": lambda: uneven_mappers.checkerboard(phase % 2),
        "sparse": lambda: uneven_mappers.sparse(seed, 20 * step),
        # some chunks read something, most nothing
        "far_away": lambda: mappers.shifted(
            *(max(0, extent - reach) for extent, reach in zip(shape, reaches, strict=True))
        ),
        "mirror_hull": uneven_mappers.mirror_hull,
        "triangle": uneven_mappers.triangle,
    }
    return candidates[kind]()


def _reader(draws: Draws, kind: str, shape: tuple[int, ...]) -> Mapper:
    dims = len(shape)
    if kind == "all":
        return mappers.all_()
    if kind == "fixed":
        count = draws.integer(1, 2)
        return mappers.fixed(*(random_box(draws, shape) for _ in range(count)))
    if kind in ("neighborhood", "axes"):
        extents = [draws.integer(0, 2) for _ in shape]
        shape_name = "box" if kind == "neighborhood" else "axes"
        wrap: bool | tuple[bool, ...] = draws.integer(0, 3) == 0
        if wrap and draws.integer(0, 1) == 0:
            wrap = tuple(draws.integer(0, 1) == 0 for _ in shape)
        return mappers.neighborhood(*extents, shape=shape_name, wrap=wrap)
    if kind == "shifted":
        return mappers.shifted(*(draws.integer(-3, 3) for _ in shape))
    if kind in ("slice", "same_slice"):
        return _slice(draws, draws.integer(0, dims - 1), shape)
    if kind == "permute":
        return mappers.permute(*choice(draws, PERMUTATIONS[dims]))
    if kind == "blocks":
        return mappers.blocks(draws.integer(1, 4))
    if kind == "rows_apart":
        step = draws.integer(2, 4)
        return mappers.rows_apart(step, draws.integer(0, step - 1))
    if kind == "even_split":
        return mappers.even_split(draws.integer(1, 3))
    if kind == "history":
        return mappers.history(draws.integer(1, shape[0]))
    simple = {
        "corners": mappers.corners,
        "one_to_one": mappers.one_to_one,
        "mirrored": mappers.mirrored,
        "prefix": mappers.prefix,
        "nothing_in_first_half": mappers.nothing_in_first_half,
    }
    return simple[kind]()


def random_box(draws: Draws, shape: tuple[int, ...]) -> UserBox:
    result = []
    for extent in shape:
        low = draws.integer(0, extent - 1)
        result.append((low, draws.integer(low + 1, extent)))
    return tuple(result)


def is_legal(access: Access, whole: UserBox, live: dict[int, LiveBuffer], others: list[Access]) -> bool:
    """Reads only written elements; shares no element with another access of the task if one of the two writes.

    No built-in mapper takes the index space beyond the buffer.
    """
    buffer = live[access.buffer]
    if not access.mapper.gives_all(whole, buffer.decl.shape):
        return False
    region = access.mapper.region(whole, whole, buffer.decl.shape)
    mask = buffer.mask(region)
    if access.mode != "write" and mask & ~buffer.initialised:
        return False
    for other in others:
        if other.buffer != access.buffer or (other.mode == "read" and access.mode == "read"):
            continue
        if mask & buffer.mask(other.mapper.region(whole, whole, buffer.decl.shape)):
            return False
    return True
