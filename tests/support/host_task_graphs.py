# SPDX-License-Identifier: MIT
"""The graphs in which host tasks lie, and their order there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tests.verification.contexts import Cluster
from tests.verification.graph_query import Graph


def graphs(cluster: Cluster, rank: int = 0) -> list[Graph]:
    """The tasks of all ranks, and the commands and instructions of one."""
    return [cluster.tasks(), cluster.commands(rank), cluster.instructions(rank)]


def assert_chain(in_graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """Each of these tasks depends on the one before it, and on no earlier one."""
    for graph in in_graphs:
        for earlier, later in pairwise(names):
            follows = graph.all(name=later).predecessors(name=earlier).count_is(1)
            assert follows, follows
        for earlier, later in zip(names, names[2:], strict=False):
            is_free = graph.all(name=later).predecessors(name=earlier).is_empty()
            assert is_free, is_free
