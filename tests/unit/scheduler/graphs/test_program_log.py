# SPDX-License-Identifier: MIT
"""Digests of the program: equal for equal programs, on any rank; and the first entry that differs is found."""

from __future__ import annotations

from collections.abc import Callable

from celerity_py import _native_testing, access
from celerity_py._native import SPLITS, Box, RangeMapper, Region, Task
from tests.support.planned_rank import READ, Planned


def test_ranks_that_run_the_same_program_have_the_same_digest() -> None:
    with Planned(0) as one, Planned(1) as other:
        for rank in (one, other):
            u = rank.buffer()
            for _ in range(100):
                rank.kernel(u)
            _native_testing.submit_task(rank.scheduler, _native_testing.make_fence(u, Box((0,), (8,)), 0))
            _native_testing.submit_task(rank.scheduler, _native_testing.make_epoch())
        assert one.latest() == other.latest()
        assert one.latest()[0] == 1 + 1 + 100 + 2  # the first epoch counts


def tabled(result: Callable[[Box], Region]) -> Callable[[Planned], RangeMapper]:
    """The mapper that `custom_mappers` makes of a callable. Each rank evaluates it for chunks of its devices, too."""

    def make(rank: Planned) -> RangeMapper:
        chunks = rank.scheduler.chunks_for(Task.kernel(Box((0,), (8,))))
        return RangeMapper.table([(chunk, result(chunk)) for chunk in chunks])

    return make


def test_results_of_callables_are_compared_for_what_all_ranks_ask_for() -> None:
    same = tabled(lambda chunk: Region([chunk]))
    all_of_it = tabled(lambda _: Region([Box((0,), (8,))]))
    with Planned(0) as one, Planned(1) as other, Planned(1) as third:
        for rank, mapper in ((one, same), (other, same), (third, all_of_it)):
            rank.kernel(rank.buffer(), mapper(rank), mode=READ)
        assert one.latest() == other.latest()
        assert one.latest() != third.latest()


DIFFERENCES: dict[str, Callable[[Planned], None]] = {
    "buffer shape": lambda rank: rank.kernel(rank.buffer((9,))),
    "dtype": lambda rank: rank.kernel(rank.buffer(dtype="int32")),
    "buffer name": lambda rank: rank.kernel(rank.buffer(name="v")),
    "contents": lambda rank: rank.kernel(rank.buffer(contents=5)),
    "kernel name": lambda rank: rank.kernel(rank.buffer(), name="other"),
    "code": lambda rank: rank.kernel(rank.buffer(), origin=(3, 2)),
    "values": lambda rank: rank.kernel(rank.buffer(), origin=(1, 3)),
    "index space": lambda rank: rank.kernel(rank.buffer(), box=Box((0,), (7,))),
    "mode": lambda rank: rank.kernel(rank.buffer(), mode=READ),
    "mapper": lambda rank: rank.kernel(rank.buffer(), access.fixed(Box((0,), (1,))), mode=READ),
    "halo": lambda rank: rank.kernel(rank.buffer(), access.neighborhood(2), mode=READ),
    "another halo": lambda rank: rank.kernel(rank.buffer(), access.neighborhood(1), mode=READ),
    "oversubscription": lambda rank: rank.kernel(rank.buffer(), oversubscribe=2),
    "constrain": lambda rank: rank.kernel(rank.buffer(), granularity=(2,)),
    "weights": lambda rank: rank.kernel(rank.buffer(), split=SPLITS.index("weights"), weights=(3.0, 1.0)),
    "other weights": lambda rank: rank.kernel(rank.buffer(), split=SPLITS.index("weights"), weights=(1.0, 3.0)),
    "block": lambda rank: rank.kernel(rank.buffer(), split=SPLITS.index("cyclic"), block=2),
    "border": lambda rank: rank.kernel(rank.buffer(), border=1),
    "reduction": lambda rank: rank.kernel(rank.buffer(), reductions=[(rank.buffer((1,)), "sum", "float32", False)]),
    "another operation": lambda rank: rank.kernel(
        rank.buffer(), reductions=[(rank.buffer((1,)), "max", "float32", False)]
    ),
    "current value": lambda rank: rank.kernel(rank.buffer(), reductions=[(rank.buffer((1,)), "max", "float32", True)]),
    "callable": lambda rank: _reduce(rank, "join", 7),
    "name of a callable": lambda rank: _reduce(rank, "merge", 7),
    "code of a callable": lambda rank: _reduce(rank, "join", 8),
    "a host task": lambda rank: _host_task(rank, "master"),
    "on once": lambda rank: _host_task(rank, "once"),
    "in a group": lambda rank: _host_task(rank, "once", "'a'"),
    "fence": lambda rank: _fence(rank, 8, True),
    "fence of a box": lambda rank: _fence(rank, 4, True),
    "fence on the master": lambda rank: _fence(rank, 8, False),
    "fence to a device": lambda rank: _fence(rank, 8, True, to_device=True),
    "wait": lambda rank: _epoch(rank, "none"),
    "barrier": lambda rank: _epoch(rank, "barrier"),
    "nothing more": lambda rank: _forget(rank.buffer()),
}


def _reduce(rank: Planned, name: str, digest: int) -> None:
    rank.kernel(rank.buffer(), reductions=[(rank.buffer((1,)), "callable", "other", False, 0, name, digest)])


def _host_task(rank: Planned, on: str, group: str = "") -> None:
    accesses = [(rank.buffer(), READ, access.all())]
    task = Task.host_task(Box((), ()), on, origin=(1, 2), group=group)
    _native_testing.submit_task(rank.scheduler, _native_testing.with_accesses(task, accesses, "step"))


def _fence(rank: Planned, stop: int, on_all: bool, *, to_device: bool = False) -> None:
    fence = _native_testing.make_fence(rank.buffer(), Box((0,), (stop,)), 0, on_all, to_device)
    _native_testing.submit_task(rank.scheduler, fence)


def _epoch(rank: Planned, action: str) -> None:
    rank.buffer()
    _native_testing.submit_task(rank.scheduler, _native_testing.make_epoch(action))


def _forget(_: int) -> None:
    pass


def test_whatever_ranks_must_agree_on_changes_the_digest() -> None:
    digests = {}
    for name, program in DIFFERENCES.items():
        with Planned() as rank:
            program(rank)
            digests[name] = rank.latest()[1]
    assert len(set(digests.values())) == len(DIFFERENCES)


def test_a_claim_is_compared_at_once_or_when_its_entry_comes() -> None:
    with Planned(0) as one, Planned(1) as other:
        for rank in (one, other):
            rank.kernel(rank.buffer())
        one.kernel(1)
        other.kernel(1, name="other")
        ahead = other.latest()
        one.latest()
        assert one.log.compare(1, 2, 1) is False  # at once
        assert one.log.divergence == (1, 2)

    with Planned(0) as one:
        assert one.log.compare(1, *ahead)
        one.kernel(one.buffer())
        one.latest()
        assert not one.log.has_diverged
        one.kernel(1)
        one.latest()
        assert one.log.divergence == (1, ahead[0])


def test_the_first_difference_is_found_by_the_digests() -> None:
    with Planned(0) as one, Planned(1) as other:
        for rank in (one, other):
            u = rank.buffer()
            for i in range(200):
                rank.kernel(u, name="odd" if rank is other and i == 150 else "step")
            rank.latest()
        mine, theirs = (rank.log.digests(1, 1, 1000) for rank in (one, other))
        assert len(mine) == 202
        first = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b) + 1
        assert first == 1 + 1 + 150 + 1
        _, aspects = other.log.describe(first) or (0, [])
        assert (dict(aspects)["kind"], dict(aspects)["name"]) == ("kernel", '"odd"')
        assert dict(aspects)["accesses"] == "write B1 by one_to_one()"
        assert one.log.digests(1, 50, 1000) == mine[::50]


def test_a_fence_is_described_with_a_box_of_as_many_dimensions_as_its_buffer() -> None:
    with Planned() as rank:
        _fence(rank, 4, True)
        latest, _ = rank.latest()
        _, aspects = rank.log.describe(latest) or (0, [])
        assert dict(aspects)["box"] == "[0:4]"


def test_an_entry_to_come_and_one_too_old_cannot_be_described() -> None:
    with Planned() as rank:
        u = rank.buffer()
        for _ in range(2100):
            rank.kernel(u)
        latest, _ = rank.latest()
        assert rank.log.describe(latest) is not None
        assert rank.log.describe(latest + 1) is None
        assert rank.log.describe(1) is None
        assert rank.log.oldest == 1


def test_digests_depend_on_every_byte_of_a_name_and_on_its_length() -> None:
    digests = set()
    names = ["", "\0", "a", "b", "a\0", "12345678", "123456789", "\x0012345678"]
    for name in names:
        with Planned() as rank:
            rank.kernel(rank.buffer(), name=name)
            digests.add(rank.latest()[1])
    assert len(digests) == len(names)
