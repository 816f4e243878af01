# SPDX-License-Identifier: MIT
"""The graphs of a run: their nodes, the reasons of edges and instructions, their texts, and their files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import _native_testing, access
from celerity_py.configuration import TaskWindow, parse_window, resolve
from celerity_py.graphs.explanations import Explainer
from celerity_py.graphs.graphs import Graph, Graphs
from celerity_py.graphs.nodes import CommandNode, InstructionNode, Node
from celerity_py.scheduler.errors import ArgumentTypeError, ConfigurationError, ResourceError, UsageError
from tests.failures.launching import run

needs_graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")


@pytest.fixture
def queue_with(tmp_path: Path) -> Iterator[Callable[..., celerity.Queue]]:
    names: set[str] = set()
    queues: list[celerity.Queue] = []

    def make(**settings: Any) -> celerity.Queue:
        chosen: dict[str, Any] = {"print_graphs": tmp_path / "graphs", "devices": "cpu:2"} | settings
        names.update(chosen)
        celerity.configure(**chosen)
        queues.append(celerity.Queue())
        return queues[-1]

    yield make
    for queue in queues:
        queue.close()
    celerity.configure(**dict.fromkeys(names))


@celerity.kernel
def wave_step(chunk: Any, after: Any, before: Any) -> None:
    after[chunk.box] = before.array.mean()


def submit_steps(queue: celerity.Queue, count: int, extent: int = 64) -> tuple[Any, Any]:
    u = celerity.Buffer.from_array(np.zeros((extent, 8), np.float32), name="u")
    v = celerity.Buffer((extent, 8), np.float32, name="v")
    for _ in range(count):
        queue.parallel_for(u.shape, wave_step, v.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
        u, v = v, u
    return u, v


def find(graph: Graph, *words: str) -> Node:
    """The only node whose text has all words."""
    (found,) = (node for node in graph.nodes if all(word in repr(node) for word in words))
    return found


def kinds_of(node: Node) -> dict[str, str]:
    return {dependency.on: dependency.kind for dependency in node.dependencies}


# ---- nodes and their reasons


def test_the_three_graphs_of_a_small_program_say_who_does_what_and_why(queue_with: Any) -> None:
    queue = queue_with()
    submit_steps(queue, 3)
    queue.wait()
    graphs = queue.graphs()
    assert isinstance(graphs, Graphs)
    written = [repr(node) for node in graphs.task.nodes]
    assert written[0] == '<T1 epoch "init">'
    assert written[1] == (
        '<T2 "wave_step"; device kernel [0:64, 0:8]; reads B1 "u" [0:64, 0:8]; writes B2 "v" [0:64, 0:8]; '
        "after T1 (order)>"
    )
    assert written[2].endswith('after T2 (true: B2 "v")>')
    assert written[3].endswith('after T3 (true: B1 "u")>')
    assert written[4:] == ['<T5 epoch "wait"; after T4 (order)>']
    assert repr(graphs.command.nodes[2]) == (
        '<C3 execution; T3 "wave_step" [0:64, 0:8]; reads B2 "v" [0:64, 0:8]; writes B1 "u" [0:64, 0:8]; '
        'after C2 (true: B2 "v")>'
    )
    assert repr(graphs.task.nodes[2].dependencies) == '(<after T2 (true: B2 "v")>,)'
    reads, writes = graphs.task.nodes[2].accesses
    assert (repr(reads), repr(reads.buffer)) == ('<reads B2 "v" [0:64, 0:8]>', '<B2 "v">')
    assert repr(writes) == '<writes B1 "u" [0:64, 0:8]>'
    halo = find(graphs.instruction, 'copy B2 "v" [31:32, 0:8] from D0 to D1')
    assert "read by T3 chunk 1" in repr(halo)
    kernel = find(graphs.instruction, 'T3 "wave_step" [32:64, 0:8] on D1')
    assert "chunk 1 of 2 on this rank" in repr(kernel)
    assert kinds_of(kernel)[halo.key] == "true"
    initial = find(graphs.instruction, 'copy B1 "u" [31:64, 0:8] from user memory to D1')
    assert "the initial contents, read by T2 chunk 1" in repr(initial)
    alloc = find(graphs.instruction, 'alloc B1 "u" [31:64, 0:8] in D1')
    assert "used by T2 chunk 1" in repr(alloc)
    assert kinds_of(initial)[alloc.key] == "memory"
    # The halo of T4 may overwrite the place from which T2 has read.
    assert "anti" in kinds_of(find(graphs.instruction, 'copy B1 "u" [31:32, 0:8] from D0 to D1')).values()


def test_edges_tell_reads_overwrites_host_objects_and_horizons_apart(queue_with: Any) -> None:
    queue = queue_with(devices="cpu:1", horizon_step=2)
    u = celerity.Buffer((8,), np.float64, name="u")
    log: celerity.HostObject[list[Any]] = celerity.HostObject([])

    def look(part: Any, *args: Any) -> None: ...

    def store(chunk: Any, view: Any) -> None:
        view.array[...] = 1

    write, read = u.write(access.one_to_one()), u.read(access.all())
    queue.parallel_for(8, store, write, name="first")
    queue.parallel_for(8, store, u.write(access.one_to_one()), name="second")
    queue.host_task(look, read, log.side_effect(), unordered=True, name="reader")
    queue.host_task(look, log.side_effect(), unordered=True, name="next")
    queue.parallel_for(8, store, u.write(access.one_to_one()), name="third")
    queue.wait()
    graph = queue.graphs().task
    first, second, reader, following, third = (
        find(graph, f' "{name}"') for name in ("first", "second", "reader", "next", "third")
    )
    assert kinds_of(second) == {first.key: "output", "T1": "order"}
    assert kinds_of(reader)[second.key] == "true"
    assert kinds_of(following)[reader.key] == "side effect"
    assert kinds_of(third)[reader.key] == "anti"
    assert "uses host object 1" in repr(following)
    assert set(kinds_of(find(graph, "horizon 1;")).values()) == {"order"}


def test_allocations_that_grow_or_die_say_so(queue_with: Any) -> None:
    queue = queue_with(devices="cpu:1", lookahead="none")
    u = celerity.Buffer((64,), np.float64, name="u")

    def store(chunk: Any, view: Any) -> None:
        view.array[...] = 1

    for end in (8, 64):
        queue.parallel_for(celerity.Box((0,), (end,)), store, u.read_write(access.one_to_one()))
        queue.wait()
    del u
    queue.wait()
    graph = queue.graphs().instruction
    assert "D0 (M2.A1) grows: D0 (M2.A2) takes its place" in repr(find(graph, 'copy B1 "u" [0:8] from D0 to D0'))
    assert "D0 (M2.A2), which is larger, takes its place" in repr(find(graph, 'free B1 "u" [0:8] in D0 (M2.A1), 64 B'))
    assert "the program has dropped the buffer" in repr(find(graph, 'free B1 "u" [0:64] in D0 (M2.A2), 512 B'))


def test_reductions_fences_and_functions_with_contents_are_explained(queue_with: Any) -> None:
    queue = queue_with()
    u = celerity.Buffer.from_function((8,), np.float64, lambda box: np.ones(box.shape), name="u")
    total = celerity.Buffer((), np.float64, name="total")
    reduction = celerity.reduction(total, "sum")
    queue.parallel_for(8, lambda chunk, r, view: r.combine(view.array.sum()), reduction, u.read(access.one_to_one()))
    queue.fence(total).result()
    graph = queue.graphs().instruction
    assert "its function has the contents; read by T2 chunk 1" in repr(find(graph, 'initialize B1 "u" [4:8] in host'))
    reduce = find(graph, 'combine 2 partial results of B2 "total" by sum in D0', "the reduction for T2")
    assert f"a partial result, combined by reduce {reduce.key}" in repr(find(graph, 'copy B2 "total" [] from D1'))
    assert 'T3 fence of B2 "total" gets it' in repr(find(graph, 'copy B2 "total" [] from D0 to user memory'))


@pytest.mark.parametrize("kept", [":", "4:"])
def test_each_instruction_has_a_reason_also_where_a_window_cuts_its_users_off(kept: str, queue_with: Any) -> None:
    queue = queue_with(lookahead="none", print_graphs_window=kept)
    u = celerity.Buffer.from_function((64,), np.float64, lambda box: np.ones(box.shape), name="u")
    total = celerity.Buffer((), np.float64, name="total")
    for end in (8, 64):
        queue.parallel_for(celerity.Box((0,), (end,)), lambda chunk, view: None, u.read_write(access.one_to_one()))
    queue.parallel_for(8, lambda chunk, r: r.combine(1.0), celerity.reduction(total, "sum"))
    queue.host_task(lambda part, *views: None, u.read(access.all()), total.read(access.all()))
    queue.fence(u).result()
    del u, total
    queue.wait()
    whole = queue.graphs(":").instruction.nodes
    kinds = {node.kind for node in whole}
    assert kinds >= {"alloc", "copy", "device_kernel", "epoch", "fence", "free", "host_task", "reduce"}
    last = whole[-1].task
    for window in (":", *(f"{task}:{task + 1}" for task in range(1, last + 1))):
        for node in queue.graphs(window).instruction.nodes:
            assert isinstance(node, InstructionNode)
            assert node.why, node


def test_each_kind_of_instruction_has_an_explanation_and_a_colour() -> None:
    for kind in _native_testing.INSTRUCTION_KINDS:
        assert callable(getattr(Explainer, f"_explain_{kind}"))


def test_repetitions_of_a_recording_are_in_the_graphs_one_by_one(queue_with: Any) -> None:
    queue = queue_with()
    u = celerity.Buffer.from_array(np.zeros((64, 8), np.float32), name="u")
    v = celerity.Buffer((64, 8), np.float32, name="v")

    def turn() -> None:
        queue.parallel_for(u.shape, wave_step, v.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
        queue.parallel_for(u.shape, wave_step, u.write(access.one_to_one()), v.read(access.neighborhood(1, 0)))

    queue.replay(queue.record(turn), 40)
    queue.wait()
    graphs = queue.graphs(":")
    assert sum(node.kind == "device_kernel" for node in graphs.task.nodes) == 82
    assert sum(node.kind == "device_kernel" for node in graphs.instruction.nodes) == 164
    assert queue.statistics().scheduler["expanded_repetitions"] == 0


# ---- several ranks


def test_a_dry_run_shows_the_commands_of_all_ranks_and_what_they_exchange(queue_with: Any) -> None:
    queue = queue_with(dry_run_ranks=3, devices="cpu:1", transport="host")
    submit_steps(queue, 2, extent=48)
    queue.wait()
    graphs = queue.graphs()
    graph = graphs.command
    assert {node.rank for node in graph.nodes if isinstance(node, CommandNode)} == {0, 1, 2}
    push = find(graph, "R1.C", "push;", 'B2 "v" [16:17, 0:8] to R0', "to R2")
    assert 'B2 "v" [31:32, 0:8] to R2; read there by T3 "wave_step"' in repr(push)
    await_push = find(graph, "<R0.", "await-push", 'B2 "v" [16:17, 0:8]', 'read here by T3 "wave_step"')
    assert re.search(rf'"{push.key}" -> "{await_push.key}" \[.*class="transfer"', graph.dot())
    assert graph.dot().count('class="transfer"') == 4, "each rank sends to its neighbours once"
    send = find(graphs.instruction, 'send B2 "v" [15:16, 0:8] from D0 to R1', 'R1 reads it in T3 "wave_step"')
    assert "true" in kinds_of(send).values()
    assert "read by T3 chunk 0" in repr(find(graphs.instruction, 'receive B2 "v" [16:17, 0:8] in D0'))


# ---- windows


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10:40", TaskWindow("tasks", 10, 40)),
        (" t10:T40", TaskWindow("tasks", 10, 40)),
        ("-20:", TaskWindow("tasks", -20)),
        (":", TaskWindow()),
        ("H2:H5", TaskWindow("horizons", 2, 5)),
        ("h-2:", TaskWindow("horizons", -2)),
    ],
)
def test_windows_are_read_as_they_are_written(text: str, window: TaskWindow) -> None:
    assert parse_window(text) == window
    assert resolve({"CELERITY_PRINT_GRAPHS_WINDOW": text}, {}).print_graphs_window == window
    assert parse_window(str(window)) == window


@pytest.mark.parametrize("text", ["10", "T:", "T1:H2", "a:b", "1:2:3"])
def test_windows_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PRINT_GRAPHS_WINDOW.* is not understood: expected tasks such as"):
        resolve({"CELERITY_PRINT_GRAPHS_WINDOW": text}, {})


def test_a_window_shows_its_tasks_only_and_says_where_it_begins(queue_with: Any) -> None:
    queue = queue_with()
    submit_steps(queue, 30)
    queue.wait()
    graphs = queue.graphs("10:13")
    tasks = [node.task for node in graphs.task.nodes]
    assert tasks == [10, 11, 12]
    assert {node.task for node in graphs.instruction.nodes} == {10, 11, 12}
    newest = queue.graphs(":").task.nodes[-1].task
    assert graphs.task.title == f"Tasks T10 to T12 of T1 to T{newest}"
    assert "earlier -> " not in graphs.task.dot()
    assert '"earlier" -> "T10"' in graphs.task.dot()
    assert [node.task for node in queue.graphs("-2:").task.nodes] == [newest - 1, newest]
    between = queue.graphs("H1:H2").task.nodes
    assert between[0].label.endswith("horizon 1")
    assert sum(node.kind == "horizon" for node in between) == 1
    assert queue.graphs("H-1:").task.nodes[-1].task == newest
    assert queue.graphs("500:").task.title == f"Tasks none of T1 to T{newest} in the window 500:"


def test_the_window_of_the_settings_keeps_early_tasks_of_a_long_run(queue_with: Any) -> None:
    queue = queue_with(print_graphs_window="2:4", devices="cpu:1")
    submit_steps(queue, 5000)
    queue.wait()
    assert [node.task for node in queue.graphs().task.nodes] == [2, 3]
    assert [node.task for node in queue.graphs(":").task.nodes] == [2, 3]


def test_a_long_run_keeps_its_latest_tasks(queue_with: Any) -> None:
    queue = queue_with(devices="cpu:1")
    submit_steps(queue, 5000)
    queue.wait()
    tasks = [node.task for node in queue.graphs(":").task.nodes]
    assert len(tasks) == 4096
    assert tasks[0] > 1000


# ---- texts, pictures and files


def check_dot(text: str) -> None:
    """Each edge joins two nodes that the text has declared, and brackets match."""
    declared = set(re.findall(r'^ +"?([\w.]+)"? \[label=', text, flags=re.MULTILINE))
    edges = re.findall(r'^ +"([\w.]+)" -> "([\w.]+)" \[', text, flags=re.MULTILINE)
    assert len(edges) == text.count(" -> ")
    assert {end for edge in edges for end in edge} <= declared
    unquoted = re.sub(r'"(\\.|[^"\\])*"', "", re.sub(r"label=<.*?> (?=\w+=)", "", text))
    assert unquoted.count("{") == unquoted.count("}") > 0


def make_graphs(queue: celerity.Queue) -> Graphs:
    u, _ = submit_steps(queue, 20)
    queue.parallel_for(
        u.shape, lambda chunk, view: None, u.read(access.one_to_one()), name='a "quoted" <name> & more\\'
    )
    queue.wait()
    return queue.graphs("5:")


def test_the_texts_are_whole(queue_with: Any) -> None:
    graphs = make_graphs(queue_with())
    for graph in (graphs.task, graphs.command, graphs.instruction):
        check_dot(graph.dot())
        assert graph.dot() == graph.dot()


def test_no_string_is_too_long_for_graphviz(queue_with: Any) -> None:
    queue = queue_with(devices="cpu:1", horizon_max_parallelism=65536)
    for _ in range(1500):
        queue.parallel_for(1, lambda chunk: None)
    queue.wait()
    graph = queue.graphs(":").instruction
    assert len(graph.nodes[-1].dependencies) >= 1500
    longest = max(map(len, re.findall(r'"((?:[^"\\]|\\.)*)"', graph.dot())))
    assert longest < 16384


@needs_graphviz
def test_graphviz_understands_the_texts(queue_with: Any) -> None:
    graphs = make_graphs(queue_with())
    for graph in (graphs.task, graphs.command, graphs.instruction):
        parsed = subprocess.run(
            ["dot", "-Tplain"], input=graph.dot(), capture_output=True, text=True, check=True, timeout=60
        )
        assert not parsed.stderr
        lines = [line.split(" ", 1)[0] for line in parsed.stdout.splitlines()]
        assert lines.count("node") == len(graph.nodes) + ("earlier [" in graph.dot())
        assert lines.count("edge") == graph.dot().count(" -> ")
        picture = graph.svg()
        assert picture == graph._repr_svg_()
        assert "</svg>" in picture
    assert "a &quot;quoted&quot; &lt;name&gt; &amp; more" in graphs.task.svg()


def test_a_missing_graphviz_is_told_with_the_remedy(
    queue_with: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = queue_with()
    graphs = make_graphs(queue)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match=r"the task graph cannot be drawn: .* Install graphviz .*apt install"):
        graphs.task.svg()
    assert graphs.task._repr_svg_() is None
    assert "install graphviz to see it" in repr(graphs.task)
    queue.close()
    assert sorted(path.name for path in (tmp_path / "graphs").iterdir()) == [
        "commands.dot",
        "instructions.dot",
        "tasks.dot",
    ]
    for record in caplog.records:
        assert "PRINT_GRAPHS: the" in record.message
        assert "Install graphviz" in record.message
    assert len(caplog.records) == 3


def test_a_slow_drawing_is_given_up_with_the_remedy(
    queue_with: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    graphs = make_graphs(queue_with())
    slow = tmp_path / "dot"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ResourceError, match=r"has \d+ edges, too many for `dot` to draw within 0\.2 s\. Choose fewer"):
        graphs.task.svg(limit_s=0.2)


def test_graphs_need_the_setting() -> None:
    with (
        celerity.Queue() as queue,
        pytest.raises(UsageError, match=r"keeps no graphs.*CELERITY_PRINT_GRAPHS=1.*print_graphs=True"),
    ):
        queue.graphs()


def test_a_window_of_a_call_that_is_not_understood_is_refused(queue_with: Any) -> None:
    queue = queue_with()
    with pytest.raises(UsageError, match=r"queue\.graphs\('ten'\): expected tasks such as '10:40'"):
        queue.graphs("ten")
    with pytest.raises(ArgumentTypeError, match="the window must be a str"):
        queue.graphs(10)


def test_a_file_in_the_place_of_the_folder_is_noticed_at_the_start(tmp_path: Path, queue_with: Any) -> None:
    (tmp_path / "graphs").write_text("")
    with pytest.raises(ConfigurationError, match=r"PRINT_GRAPHS=.*: this is a file\. Name a folder"):
        queue_with()


# The kernels wait for each other: a rank that hears of the failure early would have planned nothing.
FAILING = """
import os, time
from pathlib import Path
import numpy as np
import celerity_py as celerity
from celerity_py import access

def fail(chunk, view):
    folder = Path(os.environ["CELERITY_PRINT_GRAPHS"])
    (folder / f"begun.{celerity.rank()}").touch()
    while len(list(folder.glob("begun.*"))) < celerity.size():
        time.sleep(0.001)
    raise ValueError("bad")

with celerity.Queue() as queue:
    u = celerity.Buffer.from_array(np.zeros(8), name="u")
    queue.parallel_for(8, fail, u.read_write(access.one_to_one()), name="bad task")
    try:
        queue.wait()
    finally:
        print(queue.graphs().task, flush=True)
"""


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_graphs_are_written_after_a_failure(num_ranks: int | None, tmp_path: Path) -> None:
    variables = {"CELERITY_PRINT_GRAPHS": str(tmp_path), "CELERITY_BACKEND": "cpu"}
    outcome = run(num_ranks, sys.executable, "-c", FAILING, variables=variables)
    assert outcome.status != 0
    assert "ValueError: bad" in outcome.errors
    assert "<Tasks T1 to T" in outcome.output
    assert "bad task" in (tmp_path / "tasks.dot").read_text()
    ranks = [""] if num_ranks is None else [".0", ".1"]
    for suffix in ranks:
        assert 'T2 "bad task"' in (tmp_path / f"instructions{suffix}.dot").read_text().replace("&quot;", '"')
