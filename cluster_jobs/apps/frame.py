# SPDX-License-Identifier: MIT
"""The frame of every application around its kernels: arguments, progress bar, summary, check and picture."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import access

try:
    from rich.console import Console
    from rich.table import Table
except ImportError:
    sys.exit("The applications print with rich: pip install 'celerity_py[apps]'")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

WARM_UP_BATCHES, TIMED_BATCHES = 2, 7


def argument_parser(description: str, *, size: int, size_help: str, size_name: str = "") -> argparse.ArgumentParser:
    """Make a parser with the arguments that all applications share.

    Args:
        description: What the application computes; its first line goes to `--help`.
        size: Default of `--size`.
        size_help: What the size is the size of.
        size_name: What `--size` may be called besides, such as `--bodies`.

    Returns:
        A parser for `--size`, `--output` and `--verify`; add the application's own.
    """
    parser = argparse.ArgumentParser(
        description=description.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    names = [name for name in (size_name, "--size") if name]
    parser.add_argument(*names, dest="size", type=positive_int, default=size, metavar="N", help=size_help)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write a picture of the result, e.g. result.png")
    parser.add_argument("--verify", action="store_true", help="compare with plain NumPy; exit status 1 if it differs")
    return parser


def add_hint_arguments(parser: argparse.ArgumentParser, *, dimensions: int = 2) -> None:
    """Add arguments on how kernels of one or two dimensions are split; see `hints`."""
    if dimensions > 1:
        parser.add_argument("--split-2d", action="store_true", help="cut the index space into tiles instead of rows")
    parser.add_argument(
        "--oversubscribe", type=positive_int, default=1, metavar="K", help="chunks of each device, in each kernel"
    )


def hints(arguments: argparse.Namespace) -> tuple[celerity.hints.Hint, ...]:
    """Return the hints that the arguments ask for."""
    split = (celerity.hints.split_2d(),) if getattr(arguments, "split_2d", False) else ()
    several = (celerity.hints.oversubscribe(arguments.oversubscribe),) if arguments.oversubscribe > 1 else ()
    asked = getattr(arguments, "recompute", 0)
    return split + several + ((celerity.hints.recompute(asked),) if asked else ())


def device_count(queue: celerity.Queue) -> int:
    """Return the number of devices of all ranks, which may have different numbers of them. Collective."""
    own, counts = queue.statistics().num_devices, []
    if celerity.size() > 1:
        queue.collective(lambda part: counts.extend(part.comm.allgather(own)))
        queue.wait()
    return sum(counts) or own * celerity.size()  # a dry run runs no host task


def add_recompute_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--recompute` to the arguments of a program that replays its steps; see `celerity.hints.recompute`."""
    parser.add_argument(
        "--recompute",
        type=positive_int,
        default=0,
        metavar="K",
        help="with --replay: exchange halos once in K repetitions, and compute the borders of other shares meanwhile",
    )


def add_border_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--border` to the arguments of a stencil; see `stencil_hints`."""
    parser.add_argument("--border", type=int, metavar="ROWS", help="rows computed before the others; 0: none")


def stencil_hints(
    devices: int, arguments: argparse.Namespace, *, rows: int, items: int, items_worth_it: int
) -> tuple[celerity.hints.Hint, ...]:
    """Return the hints for a step of a stencil: what is asked for, and rows first where that pays, or is asked for.

    Args:
        devices: How many share the step; see `device_count`.
        arguments: From `add_hint_arguments` and `add_border_argument`.
        rows: How many rows first, unless that is asked for.
        items: Of a step.
        items_worth_it: With fewer of them on a device, two kernels more take longer than the transfers that they hide.
    """
    given, asked = hints(arguments), arguments.border
    is_alone = arguments.oversubscribe == 1 and not getattr(arguments, "recompute", 0)
    is_worth_it = devices > 1 and items // devices >= items_worth_it and is_alone
    first = asked if asked is not None else rows if is_worth_it else 0
    return (*given, celerity.hints.border_first(first)) if first else given


@celerity.kernel
def forget(chunk: celerity.Chunk, results: celerity.View) -> None:
    """Overwrite floating-point numbers."""
    results[chunk.box] = np.nan


def submit_of(
    queue: celerity.Queue,
    arguments: argparse.Namespace,
    submit: Callable[[int], None],
    turn: int = 2,
    results: Sequence[celerity.Buffer] = (),
) -> Callable[[int], None]:
    """Return a function that submits a number of steps: `submit` itself, or with `--replay` one that replays its steps.

    Args:
        queue: Where the steps are submitted.
        arguments: From the command line.
        submit: Submits so many steps.
        turn: So many steps are recorded. Two buffers that take turns have their old places after two steps.
        results: Buffers that each turn fills with the same values. They are overwritten after the recorded turn, so
            that the values are those of a replay.
    """
    kept: list[celerity.Recording] = []

    def replay(steps: int) -> None:
        turns, rest = divmod(steps, turn)
        if turns and not kept:
            kept.append(queue.record(lambda: submit(turn)))
            turns -= 1
            for buffer in results if turns else ():
                queue.parallel_for(buffer.shape, forget, buffer.write(access.one_to_one()))
        if turns:
            queue.replay(kept[0], turns)
        if rest:
            submit(rest)
            kept.clear()  # the recording does not begin where these steps end

    return replay if arguments.replay else submit


def add_benchmark_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--benchmark`, which prints what `measure` returns, and nothing else; and `--replay`, see `submit_of`."""
    parser.add_argument("--benchmark", action="store_true", help="time batches of S steps each, and print JSON only")
    parser.add_argument("--replay", action="store_true", help="record the first steps, and replay them")


def measure(
    queue: celerity.Queue,
    submit: Callable[[int], None],
    *,
    size: int,
    steps: int,
    num_batches: tuple[int, int] = (WARM_UP_BATCHES, TIMED_BATCHES),
) -> dict[str, Any]:
    """Time batches of steps, each until all ranks have finished it. Collective.

    Args:
        queue: Where the batches are submitted.
        submit: Submits so many steps.
        size: The problem size, for the figures.
        steps: Steps of a batch.
        num_batches: Batches that are not counted, because memory is allocated and code is loaded in them, and batches
            that are.

    Returns:
        What every application reports with `--benchmark`; `us_per_step` is the median of the batches, in microseconds.
        A dry run computes nothing: `us_per_step_to_plan` stands in its place, and there are no rates.
    """
    times = []
    for _ in range(sum(num_batches)):
        queue.barrier()
        start = time.perf_counter()
        submit(steps)
        queue.barrier()
        times.append((time.perf_counter() - start) * 1e6 / steps)
    timed = times[num_batches[0] :]
    what = "us_per_step" if queue.statistics().executor else "us_per_step_to_plan"
    return {
        "size": size,
        "steps": steps,
        "ranks": celerity.size(),
        "devices_per_rank": queue.statistics().num_devices,
        what: statistics.median(timed),
        f"batches_{what}": timed,
    }


def print_figures(figures: Mapping[str, Any]) -> None:
    """Print the figures as one line of JSON, on the master rank only."""
    if celerity.is_master():
        print(json.dumps(figures))


def positive_int(text: str) -> int:
    """Convert a command line argument that counts something."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


@contextlib.contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Show the steps that are submitted and done, by `celerity.progress`; yields the function to call after each."""
    steps = celerity.progress(range(total), label=label)

    def advance() -> None:
        next(steps, None)

    advance()
    try:
        yield advance
    finally:
        if isinstance(steps, Generator):  # there may be fewer steps than that
            steps.close()


def print_summary(title: str, rows: Mapping[str, str]) -> None:
    """Print a table of names and values, on the master rank only."""
    if not celerity.is_master():
        return
    table = Table(show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    print(title)
    Console().print(table)


def quantity(value: float, unit: str) -> str:
    """Write a number with a decimal prefix: `quantity(2.5e9, "B") == "2.50 GB"`."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.2f} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def timing(queue: celerity.Queue, seconds: float, rates: Mapping[str, str]) -> dict[str, str]:
    """Return summary rows on how long a run took, and its rates; a dry run has none, because nothing is computed."""
    if not queue.statistics().executor:
        return {"time to plan, nothing computed": f"{seconds:.3f} s"}
    return {"time": f"{seconds:.3f} s", **rates}


def traffic(queue: celerity.Queue) -> dict[str, str]:
    """Return summary rows on the data that the runtime moved for this rank; no rows after a dry run."""
    counters = queue.statistics().executor
    if not counters:
        return {}
    rows = {f"copied between memories, rank {celerity.rank()}": quantity(sum(counters["copied_bytes"].values()), "B")}
    if celerity.size() > 1:
        rows[f"sent by rank {celerity.rank()}"] = quantity(sum(counters["sent_bytes"].values()), "B")
        rows[f"received by rank {celerity.rank()}"] = quantity(counters["received_bytes"], "B")
    return rows


def resizes(queue: celerity.Queue) -> dict[str, int]:
    """Return how often memory of buffers was allocated anew because it had to grow, on this rank, and bytes copied.

    Nothing after a dry run.
    """
    counters = queue.statistics().executor
    if not counters:
        return {}
    of_buffers = [number for (buffer, _), number in counters["allocations_by_buffer"].items() if buffer != 0]
    return {"resizes": sum(of_buffers) - len(of_buffers), "resize_bytes": counters["copied_bytes"]["resize"]}


def agrees(result: NDArray[Any], expected: NDArray[Any], *, rounding: float = 0.0) -> bool:
    """Tell, on the master rank, whether the result is what NumPy computes, and print the verdict.

    Args:
        result: What was computed.
        expected: What NumPy computes.
        rounding: How far elements may be off, relative to the largest one. By default they must agree bit for bit.
    """
    if np.array_equal(result, expected):
        print("Verified: bit-identical to plain NumPy.")
        return True
    difference = np.abs(result - expected)
    if np.all(difference <= rounding * np.max(np.abs(expected))):
        print(f"Verified: within {rounding:g} of the largest value of plain NumPy, as sums in another order are.")
        return True
    where = tuple(int(index) for index in np.unravel_index(np.argmax(difference), difference.shape))  # NaN is most
    wrong = np.count_nonzero(result != expected)
    print(f"WRONG: {wrong} of {result.size} elements differ from plain NumPy, most at {where}:")
    print(f"  {result[where]!r} instead of {expected[where]!r}")
    return False


def pyplot() -> Any:
    """Return matplotlib's pyplot, which draws into files; without matplotlib, the program ends here."""
    try:
        import matplotlib as mpl
    except ImportError:
        sys.exit("Pictures need matplotlib: pip install 'celerity_py[viz]'")
    mpl.use("agg")
    from matplotlib import pyplot as plt

    return plt


def save_figure(path: Path, figure: Any) -> None:
    """Write a figure of matplotlib's, and say where the file is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot().close(figure)
    print(f"Picture: {path.resolve()}")


def save_picture(path: Path, panels: Mapping[str, NDArray[Any]], *, colours: str, centred: bool = False) -> None:
    """Draw 2-D arrays side by side and say where the file is.

    Args:
        path: File to write; its suffix chooses the format.
        panels: Title and values of each panel. Large arrays are thinned out to the pixels of a screen.
        colours: Name of a matplotlib colour map.
        centred: Whether zero is to get the middle colour.
    """
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(6.5 * len(panels), 6), squeeze=False, layout="constrained")
    for axis, (title, values) in zip(axes[0], panels.items(), strict=True):
        thinned = values[:: max(1, values.shape[0] // 1024), :: max(1, values.shape[1] // 1024)]
        limit = float(np.percentile(np.abs(thinned), 99.8)) if centred else None
        bottom = -limit if limit is not None else None
        image = axis.imshow(
            thinned, cmap=colours, vmin=bottom, vmax=limit, extent=(0, values.shape[1], values.shape[0], 0)
        )
        axis.set_title(title)
        figure.colorbar(image, ax=axis, shrink=0.8)
    save_figure(path, figure)
