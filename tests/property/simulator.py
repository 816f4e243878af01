# SPDX-License-Identifier: MIT
"""Runs a program on all ranks in one process, each with its real executor: loop, dispatch, engine and transports.

Only the surroundings of the executor are not real: lanes of devices (`_native_testing.ScriptedDevices`), the network,
and who calls user functions. One random number generator decides which rank looks at its inbox, which lane makes a
step, when messages and pilots arrive and when a function begins. A run in which nothing can go on is a deadlock.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, TypeVar

from celerity_py._native import Payload
from tests.property.interpreter import Meaning, interpret
from tests.property.programs import Epoch, Program
from tests.property.simulated_rank import SimulatedRank, SimulationError, cells_of_payload
from tests.verification.graph_records import Trace

T = TypeVar("T")


class World:
    """All ranks, and the messages between them."""

    def __init__(self, program: Program, seed: int | None = None, **options: Any) -> None:
        """`options` are those of `make_scripted_executor`, instead of random ones."""
        settings = program.settings
        self.program = program
        self.meaning: Meaning = interpret(program)
        # Of the whole program: seeds alone that hypothesis draws are alike too often.
        self.random = Random(str(program) if seed is None else seed)
        self.paths: Counter[str] = Counter()
        self.pilots: list[list[tuple[int, bytes]]] = [[] for _ in range(settings.num_ranks)]
        self.sends: dict[tuple[int, int, int], tuple[Payload, Any]] = {}
        """(source, destination, message) -> where it is, and its data if it has left already."""
        self.sent: list[list[int]] = [[] for _ in range(settings.num_ranks)]
        self.barrier: dict[int, int] = {}
        self.num_barriers = 0
        self.most_considered = 6
        """Of the possible next actions of one kind on a rank."""
        self.is_desperate = False
        """Nothing has been found that could happen: everything is looked at."""
        self.pace_of_slow = self.random.choice([1.0, 0.1, 0.01])
        is_stream_like = settings.single_fifo or self.random.random() < 0.6
        self.is_stream_like = options.setdefault("stream_like", is_stream_like)
        self.native_share = self.random.choice([0.0, 0.5, 1.0])
        self.application_weight = self.random.choice([0.05, 0.3, 0.9])
        self.has_templates = self.random.random() < 0.7
        self.run_share = self.random.choice([0.1, 0.5, 0.9])
        self._common = {
            "compute_lanes": settings.compute_lanes if self.is_stream_like else 1,
            "other_lanes": 1 if settings.compute_lanes == 1 else 2,
            "single_fifo": settings.single_fifo,
            "host_copies_apart": self.random.random() < 0.5,
            "lane_events": self.random.random() < 0.9,
            "sync": not settings.direct_pairs and self.random.random() < 0.1,
            "most_on_a_lane": self.random.choice([120, 3, 2]),
            "kernel_order": self.random.choice(["age", "path", "predecessors"]),
            **options,
        }
        self._overwrites_wait = self.random.random() < 0.7
        self.ranks = [SimulatedRank(self, rank) for rank in range(settings.num_ranks)]
        self._connect()
        for rank in self.ranks:
            rank.submit_new()

    def choose_slow_lanes(self, lanes: list[tuple[str, int]]) -> frozenset[int]:
        """Those that fetch from other ranks, which owners of data may wait for to overwrite it, and some others."""
        share = self.random.choice([0.0, 0.2])
        slow = (n for n, (kind, _) in enumerate(lanes) if kind == "pull" or self.random.random() < share)
        return frozenset(slow) if self.pace_of_slow < 1 else frozenset()

    def executor_options(self, rank: int) -> dict[str, Any]:
        direct = any(self.program.settings.direct_ranks(rank))
        return self._common | {"direct": direct, "overwrites_wait": direct and self._overwrites_wait}

    def _connect(self) -> None:
        settings = self.program.settings
        if not settings.direct_pairs:
            return
        numbers = [*range(settings.num_ranks)]
        direct = [rank for rank in self.ranks if any(settings.direct_ranks(rank.rank))]
        offers = {rank.rank: rank.executor.offer_direct(numbers) for rank in direct}
        for rank in direct:
            peers = [peer for peer, is_peer in enumerate(settings.direct_ranks(rank.rank)) if is_peer]
            for peer in peers:
                rank.executor.open_direct(peer, offers[peer])
            rank.executor.agree_direct(peers)

    @property
    def traces(self) -> list[Trace]:
        return [rank.context.trace for rank in self.ranks]

    @property
    def num_expanded(self) -> int:
        """Repetitions of recordings, and tasks of plain loops, from templates: there are no records of their graphs."""
        natives = [rank.context.native for rank in self.ranks]
        return sum(native.expanded_repetitions + native.repeated_tasks for native in natives)

    def run(self) -> Counter[str]:
        """Returns how often each kind of instruction and each copy path occurred."""
        try:
            while self._go_on():
                pass
            self._require_nothing_left()
        except SimulationError as error:
            error.add_note(f"\n{self.program}")
            raise
        finally:
            for rank in self.ranks:
                rank.executor.stop()
        return self.paths

    def _require_nothing_left(self) -> None:
        left = [text for rank in self.ranks for text in rank.leftovers()]
        if len(self.ranks) > 1:
            steps = [step for step in self.program.steps if isinstance(step, Epoch) and step.action == "barrier"]
            if self.num_barriers != len(steps):
                left.append(f"{self.num_barriers} barriers instead of {len(steps)}")
        if left or self.sends or any(self.pilots):
            left.append(f"messages {[*self.sends][:5]}, pilots for {[len(pilots) for pilots in self.pilots]}")
            raise SimulationError("deadlock, or something left over:\n" + "\n".join(left))

    def some_of(self, candidates: list[T]) -> list[T]:
        """Neighbours among them: to look at all each time would make the simulation of many messages slow."""
        if len(candidates) <= self.most_considered or self.is_desperate:
            return candidates
        start = self.random.randrange(len(candidates))
        return candidates[start : start + self.most_considered]

    def _go_on(self) -> bool:
        """Something happens; False if nothing can."""
        order = self.random.sample(self.ranks, len(self.ranks))
        for rank in order:
            if not rank.has_ended and self.random.random() < self.application_weight:
                rank.step_application()
                return True
            if self.random.random() < self.run_share:
                rank.run()
            if actions := rank.actions():
                self.random.choice(actions)()
                return True
        for rank in order:
            if not rank.has_ended:
                rank.step_application()
                return True
        return self._can_go_on_after_all()

    def _can_go_on_after_all(self) -> bool:
        """A step of one executor may be news for another one, in shared memory only."""
        self.is_desperate = True
        actions = [action for rank in self.ranks for action in rank.actions()]
        left = most = 2 + len(self.ranks)
        while left > 0:
            has_events = [rank.run() for rank in self.ranks]
            left = most if any(has_events) else left - 1
            actions = actions or [action for rank in self.ranks for action in rank.actions()]
        self.is_desperate = False
        if actions:
            self.random.choice(actions)()
        return bool(actions)

    # between ranks

    def deliver(self, to: int, entry: tuple[int, bytes]) -> None:
        self.pilots[to].remove(entry)
        self.ranks[to].executor.notify_pilot(*entry)

    def start_send(self, source: int, payload: Payload) -> None:
        is_eager = self.random.random() < 0.3  # small messages leave at once
        cells = cells_of_payload(payload).copy() if is_eager else None
        self.sends[(source, payload.peer_rank, payload.message)] = (payload, cells)
        if is_eager:
            self.sent[source].append(payload.request)

    def transfer(self, to: int, key: tuple[int, int]) -> None:
        payload, data = self.sends.pop((key[0], to, key[1]))
        receive = self.ranks[to].receives.pop(key)
        found = cells_of_payload(payload) if data is None else data
        target = cells_of_payload(receive)
        if found.size != target.size:
            raise SimulationError(f"rank {to} expects {target.size} cells in message {key}, and {found.size} come")
        target[...] = found.reshape(target.shape)
        if data is None:
            self.sent[key[0]].append(payload.request)
        self.ranks[to].executor.notify_complete(receive.request)

    def enter_barrier(self, rank: int, request: int) -> None:
        self.barrier[rank] = request
        if len(self.barrier) == len(self.ranks):
            entered, self.barrier = self.barrier, {}
            self.num_barriers += 1
            for number, id_ in entered.items():
                self.ranks[number].executor.notify_complete(id_)
