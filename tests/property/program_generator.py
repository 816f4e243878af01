# SPDX-License-Identifier: MIT
"""Random programs that are legal by construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from tests.property.access_choice import (
    LiveBuffer,
    WriterChoice,
    further_writers,
    is_legal,
    random_box,
    readers_of,
    uneven_writers_of,
    writers_of,
)
from tests.property.draws import Draws, SeededDraws, chance, choice, weighted
from tests.property.loops import (
    StreamingLoop,
    add_plain_loop,
    add_rebuilt_gathers,
    add_replays,
    may_reach,
    random_reach,
)
from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Epoch,
    Fence,
    Flush,
    HostTask,
    Initial,
    Kernel,
    LocalPart,
    Mode,
    ObjectFence,
    Operator,
    Program,
    Reduction,
    Settings,
    Task,
)
from tests.support import mappers, uneven_mappers
from tests.verification.elements import UserBox, full_box

INITIALS: list[tuple[int, Initial]] = [(4, "array"), (3, "none"), (3, "function"), (3, "local")]
OPERATORS: tuple[Operator, ...] = ("sum", "prod", "min", "max", "join", "argmin")
MODES: tuple[Mode, ...] = ("read_write", "write", "read")
OBJECTS = (1, 2, 3)
PLACES: list[Literal["split", "once", "master"]] = ["split", "once", "master"]
MOST_REDUCED = 40  # elements of an array
SCALAR_EVENTS = ("reduce", "reduce", "nothing", "some read", "all read", "fence", "wait", "host")
LOOKAHEADS: list[tuple[int, Literal["none", "auto", "infinite"]]] = [(4, "none"), (4, "auto"), (2, "infinite")]


def random_settings(draws: Draws) -> Settings:
    num_ranks = weighted(draws, [(16, 1), (38, 2), (22, 3), (15, 4), (9, 5)])
    num_devices = weighted(draws, [(28, 1), (32, 2), (40, 3)])
    pairs = [(a, b) for a in range(num_ranks) for b in range(a + 1, num_ranks)]
    transport = weighted(draws, [(2, 0), (3, 1), (2, 2)])  # host everywhere, direct everywhere, mixed
    direct = frozenset(pair for pair in pairs if transport == 1 or (transport == 2 and chance(draws, 50)))
    settings = Settings(
        num_ranks=num_ranks,
        num_devices=num_devices,
        device_peers=not chance(draws, 30),
        user_device_peers=not chance(draws, 50),
        messages_reach_devices=chance(draws, 40),
        direct_pairs=direct,
        lookahead=weighted(draws, LOOKAHEADS),
        foreseeable_bytes=weighted(draws, [(3, 2**30), (1, 256), (2, 0)]),
        joined_bytes=weighted(draws, [(2, 0), (3, 2**30), (1, 64)]),
        gathered_bytes=weighted(draws, [(2, 0), (3, 2**30), (1, 64)]),
        horizon_step=weighted(draws, [(3, 4), (2, 1), (2, 2), (1, 3)]),
        horizon_max_parallelism=weighted(draws, [(4, 64), (1, 3), (1, 6)]),
        compute_lanes=weighted(draws, [(2, 1), (2, 2), (1, 12)]),
        single_fifo=chance(draws, 30),
        seed=draws.integer(0, 2**16 - 1),
    )
    return replace(settings, link_grades=_link_grades(settings.seed, num_devices))


def _link_grades(seed: int, num_devices: int) -> tuple[int, ...]:
    """In half of the machines, some links between devices are better than others."""
    return tuple((seed * 2654435761 >> pair) % 3 for pair in range(num_devices**2)) if seed % 2 else ()


#: granularity, split, oversubscribe, border, block, weights
_SplitOptions = tuple[tuple[int, ...] | None, str, int, int, int, tuple[int, ...]]


class ProgramGenerator:
    """Appends one legal step after the other; a decision that leads nowhere appends nothing."""

    def __init__(self, draws: Draws, *, with_replays: bool = False) -> None:
        self.draws = draws
        self.with_replays = with_replays
        #: The tasks of each, and their reaches by phase.
        self.recordings: list[tuple[tuple[Kernel | HostTask, ...], tuple[tuple[tuple[int, ...], ...], ...]]] = []
        self.program = Program(random_settings(draws))
        self.live: dict[int, LiveBuffer] = {}
        self.made = 0
        self.base_shape = self.random_shape()

    def generate(self) -> Program:
        for _ in range(self.draws.integer(2, 4)):
            self.add_buffer()
        actions: list[tuple[int, Callable[[], object]]] = [
            (2, lambda: None),
            (46, self.add_kernel),
            (10, self.add_host_task),
            (9, self.add_fence),
            (5, self.add_life_of_an_object),
            (8, self.add_stencil_loop),
            (5, self.add_growing_rows),
            (8, self.add_reduction),
            (4, self.add_life_of_a_scalar),
            (1, self.add_many_boxes),
            (5, self.add_buffer),
            (5, self.destroy_buffer),
            (4, self.add_epoch),
            (3, lambda: self.program.steps.append(Flush())),
            (5, self.add_fill),
            (5, self.add_copy),
            (4, lambda: StreamingLoop(self).add()),
            (2, lambda: add_rebuilt_gathers(self)),
            (4 if self.with_replays else 0, lambda: add_replays(self)),
            (3 if self.with_replays else 0, lambda: add_plain_loop(self)),
        ]
        for _ in range(weighted(self.draws, [(40, self.draws.integer(8, 16)), (1, 60)])):
            action = weighted(self.draws, actions)
            action()
        for number in sorted(self.live):  # the buffers that are left are part of the result of the program
            if chance(self.draws, 75):
                self.add_final_fence(number)
        return self.program

    # buffers

    def random_shape(self) -> tuple[int, ...]:
        dims = weighted(self.draws, [(8, 1), (8, 2), (3, 3)])
        most = {1: 40, 2: 11, 3: 5}[dims]
        return tuple(self.draws.integer(1, most) for _ in range(dims))

    def add_buffer(self, shape: tuple[int, ...] | None = None, initial: Initial | None = None) -> LiveBuffer:
        if shape is None:
            shape = self.base_shape if chance(self.draws, 60) else () if chance(self.draws, 10) else self.random_shape()
        contents: Initial = initial if initial is not None else weighted(self.draws, INITIALS)
        size = 4 if all(extent == 1 for extent in shape) else choice(self.draws, [4, 4, 4, 8])
        device = self._random_place() if contents == "array" else -1
        parts = self._random_parts(shape) if contents == "local" else ()
        decl = BufferDecl(self.made, shape, contents, size, parts, device)
        self.made += 1
        buffer = LiveBuffer(decl, 0)
        if decl.initial != "none":
            buffer.initialised = buffer.all_elements
        self.live[decl.number] = buffer
        self.program.steps.append(decl)
        return buffer

    def _random_place(self) -> int:
        """A device of a rank, or the host."""
        devices = self.program.settings.num_devices
        return self.draws.integer(0, devices - 1) if chance(self.draws, 40) else -1

    def _random_parts(self, shape: tuple[int, ...]) -> tuple[LocalPart, ...]:
        """Cuts along one dimension, with a rank for each part; some ranks may have none."""
        num_ranks = self.program.settings.num_ranks
        whole = full_box(shape)
        if not shape:
            return (LocalPart(self.draws.integer(0, num_ranks - 1), whole, self._random_place()),)
        dim = self.draws.integer(0, len(shape) - 1)
        cuts = sorted({0, shape[dim], *(self.draws.integer(0, shape[dim]) for _ in range(3))})
        return tuple(
            LocalPart(
                self.draws.integer(0, num_ranks - 1), (*whole[:dim], cut, *whole[dim + 1 :]), self._random_place()
            )
            for cut in pairwise(cuts)
        )

    def destroy_buffer(self) -> None:
        if len(self.live) > 2:
            number = choice(self.draws, sorted(self.live))
            del self.live[number]
            self.program.steps.append(Destroy(number))

    def _random_live(self) -> LiveBuffer:
        return self.live[choice(self.draws, sorted(self.live))]

    # tasks

    def submit(self, task: Task) -> None:
        self.program.steps.append(task)
        if isinstance(task, Kernel | HostTask):
            for access in task.accesses:
                if access.mode != "read":
                    buffer = self.live[access.buffer]
                    buffer.initialised |= buffer.mask(access.mapper.region(task.box, task.box, buffer.decl.shape))
        if isinstance(task, Kernel):
            for reduction in task.reductions:
                self.live[reduction.buffer].initialised = self.live[reduction.buffer].all_elements

    def _append_if_legal(self, accesses: list[Access], access: Access, whole: UserBox) -> bool:
        legal = is_legal(access, whole, self.live, accesses)
        if legal:
            accesses.append(access)
        return legal

    def _write_or_update(self, accesses: list[Access], number: int, mapper: mappers.Mapper, whole: UserBox) -> bool:
        if chance(self.draws, 35) and self._append_if_legal(accesses, Access(number, "read_write", mapper), whole):
            return True
        return self._append_if_legal(accesses, Access(number, "write", mapper), whole)

    def _add_reads(self, accesses: list[Access], whole: UserBox) -> None:
        for _ in range(weighted(self.draws, [(2, 1), (1, 0), (2, 2), (1, 3)])):
            number = choice(self.draws, sorted(self.live))
            mapper = readers_of(self.draws, self.live[number].decl, whole)
            if not self._append_if_legal(accesses, Access(number, "read", mapper), whole):
                written = Access(number, "write", mappers.one_to_one())
                if written in accesses:  # each item reads only elements that the same item overwrites
                    buffer = self.live[number]
                    region = buffer.mask(mappers.one_to_one().region(whole, whole, buffer.decl.shape))
                    if not region & ~buffer.initialised:
                        accesses.append(Access(number, "read", mappers.one_to_one()))

    def split_options(self, dims: int, may_split_2d: bool) -> _SplitOptions:
        granularity = tuple(self.draws.integer(1, 3) for _ in range(dims)) if dims and chance(self.draws, 15) else None
        kinds = [
            "split_1d",
            "split_auto",
            "weights",
            "cyclic",
            *(["split_2d", "split_3d"] * (2 if may_split_2d else 0)),
        ]
        split = choice(self.draws, kinds) if dims and chance(self.draws, 45) else "rows"
        weights = [self.draws.integer(0, 4) for _ in range(self.draws.integer(0, 5))] if split == "weights" else None
        if split == "cyclic":
            return granularity, split, 1, 0, self.draws.integer(1, 5), ()
        oversubscribe = weighted(self.draws, [(32, 1), (8, 2), (4, 3), (1, 7)])
        border = 0
        if dims and oversubscribe == 1:
            border = weighted(self.draws, [(7, 0), (2, 1), (1, 2)])
        return granularity, split, oversubscribe, border, 0, () if weights is None else (1, *weights)

    def _writer_of(self, target: LiveBuffer) -> WriterChoice:
        uneven = uneven_writers_of(self.draws, target.decl) if chance(self.draws, 25) else None
        return uneven or writers_of(self.draws, target.decl)

    def add_kernel(self) -> None:
        target = self._random_live()
        writer = self._writer_of(target)
        whole = writer.box
        accesses: list[Access] = []
        self._write_or_update(accesses, target.decl.number, writer.mapper, whole)
        if chance(self.draws, 20):
            second = self._random_live()
            candidates = further_writers(second.decl, len(whole))
            if candidates and (whole or writer.mapper.kind in ("all", "fixed")):
                self._write_or_update(accesses, second.decl.number, choice(self.draws, candidates), whole)
        self._add_reads(accesses, whole)
        if accesses:
            kernel = Kernel(whole, tuple(accesses), (), *self.split_options(len(whole), writer.may_split_2d))
            self.submit(replace(kernel, reach=random_reach(self.draws, kernel)))

    def add_host_task(self) -> None:
        on = choice(self.draws, ["split", "once", "master"])
        accesses: list[Access] = []
        target = self._random_live()
        if on == "split":
            writer = self._writer_of(target)
            whole, mapper = writer.box, writer.mapper
        else:
            whole = ()
            mapper = (
                mappers.all_()
                if not target.decl.shape or chance(self.draws, 50)
                else mappers.fixed(random_box(self.draws, target.decl.shape))
            )
        if not chance(self.draws, 30):
            self._write_or_update(accesses, target.decl.number, mapper, whole)
        self._add_reads(accesses, whole)
        if accesses and not (on == "split" and whole == ()):
            where: Literal["split", "once", "master"] = (
                "split" if on == "split" else "once" if on == "once" else "master"
            )
            unordered = chance(self.draws, 30)
            objects = tuple(number for number in OBJECTS if chance(self.draws, 35))
            granularity = (self.draws.integer(1, 3),) * len(whole) if on == "split" and chance(self.draws, 20) else None
            self.submit(HostTask(where, whole, tuple(accesses), unordered, objects, granularity))

    def add_fence(self) -> None:
        buffer = self._random_live()
        box = full_box(buffer.decl.shape) if chance(self.draws, 50) else random_box(self.draws, buffer.decl.shape)
        if not buffer.mask([box]) & ~buffer.initialised:
            on_all, to_device = not chance(self.draws, 30), chance(self.draws, 40)
            self.submit(Fence(buffer.decl.number, box, on_all, to_device))

    def add_final_fence(self, number: int) -> None:
        buffer = self.live[number]
        if buffer.initialised == buffer.all_elements:
            self.submit(Fence(number, full_box(buffer.decl.shape)))

    def add_epoch(self) -> None:
        self.submit(Epoch("barrier" if chance(self.draws, 30) else "none"))

    def add_fill(self) -> None:
        target = self._random_live().decl
        box = full_box(target.shape) if chance(self.draws, 50) else random_box(self.draws, target.shape)
        self.submit(Kernel(box, (Access(target.number, "write", mappers.one_to_one()),), operation="fill"))

    def add_copy(self) -> None:
        target = self._random_live().decl
        fitting = [
            number
            for number, buffer in sorted(self.live.items())
            if len(buffer.decl.shape) == len(target.shape) and buffer.decl.kind == target.kind
        ]
        source = self.live[choice(self.draws, fitting)].decl
        extents = [self.draws.integer(1, min(pair)) for pair in zip(target.shape, source.shape, strict=True)]
        there, here = (self._place(extents, decl.shape) for decl in (target, source))
        shift = [new[0] - old[0] for new, old in zip(here, there, strict=True)]
        mapper = mappers.shifted(*shift) if any(shift) else mappers.one_to_one()
        accesses = [Access(target.number, "write", mappers.one_to_one())]
        if self._append_if_legal(accesses, Access(source.number, "read", mapper), there):
            self.submit(Kernel(there, tuple(accesses), operation="copy"))

    def _place(self, extents: list[int], shape: tuple[int, ...]) -> UserBox:
        starts = [self.draws.integer(0, most - extent) for most, extent in zip(shape, extents, strict=True)]
        return tuple((start, start + extent) for start, extent in zip(starts, extents, strict=True))

    # idioms, because they appear rarely by accident

    def add_life_of_an_object(self) -> None:
        """Host tasks that have nothing in common but host objects, and fences among them."""
        shared, other = choice(self.draws, OBJECTS), choice(self.draws, OBJECTS)
        both = tuple(sorted({shared, other}))
        for _ in range(self.draws.integer(2, 5)):
            where = choice(self.draws, PLACES)
            whole = ((0, self.draws.integer(1, 6)),) if where == "split" else ()
            self.submit(HostTask(where, whole, (), unordered=True, objects=choice(self.draws, [both, (shared,)])))
            if chance(self.draws, 25):
                self.submit(ObjectFence(shared, on_all=not chance(self.draws, 30)))

    def add_stencil_loop(self) -> None:
        shape = self.base_shape
        candidates = [n for n, b in self.live.items() if b.decl.shape == shape and b.initialised == b.all_elements]
        if len(candidates) < 2:
            self.add_buffer(shape, "array")
            return
        current, following = candidates[:2]
        extents = [self.draws.integer(0, 2) for _ in shape]
        wrap = tuple(chance(self.draws, 40) for _ in shape) if chance(self.draws, 50) else False
        mapper = mappers.neighborhood(*extents, shape=choice(self.draws, ["axes", "box"]), wrap=wrap)
        mode: Literal["write", "read_write"] = choice(self.draws, ["write", "read_write"])
        options = self.split_options(len(shape), True)[1:]
        steps = self.draws.integer(1, 5)
        is_deep = chance(self.draws, 50)
        for step in range(steps):
            accesses = (Access(following, mode, mappers.one_to_one()), Access(current, "read", mapper))
            kernel = Kernel(full_box(shape), accesses, (), None, *options)
            if is_deep and may_reach(kernel):
                kernel = replace(kernel, reach=tuple(extent * (steps - 1 - step) for extent in extents))
            self.submit(kernel)
            current, following = following, current

    def add_growing_rows(self) -> None:
        # Over so many steps that lookahead foresees how it goes on, or not; the buffer may be larger than that.
        rows = self.draws.integer(1, 6) if chance(self.draws, 60) else self.draws.integer(7, 16)
        columns = self.draws.integer(1, 12)
        buffer = self.add_buffer((rows + weighted(self.draws, [(3, 0), (1, 1), (1, 4)]), columns), "none")
        whole = ((0, columns),)
        all_columns = chance(self.draws, 40)
        for row in range(rows):
            accesses = [Access(buffer.decl.number, "write", mappers.row_of_columns(row))]
            if row:
                past = mappers.fixed(((0, row), (0, columns))) if all_columns else mappers.history(row)
                accesses.append(Access(buffer.decl.number, "read", past))
            self.submit(Kernel(whole, tuple(accesses)))

    def add_many_boxes(self) -> None:
        """A task writes tens to hundreds of boxes; others read the data in other boxes, or in one."""
        extent = self.draws.integer(120, 400) if chance(self.draws, 15) else self.draws.integer(40, 120)
        buffer = self.add_buffer((extent,), "array")
        number, whole = buffer.decl.number, full_box(buffer.decl.shape)
        makers: list[Callable[[], mappers.Mapper]] = [
            mappers.one_to_one,
            mappers.all_,
            lambda: uneven_mappers.scattered(self.draws.integer(0, 20)),
        ]
        makers += [lambda: uneven_mappers.sparse(self.draws.integer(0, 50), 50), lambda: uneven_mappers.periodic(1)]
        makers += [lambda: uneven_mappers.backwards_hull(2, 0), lambda: uneven_mappers.checkerboard(1)]
        target = self.add_buffer(buffer.decl.shape, "none").decl.number
        for _ in range(self.draws.integer(1, 4)):
            writer = choice(self.draws, makers[2:4])()
            self.submit(Kernel(whole, (Access(number, "read_write", writer),), (), *self.split_options(1, False)))
            accesses = (
                Access(target, "write", mappers.one_to_one()),
                Access(number, "read", choice(self.draws, makers)()),
            )
            self.submit(Kernel(whole, accesses, (), *self.split_options(1, False)))

    def _scalars(self) -> list[int]:
        return [n for n, b in self.live.items() if b.all_elements == 1 and b.decl.element_size_bytes == 4]

    def add_life_of_a_scalar(self) -> None:
        """Reductions that include the old value, and between them tasks that could disturb a pending result."""
        shape = choice(self.draws, [(1,), (1, 1), ()])
        number = self.add_buffer(shape, choice(self.draws, ["array", "none"])).decl.number
        nothing = mappers.shifted(*(1 for _ in shape))
        for _ in range(self.draws.integer(2, 7)):
            has_value = bool(self.live[number].initialised)
            event = choice(self.draws, SCALAR_EVENTS)
            if event == "reduce" or not has_value:
                reduction = Reduction(number, choice(self.draws, OPERATORS), has_value and chance(self.draws, 70))
                # Fewer items than ranks, often: the last ranks then have no share.
                whole = full_box((self.draws.integer(1, 3),) if chance(self.draws, 40) else self.base_shape)
                options = self.split_options(len(whole), True)
                if chance(self.draws, 30):
                    # Only some ranks have a block, or a rank has more than it collects before it combines.
                    begin = self.draws.integer(0, 6)
                    whole = ((begin, begin + choice(self.draws, [1, 2, 30])),)
                    options = (None, "cyclic", 1, 0, 1, ())
                self.submit(Kernel(whole, (), (reduction,), *options))
            elif event == "nothing" and shape:
                access = Access(number, choice(self.draws, MODES), nothing)
                self.submit(Kernel(full_box(shape), (access,)))
            elif event == "some read" and shape:
                self._read_scalar(number, mappers.nothing_in_first_half())
            elif event == "all read":
                self._read_scalar(number, mappers.all_())
            elif event == "fence":
                self.submit(Fence(number, full_box(shape), on_all=chance(self.draws, 50)))
            elif event == "wait":
                self.add_epoch()
            elif event == "host":
                access = Access(number, choice(self.draws, MODES[::2]), mappers.all_())
                self.submit(HostTask("master" if chance(self.draws, 50) else "once", (), (access,)))
        if chance(self.draws, 20):
            del self.live[number]
            self.program.steps.append(Destroy(number))

    def _read_scalar(self, number: int, mapper: mappers.Mapper) -> None:
        target = self.add_buffer((self.draws.integer(1, 12),), "none").decl
        accesses = (Access(target.number, "write", mappers.one_to_one()), Access(number, "read", mapper))
        self.submit(Kernel(full_box(target.shape), accesses))

    def _targets(self) -> list[int]:
        return [
            n for n, b in self.live.items() if b.decl.kind == (4, 0) and b.all_elements.bit_length() <= MOST_REDUCED
        ]

    def add_reduction(self) -> None:
        targets = self._targets()
        if not targets or chance(self.draws, 40):
            self.add_buffer(choice(self.draws, [(1,), (), (1, 1), (1, 1, 1)]))
            targets = self._targets()
        shape = self.base_shape if chance(self.draws, 60) else self.random_shape()
        whole = full_box(shape)
        accesses: list[Access] = []
        reductions: list[Reduction] = []
        for _ in range(1 if chance(self.draws, 75) else 2):
            number = choice(self.draws, targets)
            if all(reduction.buffer != number for reduction in reductions):
                live = self.live[number]
                include = live.initialised == live.all_elements and chance(self.draws, 50)
                reductions.append(Reduction(number, choice(self.draws, OPERATORS), include))
        self._add_reads(accesses, whole)
        taken = {reduction.buffer for reduction in reductions}
        accesses = [access for access in accesses if access.buffer not in taken]
        options = self.split_options(len(whole), True)
        self.submit(Kernel(whole, tuple(accesses), tuple(reductions), *options))


def seeded_program(seed: int) -> Program:
    return ProgramGenerator(SeededDraws(seed)).generate()
