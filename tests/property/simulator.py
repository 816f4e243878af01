# SPDX-License-Identifier: MIT
"""Runs a program on all ranks in one process: real generators, engine and receive arbiter, random order of events.

Whatever the real world may decide is decided by one random number generator: which rank goes on, which lane finishes
next, when a message arrives, when the scheduler hears of a horizon. A run in which nothing can go on is a deadlock.

With `device_waits`, transfers between direct peers do as the direct transport does: sends and receives are operations
of lanes that write and wait for flags, and the sender's host hears later that its data was fetched.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import Random
from typing import TypeVar

from celerity_py import _native
from tests.allocations import CELL_BYTES, cells_of
from tests.contexts import RankContext
from tests.elements import FlatBox, flat_size
from tests.property.interpreter import Meaning, Words, interpret
from tests.property.machine import Machine, SimulationError
from tests.property.programs import Program, Settings
from tests.trace import Record, Trace

T = TypeVar("T")
Action = Callable[[], None]
RECEIVES = ("receive", "split_receive", "await_receive", "gather_receive")


@dataclass
class Lane:
    """An in-order queue. Sequence numbers tell how far it has got."""

    device: int
    queue: deque[tuple[int, int, list[tuple[int, int]], list[int]]] = field(default_factory=deque)
    enqueued: int = 0
    reached: int = 0


@dataclass
class Message:
    """A send under way; done once all of its elements were fetched."""

    instruction: int
    record: Record
    remaining: int
    eager: Words | None = None


@dataclass
class Pull:
    """A receive on a lane: held until all of its parts are known, and messages among them are here."""

    parts: list[Record] = field(default_factory=list)
    is_released: bool = False


class LaneTable:
    """Which lane class an instruction goes to, and how many lanes there are."""

    def __init__(self, settings: Settings, host_domain: int) -> None:
        self.classes: list[tuple[str, int, int, int]] = []
        self._numbers: dict[tuple[str, int], int] = {}
        for device in range(settings.num_devices):
            self._add("compute", device, settings.compute_lanes, 0)
            for kind in ("host_to_device", "device_to_host", "peer"):
                self._add(kind, device, 1 if settings.compute_lanes == 1 else 2, 0)
            for role in ("pull", "signal"):
                self._add("peer", device, 1 if settings.compute_lanes == 1 else 2, 0, role)
        self._add("host_copy", -1, 1, host_domain)

    def _add(self, kind: str, device: int, size: int, domain: int, role: str = "") -> None:
        self._numbers[(role or kind, device)] = len(self.classes)
        self.classes.append((kind, max(device, 0), size, domain))

    def number(self, kind: str, device: int) -> int:
        return self._numbers[(kind, device)]

    def class_of_copy(self, source: int, destination: int) -> int:
        if destination >= 2:
            kind = "host_to_device" if source < 2 else "compute" if source == destination else "peer"
            return self.number(kind, destination - 2)
        if source >= 2:
            return self.number("device_to_host", source - 2)
        return self.number("host_copy", -1)

    def lanes(self) -> list[Lane]:
        return [
            Lane(device if kind != "host_copy" else -1) for kind, device, size, _ in self.classes for _ in range(size)
        ]


class RankSimulation:
    """One rank: application, scheduler, engine and lanes."""

    def __init__(self, world: World, rank: int) -> None:
        settings = world.program.settings
        self.world = world
        self.rank = rank
        self.context = RankContext(settings, rank)
        self.machine = Machine(self.context.trace, world.meaning, world.program.buffers)
        self.table = LaneTable(settings, world.random.choice([0, 1]))
        self.engine = _native.Engine(self.table.classes)
        self.arbiter = _native.ReceiveArbiter()
        self.lanes = self.table.lanes()
        self.steps = deque(world.program.steps)
        self.has_ended = False
        self.records: dict[int, Record] = {}
        self.place: dict[int, tuple[int, int]] = {}
        self.host_ops: list[int] = []
        self.is_direct = world.program.settings.device_waits and any(world.program.settings.direct_ranks(rank))
        self.overwrites_wait = self.is_direct and world.random.random() < 0.7
        self.pulls: dict[int, Pull] = {}
        """Receives that wait on a lane for what other ranks write; the arbiter knows of them from submission on."""
        self.unannounced: list[Record] = []
        """Pilots of direct sends whose source does not exist yet."""
        self.bounced: dict[tuple[int, int], Words] = {}
        """What came as a message for receives on lanes."""
        self.slow: set[int] = set()
        """Instructions on lanes that take long to begin, or to be launched."""
        self.early_flags: dict[int, tuple[int, int]] = {}
        """Sends whose flag may be written right behind what they depend on, whatever their own lane does."""
        self.written_early: set[int] = set()
        """Those of them whose lane has not come past them yet."""
        self.answered: set[int] = set()
        """Direct sends whose data was fetched, as lanes may know before the host does."""
        self.deferred: set[int] = set()
        """Kernels that a launcher thread enqueues, and has not yet."""
        self.unnotified: list[int] = []
        """Those of them that have a lane."""
        self.posts: list[Record] = []
        self.reached: deque[int] = deque()
        self.fifos: dict[int, deque[int]] = {device: deque() for device in range(-1, settings.num_devices)}
        self.user_allocations_seen = 0
        self._submit_new()

    # application and scheduler

    def step_application(self) -> None:
        if self.steps:
            self.context.apply(self.steps.popleft())
        else:
            self.context.finish()
            self.has_ended = True
        self._submit_new()

    def notify_scheduler(self) -> None:
        self.context.native.notify_epoch_reached(self.reached.popleft())
        self._submit_new()

    def _submit_new(self) -> None:
        instructions, pilots = self.context.take()
        for raw in range(self.user_allocations_seen + 1, len(self.context.trace.user_allocations) + 1):
            self.machine.add_user_allocation(raw)
        self.user_allocations_seen = len(self.context.trace.user_allocations)
        for record in instructions:
            self._submit(record)
        for pilot in pilots:
            if self.is_send_direct(pilot["send"]):
                self.unannounced.append(pilot)
            else:
                self.world.send_pilot(self.rank, pilot)
        if instructions:
            self._announce()
            self._completed(self.engine.take_completed())
            self._issue()

    def _submit(self, record: Record) -> None:
        kind = record["kind"]
        self.records[record["id"]] = record
        self.machine.paths[kind] += 1
        target, lane_class, deferred, remote_wait, acknowledged = "host", 0, False, False, False
        if kind == "device_kernel":
            target, lane_class = "lane", self.table.number("compute", record["device"])
            deferred = self.world.random.random() < 0.5
        elif kind == "copy":
            target, lane_class = "lane", self.table.class_of_copy(record["source"][0], record["destination"][0])
        elif kind == "gather_copy":
            target, lane_class = "lane", self.table.number("peer", record["destination"][0] - 2)
        elif kind == "receive" and self.is_direct:
            device = max(record["destination"][0] - 2, 0)
            target, lane_class, remote_wait = "lane", self.table.number("pull", device), True
        elif self._is_direct_send(record):
            target, lane_class, acknowledged = "lane", self.table.number("signal", record["source"][0] - 2), True
        elif kind == "horizon" or (kind == "epoch" and record["action"] != "barrier"):
            target = "clock"
        if kind == "send" and record["source"][0] >= 2:
            self.machine.paths["send from device memory"] += 1
        if kind in RECEIVES and record["destination"][0] >= 2:
            self.machine.paths[f"{kind} into device memory"] += 1
        self.engine.submit(
            *(record["id"], record["priority"], tuple(record["key"]), list(record["dependencies"]), target, lane_class),
            deferred=deferred,
            remote_wait=remote_wait,
            acknowledged=acknowledged,
            awaits_acknowledgements=self.overwrites_wait and target == "lane" and not acknowledged and not deferred,
            held=remote_wait or acknowledged,
        )
        if remote_wait or self.world.random.random() < self.world.share_of_slow:
            self.slow.add(record["id"])
        if deferred:
            self.deferred.add(record["id"])
        if remote_wait:
            self.pulls[record["id"]] = Pull()
            self._start_receive(record)

    def is_send_direct(self, id_: int) -> bool:
        return id_ in self.records and self._is_direct_send(self.records[id_])

    def _is_direct_send(self, record: Record) -> bool:
        return self.is_direct and record["kind"] == "send" and record["source"][0] >= 2

    def _announce(self) -> None:
        """Pilots of direct sends name an allocation, so they leave when it exists; until then the send is held."""
        for pilot in list(self.unannounced):
            source = self.records[pilot["send"]]["source"]
            if (source[0], source[1]) in self.machine.allocations:
                self.unannounced.remove(pilot)
                self.world.send_pilot(self.rank, pilot)
                self.engine.release(pilot["send"])

    # engine

    def _issue(self) -> None:
        while (issued := self.engine.next()) is not None:
            id_, lane, sequence, waits, acknowledgements = issued
            if lane < 0:
                self.host_ops.append(id_)
                continue
            self.place[id_] = (lane, sequence)
            self.lanes[lane].queue.append((id_, sequence, list(waits), list(acknowledgements)))
            if self.engine.depended_on_one and self._is_direct_send(self.records[id_]):
                self.early_flags[id_] = waits[0]
            if id_ in self.deferred:
                self.unnotified.append(id_)
            self._enqueue(self.lanes[lane])

    def _enqueue(self, lane: Lane) -> None:
        """What is on a lane reaches the device in order; a launcher thread that is late holds up its lane."""
        for id_, sequence, *_ in lane.queue:
            if sequence > lane.enqueued:
                if id_ in self.deferred:
                    return
                lane.enqueued = sequence
                self.fifos[lane.device].append(id_)

    def _is_next_to_enqueue(self, id_: int) -> bool:
        lane, sequence = self.place[id_]
        return self.lanes[lane].enqueued == sequence - 1

    def _notify_issued(self, id_: int) -> None:
        self.unnotified.remove(id_)
        self.deferred.discard(id_)
        self._enqueue(self.lanes[self.place[id_][0]])
        self.engine.notify_issued(id_)
        self._issue()

    def complete(self, id_: int) -> None:
        self._completed(self.engine.complete(id_))
        self._issue()

    def _completed(self, ids: list[int]) -> None:
        for id_ in ids:
            record = self.records[id_]
            if record["kind"] in ("horizon", "epoch"):
                self.reached.append(record["task"])

    # what may happen next

    def actions(self) -> list[Action]:
        result: list[Action] = [
            partial(self._run_lane, lane)
            for lane in self.lanes
            if lane.queue and lane.queue[0][0] not in self.slow and self._is_runnable(lane)
        ]
        result += [
            partial(self._write_early, id_)
            for id_, (lane, sequence) in self.early_flags.items()
            if self.lanes[lane].reached >= sequence
        ]
        result += [partial(self._run_host, id_) for id_ in self.world.some_of(self.host_ops)]
        result += self._launches(slow=False)
        posts = [post for post in self.world.some_of(self.posts) if self.world.may_fetch(self.rank, post)]
        return result + [partial(self._fetch, post) for post in posts]

    def slow_actions(self) -> list[Action]:
        """Receives on lanes, which owners of data may wait for to overwrite it, and whatever else takes long."""
        result: list[Action] = [
            partial(self._run_lane, lane)
            for lane in self.lanes
            if lane.queue and lane.queue[0][0] in self.slow and self._is_runnable(lane) and self._is_ready(lane)
        ]
        return result + self._launches(slow=True)

    def _launches(self, *, slow: bool) -> list[Action]:
        return [
            partial(self._notify_issued, id_)
            for id_ in self.unnotified
            if (id_ in self.slow) == slow and self._is_next_to_enqueue(id_)
        ]

    def _is_ready(self, lane: Lane) -> bool:
        """The next part of a receive is there."""
        id_ = lane.queue[0][0]
        pull = self.pulls.get(id_)
        if pull is None:
            return True
        if not pull.is_released:
            raise SimulationError(f"rank {self.rank}: I{id_} was issued before its parts are known")
        return not pull.parts or self._is_here(pull.parts[0])

    def _is_here(self, part: Record) -> bool:
        return (part["source"], part["message"]) in self.bounced or self.world.may_fetch(self.rank, part)

    def _is_runnable(self, lane: Lane) -> bool:
        id_, _, waits, acknowledgements = lane.queue[0]
        if not self.answered.issuperset(acknowledgements):
            return False
        if lane.enqueued < lane.queue[0][1]:
            return False
        if self.world.program.settings.single_fifo and lane.device >= 0 and self.fifos[lane.device][0] != id_:
            return False
        return all(self.lanes[other].reached >= sequence for other, sequence in waits)

    def _run_lane(self, lane: Lane) -> None:
        record = self.records[lane.queue[0][0]]
        if record["id"] in self.pulls:
            parts = self.pulls[record["id"]].parts
            if parts:
                self._store(parts.pop(0))
            if parts:
                return
            del self.pulls[record["id"]]
        elif record["kind"] == "copy":
            self.machine.copy(record)
        elif record["kind"] == "gather_copy":
            self.machine.gather_copy(record)
        elif record["kind"] == "send":
            self.early_flags.pop(record["id"], None)
            if record["id"] in self.written_early:
                self.written_early.remove(record["id"])
            else:
                self.world.start_send(self.rank, record)
        else:
            self.machine.run_task(record)
        self._leave_lane(lane)

    def _write_early(self, id_: int) -> None:
        del self.early_flags[id_]
        self.written_early.add(id_)
        self.world.start_send(self.rank, self.records[id_])

    def _leave_lane(self, lane: Lane) -> None:
        id_, sequence, *_ = lane.queue.popleft()
        self.fifos[lane.device].remove(id_)
        lane.reached = sequence
        self._completed(self.engine.complete_lane(self.place[id_][0], sequence))
        self._issue()

    def _run_host(self, id_: int) -> None:
        self.host_ops.remove(id_)
        record = self.records[id_]
        kind = record["kind"]
        if kind in RECEIVES:
            self._start_receive(record)
        elif kind == "send":
            self.world.start_send(self.rank, record)
        elif kind == "epoch":
            self.world.enter_barrier(self.rank, record)
        else:
            getattr(self.machine, "run_task" if kind == "host_task" else kind)(record)
            if kind == "alloc":
                self._announce()
            self.complete(id_)

    # transfers

    def _start_receive(self, record: Record) -> None:
        transfer, destination = tuple(record["transfer"]), tuple(record["destination"])
        if record["kind"] == "await_receive":
            self.arbiter.await_receive(record["id"], transfer, destination, record["boxes"])
        elif record["kind"] == "gather_receive":
            slots = (record["bytes_per_slot"], record["sources"], record["slots"])
            self.arbiter.gather_receive(record["id"], transfer, destination, *slots)
        else:
            start = getattr(self.arbiter, record["kind"])
            start(
                *(
                    record["id"],
                    transfer,
                    record["boxes"],
                    destination,
                    record["allocated_box"],
                    record["element_size_bytes"],
                )
            )
        self.poll_arbiter()

    def deliver_pilot(self, source: int, pilot: Record) -> None:
        self.arbiter.pilot(source, pilot["message"], tuple(pilot["transfer"]), pilot["sent_box"])
        self.poll_arbiter()

    def poll_arbiter(self) -> None:
        for post in self.arbiter.take_posts():
            pull = self.pulls.get(post["instruction"])
            if pull is None:
                self.posts.append(post)
                continue
            pull.parts.append(post)
            if self.world.is_direct_message(self.rank, post) or (post["source"], post["message"]) in self.bounced:
                self.arbiter.complete(post["fragment"])
            else:
                self.posts.append(post)
        for id_ in self.arbiter.take_completed():
            if id_ in self.pulls:
                self._release(id_)
            else:
                self.complete(id_)

    def _release(self, id_: int) -> None:
        pull = self.pulls[id_]
        pull.is_released = True
        if all(map(self._is_here, pull.parts)) and self.world.random.random() < 0.5:
            self.engine.notify_remote_ready(id_)
        self.engine.release(id_)
        self._issue()

    def _fetch(self, post: Record) -> None:
        """A message arrives: in place, or aside for the receives on lanes that take parts of it."""
        self.posts.remove(post)
        if post["instruction"] not in self.pulls:
            self._store(post)
        elif (key := (post["source"], post["message"])) not in self.bounced:
            self.bounced[key] = self.world.fetch(self.rank, post | {"box": post["message_box"]})
        self.arbiter.complete(post["fragment"])
        self.poll_arbiter()

    def _store(self, post: Record) -> None:
        words = self.bounced.get((post["source"], post["message"]))
        if words is None:
            words = self.world.fetch(self.rank, post)
        else:
            cells, _ = cells_of(tuple(post["message_box"]), (tuple(post["box"]),), post["element_size"] // CELL_BYTES)
            words = words[cells]
        destination = self.machine.cells(post["destination"])
        cells, _ = cells_of(tuple(post["allocated_box"]), (tuple(post["box"]),), post["element_size"] // CELL_BYTES)
        destination[cells + post["offset_bytes"] // CELL_BYTES] = words

    # the end

    def leftovers(self) -> list[str]:
        left = []
        if self.engine.num_live:
            left.append(f"{self.engine.num_live} live instructions: {self.engine.unissued()} {self.engine.in_flight()}")
        if self.arbiter.num_open or self.arbiter.num_unclaimed_pilots or self.posts or self.pulls or self.unannounced:
            left.append(f"{self.arbiter.num_open} open receives, {self.arbiter.num_unclaimed_pilots} unclaimed pilots")
        kept = [name for name in self.machine.allocations if name[0] != 0]
        if kept:
            left.append(f"allocations {kept}")
        return [f"rank {self.rank}: {text}" for text in left]


class World:
    """All ranks and what is under way between them."""

    def __init__(self, program: Program, seed: int | None = None) -> None:
        self.program = program
        self.meaning: Meaning = interpret(program)
        self.random = Random(program.settings.seed if seed is None else seed)
        num_ranks = program.settings.num_ranks
        self.pilots: list[list[tuple[int, Record]]] = [[] for _ in range(num_ranks)]
        """By the rank that they are for."""
        self.messages: dict[tuple[int, int, int], Message] = {}
        self.direct_messages: set[tuple[int, int, int]] = set()
        """Those that were announced as such."""
        self.sent: list[list[int]] = [[] for _ in range(num_ranks)]
        """Sends of each rank whose data has left: they may complete."""
        self.most_considered = 6
        """Of what may happen next on a rank, of one kind."""
        self.barrier: dict[int, int] = {}
        # how eager the application, the messages and the epoch notifications are, per run
        self.application_weight = self.random.choice([0.05, 0.5, 5.0])
        # how often what is slow gets its turn: fetching from other ranks, and some of the work and of the launches
        self.pace_of_slow = self.random.choice([1.0, 0.1, 0.01])
        self.share_of_slow = self.random.choice([0.05, 0.3])
        self.ranks = [RankSimulation(self, rank) for rank in range(program.settings.num_ranks)]

    def run(self) -> Counter[str]:
        """Returns how often each instruction kind and copy path occurred."""
        try:
            while action := self._choose():
                action()
        except SimulationError as error:
            error.add_note(f"\n{self.program}")
            raise
        left = [text for rank in self.ranks for text in rank.leftovers()]
        if not all(rank.has_ended for rank in self.ranks) or left or self.messages or any(self.pilots):
            report = "\n".join([*left, self._report(), str(self.program)])
            raise SimulationError(f"deadlock, or something left over:\n{report}")
        paths: Counter[str] = Counter()
        for rank in self.ranks:
            paths += rank.machine.paths
        return paths

    @property
    def traces(self) -> list[Trace]:
        return [rank.context.trace for rank in self.ranks]

    def some_of(self, candidates: list[T]) -> list[T]:
        """Neighbours among them: to look at all each time would make the simulation of many messages slow."""
        if len(candidates) <= self.most_considered:
            return candidates
        start = self.random.randrange(len(candidates))
        return candidates[start : start + self.most_considered]

    def _choose(self) -> Action | None:
        """A random possible event, None if there is none."""
        if action := self._choose_from_some():
            return action
        self.most_considered, most = sys.maxsize, self.most_considered
        action = self._choose_from_some()
        self.most_considered = most
        return action

    def _choose_from_some(self) -> Action | None:
        order = list(range(len(self.ranks)))
        self.random.shuffle(order)
        for number in order:
            rank = self.ranks[number]
            if not rank.has_ended and self.random.random() < self.application_weight / (1 + self.application_weight):
                return rank.step_application
            actions = rank.actions()
            if rank.reached:
                actions.append(rank.notify_scheduler)
            actions += self._message_actions(number)
            if self.random.random() < self.pace_of_slow:
                actions += rank.slow_actions()
            if actions:
                return self.random.choice(actions)
        for number in order:
            if not self.ranks[number].has_ended:
                return self.ranks[number].step_application
        slow = [action for rank in self.ranks for action in rank.slow_actions()]
        return self.random.choice(slow) if slow else None

    def _message_actions(self, rank: int) -> list[Action]:
        result: list[Action] = [partial(self._deliver, entry) for entry in self.some_of(self.pilots[rank])]
        return result + [partial(self._finish_send, rank, id_) for id_ in self.some_of(self.sent[rank])]

    def send_pilot(self, source: int, pilot: Record) -> None:
        self.pilots[pilot["to"]].append((source, pilot))

    def _deliver(self, entry: tuple[int, Record]) -> None:
        source, pilot = entry
        self.pilots[pilot["to"]].remove(entry)
        if self.ranks[source].is_send_direct(pilot["send"]):
            self.direct_messages.add((source, pilot["to"], pilot["message"]))
        self.ranks[entry[1]["to"]].deliver_pilot(*entry)

    def _finish_send(self, rank: int, id_: int) -> None:
        self.sent[rank].remove(id_)
        self.ranks[rank].complete(id_)

    def start_send(self, rank: int, record: Record) -> None:
        box: FlatBox = tuple(record["sent_box"])
        message = Message(record["id"], record, flat_size(box))
        self.messages[(rank, record["destination_rank"], record["message"])] = message
        if record["source"][0] == 1 and self.random.random() < 0.3:  # small messages leave at once
            message.eager = self._read(rank, record, box).copy()
            self.sent[rank].append(record["id"])

    def _read(self, rank: int, record: Record, box: FlatBox) -> Words:
        place = (tuple(record["source"]), tuple(record["allocated_box"]))
        return self.ranks[rank].machine.read_box(*place, box, record["element_size_bytes"])

    def may_fetch(self, rank: int, post: Record) -> bool:
        return (post["source"], rank, post["message"]) in self.messages or (
            (post["source"], post["message"]) in self.ranks[rank].bounced
        )

    def is_direct_message(self, rank: int, post: Record) -> bool:
        """Whether the lane of the receive fetches it from the sender's memory; its pilot says so."""
        return (post["source"], rank, post["message"]) in self.direct_messages

    def fetch(self, rank: int, post: Record) -> Words:
        key = (post["source"], rank, post["message"])
        message = self.messages[key]
        record = message.record
        if record["transfer"][2]:
            box: FlatBox = tuple(record["sent_box"])
        else:
            box = tuple(post["box"])
            if tuple(post["message_box"]) != tuple(record["sent_box"]):
                raise SimulationError(
                    f"the receiver takes message {key} for {post['message_box']}, it is {record['sent_box']}"
                )
        # A rank with direct peers does not know who will send; there the executor takes MPI payloads apart itself.
        only_mpi = not any(self.program.settings.direct_ranks(rank))
        if only_mpi and (box != tuple(record["sent_box"]) or post["destination"][0] != 1):
            raise SimulationError(f"message {key} comes through MPI, and cannot be received by {post}")
        if message.eager is None:
            words = self._read(post["source"], record, box)
        else:
            cells, _ = cells_of(tuple(record["sent_box"]), (box,), record["element_size_bytes"] // CELL_BYTES)
            words = message.eager[cells]
        message.remaining -= flat_size(box)
        if message.remaining <= 0:
            del self.messages[key]
            if message.eager is None:
                self.sent[post["source"]].append(message.instruction)
                self.ranks[post["source"]].answered.add(message.instruction)
        return words

    def enter_barrier(self, rank: int, record: Record) -> None:
        self.barrier[rank] = record["id"]
        if len(self.barrier) == len(self.ranks):
            entered, self.barrier = self.barrier, {}
            for number, id_ in entered.items():
                self.ranks[number].complete(id_)

    def _report(self) -> str:
        lines = []
        for rank in self.ranks:
            waiting = [rank.records[id_] for id_ in [*rank.engine.in_flight(), *rank.engine.unissued()]]
            lines.append(f"rank {rank.rank}: {len(rank.steps)} statements to go")
            lines += [f"  I{r['id']} {r['kind']} key {r['key']} <- {r['dependencies']}" for r in waiting[:20]]
            lines += [
                f"  lane {number}: {list(lane.queue)[:3]}" for number, lane in enumerate(rank.lanes) if lane.queue
            ]
        pilots = [*chain(*self.pilots)][:5]
        lines.append(f"pilots under way: {pilots}, messages: {list(self.messages)[:5]}, barrier: {self.barrier}")
        return "\n".join(lines)
