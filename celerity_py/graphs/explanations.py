# SPDX-License-Identifier: MIT
"""Says of each instruction what it does, and why it exists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from celerity_py.executor.quantities import format_bytes
from celerity_py.graphs.nodes import NamedBuffer, show_part, to_box, to_region
from celerity_py.vocabulary.notation import show

#: Instructions for which the others exist.
_PURPOSES: Final = frozenset({"device_kernel", "host_task", "send", "reduce", "fence"})
_CALLS: Final = frozenset({"device_kernel", "host_task"})
_MAX_NAMES: Final = 4
_NOT_SHOWN: Final = "no task that is shown here"

_Record = Mapping[str, Any]
_Allocation = tuple[int, int]


class Explainer:
    """Looks up the allocations, readers and chunks that instructions refer to.

    Args:
        instructions: The records of instructions.
        allocs: Those of allocations of other tasks.
        labels: Of the tasks, by number.
        dims: Of the index spaces of the tasks, by number.
        buffers: By id.
    """

    def __init__(
        self,
        instructions: Sequence[_Record],
        allocs: Sequence[_Record],
        labels: Mapping[int, str],
        dims: Mapping[int, int],
        buffers: Mapping[int, NamedBuffer],
    ) -> None:
        self._labels = labels
        self._dims = dims
        self._buffers = buffers
        self._records = {record["id"]: record for record in instructions}
        self._successors: dict[int, list[tuple[int, str]]] = defaultdict(list)
        self._allocs: dict[_Allocation, _Record] = {record["allocation"]: record for record in allocs}
        self._users: dict[_Allocation, list[_Record]] = defaultdict(list)
        #: By instruction: its number among the calls of its task on this rank.
        self._chunks: dict[int, int] = {}
        num_chunks: dict[int, int] = defaultdict(int)
        for record in instructions:
            for number, kind in zip(record["dependencies"], record["kinds"], strict=True):
                self._successors[number].append((record["id"], kind))
            if record["kind"] == "alloc":
                self._allocs[record["allocation"]] = record
            for allocation in _allocations_of(record):
                self._users[allocation].append(record)
            if record["kind"] in _CALLS:
                task = record["key"][0]
                self._chunks[record["id"]] = num_chunks[task]
                num_chunks[task] += 1
        self._num_chunks = num_chunks

    def kind_of(self, number: int) -> str | None:
        """The kind of an instruction; None if it is not kept."""
        record = self._records.get(number)
        return None if record is None else record["kind"]

    def explain(self, record: _Record) -> tuple[str, str]:
        """What the instruction does, and why it exists."""
        explain: Callable[[_Record], tuple[str, str]]
        explain = getattr(self, f"_explain_{record['kind']}", self._explain_any)
        return explain(record)

    def _explain_any(self, record: _Record) -> tuple[str, str]:
        """An instruction of a kind without words of its own, from the fields that it has."""
        what = record["kind"].replace("_", " ")
        if record.get("buffer"):
            what += f" {self._part(record['buffer'], record.get('boxes', []))}"
        places = (("in", "allocation"), ("from", "source"), ("to", "destination"))
        what += "".join(f" {word} {_memory(record[field])}" for word, field in places if field in record)
        return what, f"needed by {self._purposes(record)}"

    # ---- memory

    def _explain_alloc(self, record: _Record) -> tuple[str, str]:
        size = format_bytes(record["size_bytes"])
        place = _place(record["allocation"])
        users = self._users[record["allocation"]]
        near = [user for user in users if user["key"][0] == record["key"][0]] or users
        why = f"used by {self._name_all(near) if near else _NOT_SHOWN}"
        if not record["buffer"]:
            return f"alloc {size} in {place}", f"data passes through it: {why}"
        return f"alloc {self._part(record['buffer'], [record['allocated_box']])} in {place}, {size}", why

    def _explain_free(self, record: _Record) -> tuple[str, str]:
        alloc = self._allocs.get(record["allocation"])
        place, size = _place(record["allocation"]), format_bytes(record["size_bytes"])
        if alloc is None:
            return f"free {size} in {place}", "its last use is over"
        if not alloc["buffer"]:
            return f"free {size} in {place}", "data passed through it; the run ends"
        what = f"free {self._part(alloc['buffer'], [alloc['allocated_box']])} in {place}, {size}"
        if (successor := self._replacement(record, alloc)) is not None:
            return what, f"{_place(successor['allocation'])}, which is larger, takes its place"
        return what, "the program has dropped the buffer"

    def _replacement(self, record: _Record, alloc: _Record) -> _Record | None:
        for other in self._allocs.values():
            is_same_memory = other["buffer"] == alloc["buffer"] and other["allocation"][0] == alloc["allocation"][0]
            if not is_same_memory or other["key"][0] != record["key"][0] or other["id"] >= record["id"]:
                continue
            if _covers(other["allocated_box"], alloc["allocated_box"]) and other is not alloc:
                return other
        return None

    # ---- copies

    def _explain_copy(self, record: _Record) -> tuple[str, str]:
        source, destination = _memory(record["source"]), _memory(record["destination"])
        what = f"copy {self._part(record['buffer'], record['boxes'])} from {source} to {destination}"
        match record["reason"]:
            case "resize":
                why = f"{_place(record['source'])} grows: {_place(record['destination'])} takes its place"
            case "fence":
                why = f"{self._labels[record['key'][0]]} gets it"
            case "reduction":
                why = f"a partial result, combined by {self._purposes(record)}"
            case "initial":
                why = f"the initial contents, read by {self._purposes(record)}"
            case "staging":
                why = f"passes through other memory, read by {self._purposes(record)}"
            case _:
                why = f"read by {self._purposes(record)}"
        return what, why

    def _explain_gather_copy(self, record: _Record) -> tuple[str, str]:
        boxes = [box for source in record["sources"] for box in source["boxes"]]
        sources = ", ".join(_memory(source["allocation"]) for source in record["sources"])
        part = self._part(record["buffer"], boxes)
        return f"gather {part} from {sources} to {_memory(record['destination'])}", f"read by {self._purposes(record)}"

    def _explain_initialize(self, record: _Record) -> tuple[str, str]:
        part = self._part(record["buffer"], record["boxes"])
        return f"initialize {part} in host memory", f"its function has the contents; read by {self._purposes(record)}"

    # ---- transfers

    def _explain_send(self, record: _Record) -> tuple[str, str]:
        task, buffer, reduction = record["transfer"]
        rank = record["destination_rank"]
        what = f"send {self._part(buffer, [record['sent_box']])} from {_memory(record['source'])} to R{rank}"
        reads = f"R{rank} reads it in {self._labels.get(task, f'T{task}')}"
        return what, f"a partial result: {reads}" if reduction else reads

    def _explain_receive(self, record: _Record) -> tuple[str, str]:
        part = self._part(record["transfer"][1], record["boxes"])
        return f"receive {part} in {_memory(record['destination'])}", f"read by {self._purposes(record)}"

    def _explain_split_receive(self, record: _Record) -> tuple[str, str]:
        part = self._part(record["transfer"][1], record["boxes"])
        return f"begin to receive {part} in {_memory(record['destination'])}", "its readers wait for their parts only"

    def _explain_await_receive(self, record: _Record) -> tuple[str, str]:
        part = self._part(record["transfer"][1], record["boxes"])
        return f"receive {part} in {_memory(record['destination'])}", f"read by {self._purposes(record)}"

    def _explain_receive_partials(self, record: _Record) -> tuple[str, str]:
        ranks = ", ".join(f"R{rank}" for rank in record["sources"])
        buffer = self._buffers[record["transfer"][1]]
        return f"receive the partial results of {buffer} of {ranks}", f"combined by {self._purposes(record)}"

    # ---- work

    def _explain_device_kernel(self, record: _Record) -> tuple[str, str]:
        what, why = self._explain_host_task(record)
        border = "; a border, which others wait for" if record["is_border"] else ""
        return f"{what} on D{record['device']}", why + border

    def _explain_host_task(self, record: _Record) -> tuple[str, str]:
        task = record["key"][0]
        dims = self._dims[task]
        chunk = f" {show(to_box(record['chunk'], dims))}" if dims else ""
        why = f"chunk {self._chunks[record['id']]} of {self._num_chunks[task]} on this rank"
        return f"{self._labels[task]}{chunk}", why

    def _explain_reduce(self, record: _Record) -> tuple[str, str]:
        buffer = self._buffers[record["buffer"]]
        by = "a callable" if record["op"] == "callable" else record["op"]
        what = f"combine {record['count']} partial results of {buffer} by {by} in {_memory(record['destination'])}"
        rest = "" if record["is_all_of_it"] else "; other partial results follow"
        return what, f"the reduction for {self._labels[record['key'][0]]}{rest}"

    def _explain_fence(self, record: _Record) -> tuple[str, str]:
        return "fence", f"{self._labels[record['key'][0]]} is complete"

    def _explain_horizon(self, record: _Record) -> tuple[str, str]:
        return self._labels[record["key"][0]], "everything before it is complete, and the graphs forget it"

    def _explain_epoch(self, record: _Record) -> tuple[str, str]:
        return self._labels[record["key"][0]], "everything before it is complete"

    # ---- names

    def _part(self, buffer: int, boxes: Iterable[Sequence[int]]) -> str:
        named = self._buffers[buffer]
        return f"{named} {show_part(to_region(list(boxes), named.dims))}"

    def _purposes(self, record: _Record) -> str:
        """The kernels, sends and so on that need the result of an instruction."""
        found = list(self._follow(record, record["key"][0])) or list(self._follow(record, None))
        return self._name_all(found) if found else _NOT_SHOWN

    def _follow(self, record: _Record, task: int | None) -> Iterator[_Record]:
        """The purposes behind an instruction, only those of `task` if it is one."""
        waiting, seen = [record["id"]], set()
        while waiting:
            for number, kind in sorted(self._successors[waiting.pop(0)]):
                successor = self._records[number]
                if kind != "true" or number in seen or (task is not None and successor["key"][0] != task):
                    continue
                seen.add(number)
                if successor["kind"] in _PURPOSES:
                    yield successor
                else:
                    waiting.append(number)

    def _name_all(self, records: Iterable[_Record]) -> str:
        chunks: dict[int, list[int]] = defaultdict(list)
        names: dict[str, None] = {}
        for record in records:
            if record["kind"] in _CALLS:
                chunks[record["key"][0]].append(self._chunks[record["id"]])
            else:
                names[self._name(record)] = None
        called = [
            f"T{task} chunk{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(set(numbers))))}"
            for task, numbers in chunks.items()
        ]
        shown = called + list(names)
        more = f" and {len(shown) - _MAX_NAMES} more" if len(shown) > _MAX_NAMES else ""
        return ", ".join(shown[:_MAX_NAMES]) + more

    @staticmethod
    def _name(record: _Record) -> str:
        number = f"I{record['id']}"
        if record["kind"] == "send":
            return f"send {number} to R{record['destination_rank']}"
        return f"{record['kind'].replace('_', ' ')} {number}"


def _allocations_of(record: _Record) -> set[_Allocation]:
    """The allocations that an instruction uses; an alloc or free does not use its allocation."""
    named = [record[field] for field in ("source", "destination") if field in record]
    for field in ("accesses", "reductions", "sources"):
        for each in record.get(field, ()):
            if isinstance(each, Mapping):
                named += [part["allocation"] for part in each.get("parts") or (each,)]
    return set(named)


def _memory(allocation: _Allocation) -> str:
    memory = allocation[0]
    return ("user memory", "host memory")[memory] if memory < 2 else f"D{memory - 2}"


def _place(allocation: _Allocation) -> str:
    return f"{_memory(allocation)} (M{allocation[0]}.A{allocation[1]})"


def _covers(outer: Sequence[int], inner: Sequence[int]) -> bool:
    return all(outer[d] <= inner[d] and inner[d + 3] <= outer[d + 3] for d in range(3))
