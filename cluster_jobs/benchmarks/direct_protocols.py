# SPDX-License-Identifier: MIT
"""Pull or put, and flags where? `mpirun -n 2 python -m cluster_jobs.benchmarks.direct_protocols`.

Two ranks with a GPU each map each other's memory with CUDA IPC and exchange messages in the order of their streams,
without the host:

* pull: the sender's stream writes *ready*; the receiver's stream waits for it, copies, and writes *done*, for which
  the sender's stream waits before it overwrites the message;
* put: the receiver's stream writes *free*; the sender's stream waits for it, copies, and writes *arrived*, for which
  the receiver's stream waits.

A flag lies in the device memory of the GPU that waits for it, or in host memory that both processes share and have
registered. Every batch is enqueued behind a gate that the host opens when both ranks have enqueued all of it, so the
times (between events of one stream) have no Python in them.

The second table says which driver calls return while another stream of the process waits for a flag that is not set.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import functools
import json
import mmap
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi4py import MPI
from rich.console import Console
from rich.table import Table

from cluster_jobs.benchmarks.cuda_driver import AT_LEAST, NOT_READY, PORTABLE_AND_MAPPED, Driver, count_devices

READY, DONE, FREE, ARRIVED, GATE = range(5)
FLAG_STRIDE = 128  # bytes between flags: no two in one cache line
SIZES = {"4 B": 4, "16 KiB": 16 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
SLOTS = 2  # messages in flight one way
PLACEMENTS = ("device", "host")
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
"""


class SharedPage:
    """A file in memory, mapped by both processes and registered with CUDA."""

    def __init__(self, driver: Driver, comm: MPI.Comm, size_bytes: int = mmap.PAGESIZE) -> None:
        name = None
        if comm.rank == 0:
            descriptor, name = tempfile.mkstemp(dir="/dev/shm")
            os.ftruncate(descriptor, size_bytes)
        name = comm.bcast(name)
        if comm.rank != 0:
            descriptor = os.open(name, os.O_RDWR)
        comm.barrier()
        if comm.rank == 0:
            Path(name).unlink()
        self.memory = mmap.mmap(descriptor, size_bytes)
        self.host_address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        driver.call("cuMemHostRegister_v2", self.host_address, size_bytes, PORTABLE_AND_MAPPED)
        self.address = int(driver.get("cuMemHostGetDevicePointer_v2", ctypes.c_uint64, self.host_address, 0))

    def word(self, offset: int) -> ctypes.c_uint32:
        """The word at an offset, for the host."""
        return ctypes.c_uint32.from_address(self.host_address + offset)


class Link:
    """The two ranks' streams, buffers and flags, as one of them sees them."""

    def __init__(self, driver: Driver, comm: MPI.Comm, capacity_bytes: int) -> None:
        self.driver = driver
        self.comm = comm
        self.stream = driver.create_stream()
        self.start, self.end = driver.create_event(), driver.create_event()
        self.last_message = 0
        self.data = driver.allocate(capacity_bytes)
        own_flags = driver.allocate(1 << 16)
        driver.call("cuMemsetD32Async", own_flags, 0, 1 << 14, self.stream)
        driver.call("cuStreamSynchronize", self.stream)
        handles = comm.allgather((driver.export(self.data), driver.export(own_flags)))
        peer_data, peer_flags = handles[1 - comm.rank]
        self.peer_data = driver.open(peer_data)
        self.page = SharedPage(driver, comm)
        part = mmap.PAGESIZE // 2
        #: By placement: where this rank waits, and where it writes so that the peer's wait ends.
        self.flags = {
            "device": (own_flags, driver.open(peer_flags)),
            "host": (self.page.address + part * comm.rank, self.page.address + part * (1 - comm.rank)),
        }
        self.gate = part * comm.rank + GATE * FLAG_STRIDE

    def copy(self, to: int, source: int, size_bytes: int) -> None:
        """Enqueue a copy."""
        self.driver.call("cuMemcpyAsync", to, source, size_bytes, self.stream)

    def run(self, enqueue: Callable[[], None]) -> float:
        """Enqueue a batch on both ranks, then let it go; microseconds on this rank's stream."""
        driver, word = self.driver, self.page.word(self.gate)
        opened = word.value + 1
        driver.call("cuStreamWaitValue32_v2", self.stream, self.page.address + self.gate, opened, AT_LEAST)
        driver.call("cuEventRecord", self.start, self.stream)
        enqueue()
        driver.call("cuEventRecord", self.end, self.stream)
        self.comm.barrier()
        word.value = opened
        driver.call("cuStreamSynchronize", self.stream)
        self.comm.barrier()
        return driver.elapsed_us(self.start, self.end)


class Exchange:
    """Messages in both directions, numbered in each; message n uses slot n modulo `slots` of the buffers."""

    def __init__(self, link: Link, placement: str, size_bytes: int, slots: int) -> None:
        self.link = link
        self.waited, self.written = link.flags[placement]
        self.size_bytes = size_bytes
        self.slots = slots
        # Flags are never reset: each exchange starts beyond every value of those before.
        link.last_message += 1 << 16
        self.first = self.sent = self.received = link.last_message

    def wait(self, flag: int, value: int) -> None:
        """Enqueue a wait for the peer."""
        address = self.waited + flag * FLAG_STRIDE
        self.link.driver.call("cuStreamWaitValue32_v2", self.link.stream, address, value, AT_LEAST)

    def write(self, flag: int, value: int) -> None:
        """Enqueue a word to the peer."""
        self.link.driver.call("cuStreamWriteValue32_v2", self.link.stream, self.written + flag * FLAG_STRIDE, value, 0)

    def offset(self, message: int) -> int:
        """Where a message lies in the buffers of both ranks."""
        return message % self.slots * self.size_bytes

    def send(self, produce: Callable[[int], None] | None = None) -> None:
        """Enqueue the next message; `produce` enqueues what writes it, at the address it gets."""
        raise NotImplementedError

    def receive(self) -> None:
        """Enqueue the reception of the peer's next message."""
        raise NotImplementedError

    def finish(self) -> None:
        """Enqueue a wait until the peer has all messages, as far as the protocol tells."""


class Pull(Exchange):
    """The receiver copies."""

    def send(self, produce: Callable[[int], None] | None = None) -> None:  # noqa: D102 - see Exchange
        self.sent += 1
        if self.sent - self.first > self.slots:
            self.wait(DONE, self.sent - self.slots)
        if produce is not None:
            produce(self.link.data + self.offset(self.sent))
        self.write(READY, self.sent)

    def receive(self) -> None:  # noqa: D102 - see Exchange
        self.received += 1
        offset = self.offset(self.received)
        self.wait(READY, self.received)
        self.link.copy(self.link.data + offset, self.link.peer_data + offset, self.size_bytes)
        self.write(DONE, self.received)

    def finish(self) -> None:  # noqa: D102 - see Exchange
        self.wait(DONE, self.sent)


class Put(Exchange):
    """The sender copies."""

    def send(self, produce: Callable[[int], None] | None = None) -> None:  # noqa: D102 - see Exchange
        self.sent += 1
        offset = self.offset(self.sent)
        if produce is not None:
            produce(self.link.data + offset)
        self.wait(FREE, self.sent)
        self.link.copy(self.link.peer_data + offset, self.link.data + offset, self.size_bytes)
        self.write(ARRIVED, self.sent)

    def receive(self) -> None:  # noqa: D102 - see Exchange
        self.received += 1
        self.write(FREE, self.received + self.slots - 1)
        self.wait(ARRIVED, self.received)


PROTOCOLS = {"pull": Pull, "put": Put}


def is_correct(link: Link, protocol: str, placement: str) -> bool:
    """Send distinct messages one way, and look at every word that arrived."""
    words, messages = 1 << 18, 12
    exchange = PROTOCOLS[protocol](link, placement, words * 4, slots=1)
    log = link.driver.allocate(words * 4 * messages)

    def enqueue() -> None:
        for number in range(messages):
            if link.comm.rank == 0:
                exchange.send(
                    lambda address, n=number: link.driver.call(  # type: ignore[misc]
                        "cuMemsetD32Async", address, 7 + n, words, link.stream
                    )
                )
            else:
                exchange.receive()
                link.copy(log + number * words * 4, link.data, words * 4)
        if link.comm.rank == 0:
            exchange.finish()

    link.run(enqueue)
    arrived = (ctypes.c_uint32 * (words * messages))()
    link.driver.call("cuMemcpyDtoH_v2", ctypes.addressof(arrived), log, ctypes.sizeof(arrived))
    link.driver.call("cuMemFree_v2", log)
    expected = b"".join((7 + n).to_bytes(4, sys.byteorder) * words for n in range(messages))
    return bool(link.comm.bcast(bytes(arrived) == expected, root=1))


def measure(link: Link, protocol: str, placement: str, size_bytes: int, options: argparse.Namespace) -> dict[str, Any]:
    """Ping-pong latency and one-way bandwidth of one message size."""
    is_first = link.comm.rank == 0
    steps = options.steps

    def ping_pong() -> None:
        for _ in range(steps):
            if is_first:
                exchange.send()
                exchange.receive()
            else:
                exchange.receive()
                exchange.send()

    def one_way() -> None:
        for _ in range(steps):
            if is_first:
                exchange.send()
            else:
                exchange.receive()
        if is_first:
            exchange.finish()

    times: dict[str, list[float]] = {}
    for name, enqueue, slots in (("latency", ping_pong, 1), ("one_way", one_way, SLOTS)):
        exchange = PROTOCOLS[protocol](link, placement, size_bytes, slots)
        times[name] = [link.run(enqueue) for _ in range(options.batches + 1)][1:]
    latencies = sorted(value / (2 * steps) for value in times["latency"])
    return {
        "protocol": protocol,
        "flags": placement,
        "bytes": size_bytes,
        "latency_us": statistics.median(latencies),
        "latency_us_min": latencies[0],
        "latency_us_max": latencies[-1],
        "one_way_us": statistics.median(times["one_way"]) / steps,
        "one_way_gb_per_s": size_bytes * steps / statistics.median(times["one_way"]) / 1e3,
    }


# ---- which calls block


class Probe:
    """Calls driver functions on a thread of their own, idle or while a stream waits for an unset flag."""

    def __init__(self, link: Link, patience_s: float) -> None:
        self.driver = link.driver
        self.page = SharedPage(link.driver, MPI.COMM_SELF)
        self.waiting_stream = link.driver.create_stream()
        self.launch_stream = link.driver.create_stream()
        self.patience_s = patience_s
        self.released = 0

    def time(self, call: Callable[[], Any], *, waiting: bool) -> tuple[float | None, Any]:
        """Microseconds, or None if the call came back only after the flag was set; and what it returned."""
        if waiting:
            self.released += 1
            self.driver.call("cuStreamWaitValue32_v2", self.waiting_stream, self.page.address, self.released, AT_LEAST)
            time.sleep(0.002)
            if self.driver.status("cuStreamQuery", self.waiting_stream) != NOT_READY:
                raise RuntimeError("the stream does not wait")
        result: list[Any] = []

        def body() -> None:
            self.driver.make_current()
            begun = time.perf_counter()
            try:
                value = call()
            except Exception as error:  # noqa: BLE001 - told by the main thread
                value = error
            result.extend(((time.perf_counter() - begun) * 1e6, value))

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        thread.join(self.patience_s)
        has_blocked = thread.is_alive()
        self.page.word(0).value = self.released
        thread.join()
        self.driver.call("cuStreamSynchronize", self.waiting_stream)
        if isinstance(result[1], Exception):
            raise result[1]
        return (None if has_blocked else result[0]), result[1]


def probe_calls(link: Link, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time each call and the one that undoes it. Rank 0 measures; rank 1 lends memory to be mapped."""
    driver, rounds = link.driver, options.probe_rounds
    lent = [driver.allocate(2 << 20) for _ in range(2 * rounds)] if link.comm.rank == 1 else []
    handles = link.comm.bcast([driver.export(address) for address in lent], root=1)
    rows: list[dict[str, Any]] = []
    if link.comm.rank == 0:
        probe = Probe(link, options.patience)
        region = mmap.mmap(-1, 16 << 20)
        region_address = ctypes.addressof(ctypes.c_char.from_buffer(region))
        ctypes.memset(region_address, 1, 16 << 20)

        def register() -> int:
            driver.call("cuMemHostRegister_v2", region_address, 16 << 20, PORTABLE_AND_MAPPED)
            return region_address

        def load() -> int:
            return int(driver.get("cuModuleLoadData", ctypes.c_void_p, PTX))

        def launch(module: int) -> None:
            function = driver.get("cuModuleGetFunction", ctypes.c_void_p, module, b"nothing")
            driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, probe.launch_stream, None, None)
            driver.call("cuStreamSynchronize", probe.launch_stream)

        pinned = (ctypes.c_void_p, 16 << 20, PORTABLE_AND_MAPPED)
        calls: tuple[tuple[str, Callable[[], Any], str, Callable[[Any], Any]], ...] = (
            ("cuMemAlloc, 64 MiB", lambda: driver.allocate(64 << 20), "cuMemFree", _undo(driver, "cuMemFree_v2")),
            (
                "cuMemHostAlloc, 16 MiB",
                lambda: driver.get("cuMemHostAlloc", *pinned),
                "cuMemFreeHost",
                _undo(driver, "cuMemFreeHost"),
            ),
            ("cuMemHostRegister, 16 MiB", register, "cuMemHostUnregister", _undo(driver, "cuMemHostUnregister")),
            (
                "cuIpcOpenMemHandle, 2 MiB",
                lambda: driver.open(handles.pop()),
                "cuIpcCloseMemHandle",
                _undo(driver, "cuIpcCloseMemHandle"),
            ),
            ("cuModuleLoadData", load, "cuLaunchKernel, the first of a module", launch),
        )
        for name, do, undo_name, undo in calls:
            times: dict[tuple[str, bool], list[float | None]] = {}
            for waiting in (False, True):
                for _ in range(rounds):
                    took, value = probe.time(do, waiting=waiting)
                    times.setdefault((name, waiting), []).append(took)
                    took, _ = probe.time(functools.partial(undo, value), waiting=waiting)
                    times.setdefault((undo_name, waiting), []).append(took)
            rows += [_summary(call, times) for call in (name, undo_name)]
    link.comm.barrier()
    for address in lent:
        driver.call("cuMemFree_v2", address)
    return rows


def _undo(driver: Driver, name: str) -> Callable[[Any], None]:
    return lambda value: driver.call(name, value)


def _summary(call: str, times: dict[tuple[str, bool], list[float | None]]) -> dict[str, Any]:
    during = [took for took in times[call, True] if took is not None]
    return {
        "call": call,
        "idle_us": statistics.median(took for took in times[call, False] if took is not None),
        "blocks": len(during) < len(times[call, True]),
        "waiting_us": statistics.median(during) if during else None,
    }


# ---- the program


def show(rows: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
    """Print both tables."""
    names = {size: name for name, size in SIZES.items()}
    table = Table(title="Calls while another stream waits for an unset flag")
    for column in ("call", "idle, µs", "while waiting, µs"):
        table.add_column(column, justify="left" if column == "call" else "right")
    for row in calls:
        waiting = "blocks" if row["blocks"] else f"{row['waiting_us']:.0f}"
        table.add_row(row["call"], f"{row['idle_us']:.0f}", waiting)
    Console(width=110).print(table)
    table = Table(title="Stream-ordered messages between two GPUs of two processes")
    for column in ("message", "protocol", "flags in memory of", "latency, µs", "min to max", "one way, GB/s"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            names.get(row["bytes"], str(row["bytes"])),
            row["protocol"],
            row["flags"],
            f"{row['latency_us']:.2f}",
            f"{row['latency_us_min']:.2f} to {row['latency_us_max']:.2f}",
            f"{row['one_way_gb_per_s']:.3g}",
        )
    Console(width=110).print(table)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables on rank 0, and write the JSON file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="messages each way per batch (default 40)")
    parser.add_argument("--batches", type=int, default=15, help="batches per figure, after one to warm up")
    parser.add_argument("--seconds", type=float, default=100, help="end the process after so long, whatever happens")
    parser.add_argument("--patience", type=float, default=0.4, help="seconds after which a call counts as blocked")
    parser.add_argument("--probe-rounds", type=int, default=3, help="calls of each kind, idle and while waiting")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args(arguments)
    if count_devices() == 0:
        parser.error("there is no CUDA device")
    # Also ends a process that hangs in the driver; the launcher then ends the other one.
    faulthandler.dump_traceback_later(options.seconds, exit=True)
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    comm = MPI.COMM_WORLD
    if comm.size != 2:
        raise SystemExit(
            "direct_protocols needs two ranks: mpirun -n 2 python -m cluster_jobs.benchmarks.direct_protocols"
        )
    driver = Driver(comm.rank)
    link = Link(driver, comm, SLOTS * max(SIZES.values()))
    rows = []
    for placement in PLACEMENTS:
        for protocol in PROTOCOLS:
            if not is_correct(link, protocol, placement):
                raise SystemExit(
                    f"WRONG: what arrives by {protocol} with flags in {placement} memory is not what was sent"
                )
    for size in SIZES.values():
        for protocol in PROTOCOLS:
            rows += [measure(link, protocol, placement, size, options) for placement in PLACEMENTS]
    calls = probe_calls(link, options)
    if comm.rank == 0:
        show(rows, calls)
        if options.output:
            environment = {"python": sys.version, **driver.describe()}
            options.output.write_text(
                json.dumps({"environment": environment, "messages": rows, "calls": calls}, indent=1) + "\n"
            )
    comm.barrier()
    faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
