# SPDX-License-Identifier: MIT
"""Advice in words: the causes of lost time that the figures of a run show, and a remedy for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from celerity_py.executor.quantities import format_bytes
from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.measures import groups_of
from celerity_py.tools.report.words import CAUSE_WORDS, format_percent, format_time, list_words

#: A cause with at least this share of the critical path is named.
_GREAT_SHARE: Final = 0.25
#: From how many times on the kernels of a rank count as slow.
_SLOW: Final = 1.3
#: From how many times the mean on the kernels of a device count as too much.
_UNEVEN: Final = 1.3
#: A submit that takes longer than so many microseconds is slow. The usual ones take a few.
_SLOW_SUBMIT_US: Final = 15.0
#: Devices starve if their kernels run for less than this part of the time.
_STARVED: Final = 0.7
_BUSY: Final = 0.6
#: From this median on, the calls of a kernel are not too short to be issued one by one.
_LONG_CALL_US: Final = 500.0
#: A program that waits so often, with at most so many submits in between, cannot run ahead.
_MANY_WAITS: Final = 10
_FEW_SUBMITS: Final = 16
#: Ranks that exchange at least this part of what kernels access, in so many messages, do more than exchange halos.
_MUCH_TRAFFIC: Final = 0.05
_MANY_MESSAGES: Final = 20
_MOST_NAMES: Final = 4
#: Those with the longest totals.
_MOST_KERNELS: Final = 50
#: Kernels of a rank with less than this part of the time tell nothing about the rank.
_COUNTS: Final = 0.05


class Advice(NamedTuple):
    """One finding."""

    finding: str
    remedy: str
    #: The part of the run that it may concern, for the order; 1 is all of it.
    weight: float


def advise(analysis: Analysis) -> list[Advice]:
    """The findings of a run, the one that concerns most of it first."""
    found = [advice for rule in _RULES for advice in rule(analysis)]
    if not any(advice.weight > 0 for advice in found):
        found.append(_nothing_known(analysis))
    return sorted(found, key=lambda advice: -advice.weight)


def _nothing_known(analysis: Analysis) -> Advice:
    """What most of the time is, where no rule finds a cause of lost time."""
    if not analysis.path.length:
        return Advice("The timeline has no kernel, host task or copy", "Trace a run that submits some.", 0.0)
    kernels = analysis.path.share("kernel", "host task")
    told = f"Nothing stands out: kernels and host tasks are {format_percent(kernels)} of the critical path"
    if kernels >= 0.5:
        return Advice(told, "Faster kernels, or more devices, make this program faster.", 0.0)
    causes = analysis.path.by_cause()
    greatest = max(causes, key=causes.__getitem__)
    return Advice(
        f"{told}, and {CAUSE_WORDS[greatest]} {format_percent(analysis.path.share(greatest))}",
        "The timeline shows where: its first row is the critical path.",
        0.0,
    )


def _starving(analysis: Analysis) -> Iterator[Advice]:
    """The application submits too slowly."""
    measures = analysis.measures
    share = analysis.path.share("application")
    busy = {rank: application.busy_share for rank, application in measures.applications.items()}
    kernels = list(measures.device_busy.values())
    if not busy or not kernels or share < _GREAT_SHARE:
        return
    rank = max(busy, key=busy.__getitem__)
    device_share = float(np.mean(kernels))
    if busy[rank] < _BUSY or device_share >= _STARVED:
        return
    application = measures.applications[rank]
    submitting, mapping = (spent / application.span for spent in (application.submitting, application.mapping))
    whose = "" if len(busy) == 1 else f" of rank {rank}"
    remedy = "Submit fewer, larger kernels, or replay recorded steps (queue.record): one call submits many tasks."
    mappers = ""
    if mapping > busy[rank] / 2:
        mappers = f", of which Python mappers take {format_percent(mapping)}"
        remedy = "Make the mappers faster, or use those of celerity.access."
    elif submitting < busy[rank] / 2:
        remedy = (
            "Take slow work out of the loop that submits, or move it into host tasks. Larger kernels, and replays of "
            "recorded steps (queue.record), need fewer submits."
        )
    yield Advice(
        f"devices starve: the application thread{whose} is busy {format_percent(busy[rank])}, and kernels run for "
        f"{format_percent(device_share)} of the time. Submits take {format_percent(submitting)} of the thread's "
        f"time{mappers}, and the program's own code {format_percent(max(busy[rank] - submitting, 0.0))}",
        remedy,
        share,
    )


def _waits(analysis: Analysis) -> Iterator[Advice]:
    """A program that waits for results so often that its devices run dry."""
    measures = analysis.measures
    share = analysis.path.share("application", "planning", "issuing")
    kernels = list(measures.device_busy.values())
    if share < _GREAT_SHARE or not kernels or float(np.mean(kernels)) >= _STARVED:
        return
    counts = {rank: sum(each.waits.values()) for rank, each in measures.applications.items()}
    rank = max(counts, key=counts.__getitem__, default=None)
    if rank is None or counts[rank] < _MANY_WAITS:
        return
    application = measures.applications[rank]
    submits_each = application.num_submits / counts[rank]
    if submits_each > _FEW_SUBMITS:
        return
    awaited = next(iter(application.waits))
    yield Advice(
        f"devices run dry: the program waits {counts[rank]} times, after {submits_each:.1f} submits each, most often "
        f"in {awaited}. Kernels run for {format_percent(float(np.mean(kernels)))} of the time, and begin anew after "
        f"each wait",
        "Wait for every n-th step only. A loop of queue.until submits further steps while it waits, and a host task or "
        "a callback of the future looks at results without holding the program up.",
        share,
    )


def _resizes(analysis: Analysis) -> Iterator[Advice]:
    """Allocations that grew after their first use."""
    run = analysis.run
    several = len(run.ranks) > 1
    by_buffer: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for curve in analysis.measures.memories:
        for buffer, count in curve.resizes.items():
            place = f"{curve.memory} of rank {curve.rank}" if several else curve.memory
            by_buffer[buffer].append((count, place))
    lookahead = str(run.about["settings"].get("lookahead", ""))
    remedy = "Let one of the first tasks access all that later ones will, or set CELERITY_LOOKAHEAD=infinite."
    if lookahead == "none":
        remedy = "Set CELERITY_LOOKAHEAD=auto: it allocates at once what the next tasks need, too."
    worst = sorted(by_buffer.items(), key=lambda item: -max(item[1])[0])
    for buffer, places in worst[:_MOST_NAMES]:
        count = max(places)[0]
        if count < 2:
            continue
        shown = [f"{number} times on {place}" for number, place in sorted(places, reverse=True)[:_MOST_NAMES]]
        yield Advice(
            f"{buffer} was resized {list_words(shown)}: lookahead was {lookahead}. Each time its contents are copied",
            remedy,
            max(analysis.path.share("allocation", "copy"), 0.01),
        )


def _mappers(analysis: Analysis) -> Iterator[Advice]:
    """Range mappers that are slow Python functions."""
    by_task: dict[str, list[tuple[float, int, float]]] = defaultdict(list)
    for rank, submits in analysis.measures.submit_medians.items():
        for task, (count, median, share) in submits.items():
            if count >= 3 and share >= 0.3 and median >= _SLOW_SUBMIT_US:
                by_task[task].append((median, rank, share))
    weight = max(analysis.path.share("application"), 0.01)
    slowest = sorted(by_task.items(), key=lambda item: -max(item[1])[0])
    for task, found in slowest[:_MOST_NAMES]:
        median, rank, share = max(found)
        yield Advice(
            f"rank {rank}'s submits of {task} are {format_time(median)}: its mapper is a Python function, which takes "
            f"{format_percent(share)} of them",
            "Use a mapper of celerity.access, or access.pure(mapper), which keeps the results between submits.",
            weight,
        )


def slow_ranks(analysis: Analysis) -> dict[int, float]:
    """How many times as long as on the other ranks the kernels take, for the ranks on which they take longer."""
    run = analysis.run
    ratios: dict[int, list[tuple[float, float]]] = {rank: [] for rank in run.ranks}
    for kernel in analysis.measures.kernels[:_MOST_KERNELS]:
        # Ranks may have chunks of different sizes.
        work = kernel.bytes_touched.astype(np.float64) if kernel.knows_bytes else np.ones(kernel.count)
        groups = list(groups_of(kernel.ranks))
        medians = np.array([float(np.median(kernel.durations[calls] / work[calls])) for _, calls in groups])
        for place, (rank, calls) in enumerate(groups):
            others = float(np.median(np.delete(medians, place))) if len(medians) > 1 else 0.0
            if others > 0:
                ratios[rank].append((float(medians[place]) / others, float(kernel.durations[calls].sum())))
    slow = {}
    for rank, found in ratios.items():
        total = sum(weight for _, weight in found)
        if total > 0 and total >= _COUNTS * (run.end - run.start):
            ratio = sum(ratio * weight for ratio, weight in found) / total
            if ratio >= _SLOW:
                slow[rank] = ratio
    return slow


def _slow_ranks(analysis: Analysis) -> Iterator[Advice]:
    slow = slow_ranks(analysis)
    for rank in sorted(slow, key=lambda rank: -slow[rank])[:_MOST_NAMES]:
        host = str(analysis.run.ranks[rank].about.get("host", ""))
        remedy = (
            f"Look for other programs, fewer cores or a lower clock on its host {host}, or give the rank less work "
            f"with hints.weights(...)."
        )
        weight = 1 - 1 / slow[rank]
        if host in analysis.devices_share_cores:  # which alone makes some of the kernels take longer
            devices, cores = analysis.devices_share_cores[host]
            remedy = f"{devices} CPU devices share {cores} core(s) of its host {host}: use fewer first. Then: {remedy}"
            weight /= 4
        yield Advice(f"rank {rank} is slow: its kernels take {slow[rank]:.1f} times the others'", remedy, weight)


def _uneven_work(analysis: Analysis) -> Iterator[Advice]:
    """Devices that compute for longer than the others."""
    busy = analysis.measures.device_busy
    mean = float(np.mean(list(busy.values()))) if busy else 0.0
    if len(busy) < 2 or mean < 0.1 or slow_ranks(analysis):
        return
    (rank, device), most = max(busy.items(), key=lambda item: item[1])
    if most < _UNEVEN * mean:
        return
    yield Advice(
        f"the work is uneven: kernels run on D{device} of rank {rank} for {format_percent(most)} of the time, on all "
        f"devices for {format_percent(mean)}",
        "Use hints.cyclic(block) if the cost of items varies, hints.weights(...) if that of devices does, or "
        "hints.oversubscribe(n).",
        most - mean,
    )


def _planning(analysis: Analysis) -> Iterator[Advice]:
    share = analysis.path.share("planning")
    if share >= _GREAT_SHARE:
        yield Advice(
            f"planning is {format_percent(share)} of the critical path: tasks are too small for it",
            "Record the steps once and replay them (queue.record): a periodic plan is not planned again. Or submit "
            "fewer, larger kernels.",
            share,
        )


def _issuing(analysis: Analysis) -> Iterator[Advice]:
    share = analysis.path.share("issuing")
    if share < _GREAT_SHARE:
        return
    crowded = analysis.devices_share_cores
    if crowded:
        host, (devices, cores) = next(iter(crowded.items()))
        yield Advice(
            f"{devices} CPU devices share {cores} core(s) of {host}: instructions that could begin wait for a core, "
            f"{format_percent(share)} of the critical path",
            "Use as many CPU devices as there are cores, or fewer: the other threads of each rank need some time, too.",
            share,
        )
        return
    kernels = analysis.measures.kernels
    if kernels and kernels[0].quantile(0.5) >= _LONG_CALL_US:
        by_host = {str(rank.about.get("host", "")): rank.about.get("num_cores") for rank in analysis.run.ranks.values()}
        where = list_words([f"{host} has {count} core(s)" for host, count in list(by_host.items())[:_MOST_NAMES]])
        yield Advice(
            f"issuing is {format_percent(share)} of the critical path, although a call of {kernels[0].name} takes "
            f"{format_time(kernels[0].quantile(0.5))}: the threads of the runtime wait for cores. {where}",
            "Look for other programs on the hosts. Let each rank have three cores for its threads, and one more per "
            "CPU device.",
            share,
        )
        return
    typical = f". A call of {kernels[0].name} takes {format_time(kernels[0].quantile(0.5))}" if kernels else ""
    yield Advice(
        f"issuing is {format_percent(share)} of the critical path: instructions are too short for it{typical}",
        "Submit fewer, larger kernels. On GPUs, kernels in CUDA C++ and replays of recorded steps are issued fastest.",
        share,
    )


def _data(analysis: Analysis) -> Iterator[Advice]:
    """Copies and transfers on the critical path."""
    for cause, what in (("transfer", "transfers between ranks"), ("copy", "copies between memories")):
        share = analysis.path.share(cause)
        if share < _GREAT_SHARE:
            continue
        overlaps = analysis.measures.overlap.values()
        total = sum(each.transfers if cause == "transfer" else each.copies for each in overlaps)
        beneath = sum(each.transfers_beneath if cause == "transfer" else each.copies_beneath for each in overlaps)
        names = [name for (of, name) in analysis.path.by_name(analysis.run) if of == cause and name]
        longest = f" The longest of them is {names[0]}" if names else ""
        hidden = format_percent(beneath / max(total, 1e-9))
        yield Advice(
            f"{what} are {format_percent(share)} of the critical path, and {hidden} of their time lies beneath "
            f"kernels.{longest}",
            "hints.border_first(rows) computes first what other devices wait for. Kernels that do more work per "
            "exchange, and fewer changes of the way in which a buffer is divided, move less.",
            share,
        )


def _divisions(analysis: Analysis) -> Iterator[Advice]:
    """Data that goes to and fro, because tasks divide a buffer in different ways."""
    measures = analysis.measures
    accessed = sum(int(kernel.bytes_touched.sum()) for kernel in measures.kernels if kernel.knows_bytes)
    messages = [link for link in measures.links if link.busy is None]
    sent = sum(link.size_bytes for link in messages)
    if sum(link.count for link in messages) < _MANY_MESSAGES or sent < _MUCH_TRAFFIC * accessed or accessed == 0:
        return
    by_buffer = measures.sent_by_buffer
    buffer, most = next(iter(by_buffer.items()))
    yield Advice(
        f"ranks exchange {format_bytes(sent)}, {format_percent(sent / accessed)} of the bytes that kernels access. "
        f"{format_bytes(most)} of it are elements of {buffer}",
        f"If tasks divide {buffer} in different ways, let them have the same index space and hints: one kernel over "
        f"all of it, in place of one per part. Reads of all elements by each rank (access.all) do need the exchange.",
        max(analysis.path.share("transfer", "peer"), _MUCH_TRAFFIC),
    )


def _host_tasks(analysis: Analysis) -> Iterator[Advice]:
    share = analysis.path.share("host task")
    if share >= _GREAT_SHARE:
        names = [name for (cause, name) in analysis.path.by_name(analysis.run) if cause == "host task"]
        yield Advice(
            f"host tasks are {format_percent(share)} of the critical path, {list_words(names[:2])} most of it",
            "Let kernels do the work, let host tasks read less, or let later tasks not depend on them.",
            share,
        )


def _peers(analysis: Analysis) -> Iterator[Advice]:
    share = analysis.path.share("peer")
    missing = analysis.run.size - len(analysis.run.ranks)
    if share >= _GREAT_SHARE or missing > 0:
        yield Advice(
            f"waits for other ranks are {format_percent(share)} of the critical path, and the timelines of {missing} "
            f"of {analysis.run.size} ranks are not here",
            "Give the files of all ranks: then the path goes on in the rank that is late.",
            share if missing > 0 else 0.0,
        )


def _completeness(analysis: Analysis) -> Iterator[Advice]:
    run = analysis.run
    if run.events_lost:
        yield Advice(
            f"the timelines lack their {run.events_lost} oldest events: all figures are about the later part",
            "Trace a shorter run to see all of it.",
            0.0,
        )
    error_us = max(float(rank.about.get("clock_error_us", 0)) for rank in run.ranks.values())
    if error_us > 100:
        yield Advice(
            f"the clocks of the hosts differ by up to {format_time(error_us)}, which is not corrected",
            "Times of messages between hosts, and a path across them, are that inexact.",
            0.0,
        )


_RULES: Final[Iterable[Callable[[Analysis], Iterator[Advice]]]] = (
    _mappers,  # in front of the findings that follow from it
    _starving,
    _waits,
    _resizes,
    _slow_ranks,
    _uneven_work,
    _planning,
    _issuing,
    _data,
    _divisions,
    _host_tasks,
    _peers,
    _completeness,
)
