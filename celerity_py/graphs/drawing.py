# SPDX-License-Identifier: MIT
"""Graphs in the language of graphviz, and as pictures."""

from __future__ import annotations

import html
import shutil
import subprocess
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from celerity_py import _native
from celerity_py.scheduler.errors import ResourceError

if TYPE_CHECKING:
    from celerity_py.graphs.nodes import Dependency, Node


class _Look(NamedTuple):
    colour: str
    style: str
    meaning: str


#: By kind of dependency. The colours differ for people with any kind of colour vision.
_EDGES: Final = {
    "true": _Look("#000000", "solid", "reads data that the other one has written"),
    "anti": _Look("#d55e00", "dashed", "overwrites data that the other one reads"),
    "output": _Look("#cc79a7", "dashed", "overwrites data that the other one has written"),
    "side effect": _Look("#009e73", "solid", "uses the same host object"),
    "transfer": _Look("#0072b2", "bold", "data goes from rank to rank"),
    "memory": _Look("#b58900", "dotted", "memory is allocated before its use, and freed behind it"),
    "order": _Look("#999999", "dotted", "a horizon or epoch stands for all before it"),
}
_FILL: Final = {
    "work": "#d9f0d3",
    "copy": "#deebf7",
    "transfer": "#e7d4e8",
    "memory": "#fff7bc",
    "order": "#eeeeee",
}
#: Of commands. Instructions have theirs in the core.
_CATEGORIES: Final = {
    "execution": "work",
    "reduction": "work",
    "fence": "copy",
    "push": "transfer",
    "await_push": "transfer",
    "horizon": "order",
    "epoch": "order",
}
_FILL_OF: Final = {
    **{kind: _FILL[category] for kind, category in _CATEGORIES.items()},
    **{kind: _FILL[traits.category] for kind, traits in _native.instruction_kinds().items()},
}
_LINE_LENGTH: Final = 60
#: In characters. Graphviz 2 reads no string of more than 16384 bytes, and an epoch may come after thousands of
#: instructions.
_TOOLTIP_LENGTH: Final = 2000
_EARLIER: Final = "earlier"


class Cluster(NamedTuple):
    """Nodes with a frame around them."""

    #: Unique in its graph.
    key: str
    #: Empty: without a frame.
    title: str
    nodes: Sequence[Node]


def write_dot(title: str, clusters: Sequence[Cluster], crossing: Iterable[tuple[str, Dependency]] = ()) -> str:
    """The graph as DOT.

    Args:
        title: Its first line.
        clusters: All nodes. An edge from a node outside begins at the node "earlier".
        crossing: Further dependencies, each with the key of the node that has it.
    """
    nodes = [node for cluster in clusters for node in cluster.nodes]
    known = {node.key for node in nodes}
    edges: dict[tuple[str, str], Dependency] = {}
    for key, dependency in [(node.key, each) for node in nodes for each in node.dependencies] + list(crossing):
        source = dependency.on if dependency.on in known else _EARLIER
        edges.setdefault((source, key), dependency)
    lines = [
        f"digraph {_quote(title)} {{",
        f"  graph [{_attributes(_title(title, [each.kind for each in edges.values()]))}]",
        '  node [shape=box style="rounded,filled" fillcolor=white fontname="Helvetica" fontsize=10 margin="0.14,0.06"]',
        '  edge [arrowsize=0.7 fontname="Helvetica" fontsize=9]',
    ]
    if any(source == _EARLIER for source, _ in edges):
        lines.append(f'  {_EARLIER} [label="earlier" shape=plaintext style=""]')
    for cluster in clusters:
        indent = "  "
        if cluster.title:
            lines.append(f"  subgraph {_quote(f'cluster_{cluster.key}')} {{")
            lines.append(
                f"    graph [label={_quote(cluster.title)} labeljust=l style=rounded color={_quote('#bbbbbb')}]"
            )
            indent = "    "
        lines += [f"{indent}{_node(node)}" for node in cluster.nodes]
        if cluster.title:
            lines.append("  }")
    lines += [f"  {_edge(source, key, dependency)}" for (source, key), dependency in edges.items()]
    return "\n".join([*lines, "}", ""])


def to_svg(dot: str, subject: str, limit_s: float) -> str:
    """Let graphviz draw it.

    Args:
        dot: The graph.
        subject: How a message calls it.
        limit_s: Seconds for the drawing.

    Raises:
        ResourceError: If graphviz is not installed, fails, or takes longer.
    """
    program = shutil.which("dot")
    if program is None:
        raise ResourceError(
            f"the {subject} cannot be drawn: there is no program `dot` on PATH. Install graphviz (for example "
            f"`apt install graphviz`, `brew install graphviz` or `conda install graphviz`), or draw the text elsewhere."
        )
    try:
        run = subprocess.run(  # noqa: S603 - the program that the user has installed
            [program, "-Tsvg"],
            input=dot,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ResourceError(
            f"the {subject} has {dot.count(' -> ')} edges, too many for `dot` to draw within {limit_s:.3g} s. "
            f"Choose fewer tasks, such as CELERITY_PRINT_GRAPHS_WINDOW=-20: or queue.graphs('-20:')."
        ) from None
    except OSError as error:
        raise ResourceError(f"the {subject} cannot be drawn: {program} does not start: {error}.") from None
    if run.returncode or not run.stdout:
        raise ResourceError(f"the {subject} cannot be drawn: {program} says {run.stderr.strip()!r}.")
    return run.stdout


def _title(title: str, kinds: Iterable[str]) -> dict[str, str]:
    used = set(kinds)
    rows = [f'<font point-size="14"><b>{html.escape(title)}</b></font><br align="left"/>']
    rows += [
        f'<font color="{look.colour}"><b>{kind}</b>: {look.meaning}</font><br align="left"/>'
        for kind, look in _EDGES.items()
        if kind in used
    ]
    label = f"<{''.join(rows)}>"
    return {"label": label, "labelloc": "t", "labeljust": "l", "fontname": _quote("Helvetica"), "fontsize": "10"}


def _node(node: Node) -> str:
    rows = [f"<b>{html.escape(row)}</b>" for row in _wrap(node.label)]
    rows += [html.escape(row) for line in node.lines for row in _wrap(line)]
    fill = _FILL_OF[node.kind]
    label = "".join(f'{row}<br align="left"/>' for row in rows)
    return f"{_quote(node.key)} [label=<{label}> fillcolor={_quote(fill)} tooltip={_quote(_cut(repr(node)))}]"


def _edge(source: str, key: str, dependency: Dependency) -> str:
    kind, look = dependency.kind, _EDGES[dependency.kind]
    about = f" because of {', '.join(dependency.buffers)}" if dependency.buffers else ""
    tooltip = f"{key} after {source}{about}, {kind}: {look.meaning}"
    light = " weight=0" if kind in {"anti", "output", "order", "memory"} else ""
    return (
        f"{_quote(source)} -> {_quote(key)} "
        f"[color={_quote(look.colour)} style={look.style}{light} class={_quote(kind)} tooltip={_quote(tooltip)}]"
    )


def _attributes(values: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _cut(text: str) -> str:
    return text if len(text) <= _TOOLTIP_LENGTH else f"{text[:_TOOLTIP_LENGTH]} ..."


def _wrap(line: str) -> list[str]:
    return textwrap.wrap(line, _LINE_LENGTH, break_long_words=False, break_on_hyphens=False) or [""]


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
