# SPDX-License-Identifier: MIT
"""Questions to a recorded graph, and answers that explain themselves.

    graph = cluster.instructions(rank=0)
    sends = graph.all("send")
    assert sends.all_concurrent()
    assert graph.all("device_kernel", name="init").each_reaches(sends)

A selection remembers how it was made; a relation is a `Verdict`, false or true, whose repr shows that history and the
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

from tests.verification.elements import bits
from tests.verification.graph_records import Record, Trace
from tests.verification.verifier import Closure, describe

Predicate = Callable[[Record], bool]


class Verdict:
    """The answer to a question, with its reasons."""

    def __init__(self, holds: bool, question: str, reason: str, graph: Graph) -> None:
        self._holds = holds
        self._question = question
        self._reason = reason
        self._graph = graph

    def __bool__(self) -> bool:
        return self._holds

    def __repr__(self) -> str:
        answer = "yes" if self._holds else f"no: {self._reason}\n{self._graph}"
        return f"{self._question}? {answer}"


class Graph:
    """Tasks, commands or instructions of one rank."""

    def __init__(self, records: Sequence[Record], title: str, trace: Trace, names: dict[int, str]) -> None:
        self.records = list(records)
        self.title = title
        self._numbers = trace.buffer_numbers
        self._names = names
        self._submissions = trace.submission_of_task()
        self._closure = Closure()
        self._direct: list[int] = []
        for record in self.records:
            ids = [entry[0] if isinstance(entry, tuple) else entry for entry in record["dependencies"]]
            self._closure.add(record, ids)
            self._direct.append(sum(1 << self._closure.place[id_] for id_ in ids))

    def __repr__(self) -> str:
        return "\n".join(
            [f"{self.title}:", *(f"  {describe(record)}{self._name_suffix(record)}" for record in self.records)]
        )

    def all(self, *kinds: str, where: Predicate | None = None, **fields: Any) -> Selection:
        """Records of these kinds (all if none is named) with these field values; `name` is that of the submitted task.

        A field value may be a function of the record's value. Buffers are given as handles.
        """
        parts = [*kinds, *(f"{name}={value}" for name, value in fields.items()), *(["where ..."] if where else [])]
        chosen = [place for place, record in enumerate(self.records) if self._matches(record, kinds, fields, where)]
        return Selection(self, sum(1 << place for place in chosen), f"all({', '.join(parts)})")

    def name_of(self, record: Record) -> str:
        if record["kind"] == "alloc":  # several tasks use it
            return ""
        submission = record.get("submission", self._submissions.get(record.get("task", -1), 0))
        return self._names.get(submission, "")

    def _name_suffix(self, record: Record) -> str:
        name = self.name_of(record)
        return f'  "{name}"' if name else ""

    def _matches(self, record: Record, kinds: Sequence[str], fields: dict[str, Any], where: Predicate | None) -> bool:
        if kinds and record["kind"] not in kinds:
            return False
        for field, wanted in fields.items():
            value = self.name_of(record) if field == "name" else record.get(field)
            if field == "buffer":
                buffer = record["transfer"][1] if "transfer" in record else record.get("buffer", -1)
                if self._numbers.get(buffer, -1) != wanted.number:
                    return False
            elif not (wanted(value) if callable(wanted) else value == wanted):
                return False
        return where is None or where(record)

    def ancestors(self, place: int) -> int:
        return self._closure.masks[place]

    def direct_predecessors(self, place: int) -> int:
        return self._direct[place]

    def is_before(self, first: int, second: int) -> bool:
        return self._closure.is_before(first, second)


class Selection:
    """Some nodes of a graph."""

    def __init__(self, graph: Graph, mask: int, text: str) -> None:
        self.graph = graph
        self._mask = mask
        self._text = text

    def __repr__(self) -> str:
        lines = [f"{self._text} = {len(self)} of {self.graph.title}"]
        return "\n".join([*lines, *(f"  {describe(record)}" for record in self)])

    def __len__(self) -> int:
        return self._mask.bit_count()

    def __bool__(self) -> bool:
        return self._mask != 0

    def __iter__(self) -> Iterator[Record]:
        return (self.graph.records[place] for place in bits(self._mask))

    def __or__(self, other: Selection) -> Selection:
        return Selection(self.graph, self._mask | other._mask, f"({self._text} | {other._text})")

    def __and__(self, other: Selection) -> Selection:
        return Selection(self.graph, self._mask & other._mask, f"({self._text} & {other._text})")

    def __sub__(self, other: Selection) -> Selection:
        return Selection(self.graph, self._mask & ~other._mask, f"({self._text} - {other._text})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self.graph is other.graph and self._mask == other._mask

    __hash__ = None  # type: ignore[assignment]  # compared, never stored

    def one(self) -> Record:
        if len(self) != 1:
            raise AssertionError(f"not exactly one: {self!r}\n{self.graph!r}")
        return next(iter(self))

    def values(self, field: str) -> list[Any]:
        return [record[field] for record in self]

    def count_is(self, wanted: int) -> Verdict:
        return self._verdict(len(self) == wanted, f"number of {self._text} == {wanted}", f"it is {len(self)}")

    def is_empty(self) -> Verdict:
        return self._verdict(not self._mask, f"{self._text} is empty", f"it has {len(self)}")

    # moving through the graph

    def _step(self, mask: int, text: str, kinds: Sequence[str], fields: dict[str, Any]) -> Selection:
        result = Selection(self.graph, mask, f"{self._text}.{text}({', '.join(kinds)})")
        if kinds or fields:
            result._mask &= self.graph.all(*kinds, **fields)._mask
        return result

    def predecessors(self, *kinds: str, **fields: Any) -> Selection:
        mask = 0
        for place in bits(self._mask):
            mask |= self.graph.direct_predecessors(place)
        return self._step(mask, "predecessors", kinds, fields)

    def successors(self, *kinds: str, **fields: Any) -> Selection:
        found = (p for p in range(len(self.graph.records)) if self.graph.direct_predecessors(p) & self._mask)
        return self._step(sum(1 << place for place in found), "successors", kinds, fields)

    def ancestors(self, *kinds: str, **fields: Any) -> Selection:
        mask = 0
        for place in bits(self._mask):
            mask |= self.graph.ancestors(place)
        return self._step(mask, "ancestors", kinds, fields)

    # relations

    def all_concurrent(self) -> Verdict:
        """No path between any two of them."""
        return self._no_path(combinations(bits(self._mask), 2), f"all of {self._text} are concurrent")

    def is_concurrent_with(self, other: Selection) -> Verdict:
        """No path between any of these and any of those."""
        pairs = product(bits(self._mask), bits(other._mask))
        return self._no_path(pairs, f"{self._text} is concurrent with {other._text}")

    def each_reaches(self, other: Selection) -> Verdict:
        """A path from each of these to each of those."""
        question = f"each of {self._text} reaches {other._text}"
        for first, second in product(bits(self._mask), bits(other._mask)):
            if not self.graph.is_before(first, second):
                return self._verdict(False, question, f"no path from {self._show(first)} to {self._show(second)}")
        both = bool(self._mask) and bool(other._mask)
        return self._verdict(both, question, "one of them is empty")

    def each_reaches_some(self, other: Selection) -> Verdict:
        question = f"each of {self._text} reaches one of {other._text}"
        for place in bits(self._mask):
            if not any(self.graph.is_before(place, later) for later in bits(other._mask)):
                return self._verdict(False, question, f"{self._show(place)} does not")
        return self._verdict(bool(self._mask), question, "it is empty")

    def _no_path(self, pairs: Iterable[tuple[int, int]], question: str) -> Verdict:
        for a, b in pairs:
            first, second = min(a, b), max(a, b)
            if first == second or self.graph.is_before(first, second):
                return self._verdict(False, question, f"{self._show(first)} is before {self._show(second)}")
        return self._verdict(True, question, "")

    def _show(self, place: int) -> str:
        return describe(self.graph.records[place])

    def _verdict(self, holds: bool, question: str, reason: str) -> Verdict:
        return Verdict(holds, question, reason, self.graph)


def in_memory(graph: Graph, kind: str, memory: int) -> Selection:
    return graph.all(kind, allocation=lambda name: name[0] == memory)


def copies(graph: Graph, source: int, destination: int) -> Selection:
    return graph.all("copy", where=lambda r: r["source"][0] == source and r["destination"][0] == destination)
