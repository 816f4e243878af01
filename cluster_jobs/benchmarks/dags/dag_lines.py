# SPDX-License-Identifier: MIT
"""Counts lines and tokens of the DAG programs: for celerity_py, and for streams and events by hand.

    python -m cluster_jobs.benchmarks.dags.dag_lines

Both have the same kernels, buffers and launches. A program for celerity_py says besides how a launch accesses each
buffer: its mode and its range mapper. A program by hand names the buffers only, and has a schedule: the stream of each
launch, its waits, and the copies for which it waits. A mapper that gets a name outside of an access counts for both.
Calls are those of a run by itself with copies from and to the host. Ours are submits of kernels and fences; by hand
there are launches, copies, and records and waits of events.

Lines are those of the source without comments, docstrings and blank lines. Tokens are Python's, or the names, numbers
and operators of CUDA C++. The last line has what all programs share: the class that submits a program, and the code
that turns a schedule into calls of the driver.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections import Counter
from types import ModuleType
from typing import Any

from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.dags import dag_programs, dag_schedules, dags_by_hand
from cluster_jobs.benchmarks.dags.dag_programs import PROGRAMS
from cluster_jobs.benchmarks.dags.dag_schedules import SCHEDULES, operations_with_copies

ACCESSES = {"reads", "writes", "updates"}
#: What turns a schedule into operations; the rest of that module is about schedules in general.
OF_OPERATIONS = {"Operation", "kernel_operations", "operations_with_copies", "copies_out", "last_streams"}
OF_CALLS = {"launch_shape", "parameters", "Arrays", "Issuer", "issue", "HandWritten"}
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_CUDA_TOKEN = re.compile(r"\w+(?:\.\w+)?|<<=?|>>=?|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|->|::|[^\s\w]")


class _Names(ast.NodeTransformer):
    """Puts buffers in the place of accesses to them."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `reads(buffer, mapper)` by `buffer`."""
        self.generic_visit(node)
        return node.args[0] if isinstance(node.func, ast.Name) and node.func.id in ACCESSES else node


def size_of(source: str) -> Counter[str]:
    """Lines and tokens of Python."""
    tree = ast.parse(textwrap.dedent(source))
    without = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    found = [
        token
        for token in tokenize.generate_tokens(io.StringIO(textwrap.dedent(source)).readline)
        if token.type not in _LAYOUT and token.start[0] not in without
    ]
    lines = {line for token in found for line in range(token.start[0], token.end[0] + 1)}
    return Counter(lines=len(lines), tokens=len(found))


def size_of_cuda(source: str) -> Counter[str]:
    """Lines and tokens of CUDA C++."""
    lines = [line.split("//")[0].strip() for line in source.splitlines()]
    return Counter(lines=sum(map(bool, lines)), tokens=sum(len(_CUDA_TOKEN.findall(line)) for line in lines))


def sources_of(module: ModuleType, names: set[str]) -> Counter[str]:
    """Lines and tokens of some functions and classes of a module."""
    return sum((size_of(inspect.getsource(getattr(module, name))) for name in sorted(names)), Counter())


def schedules() -> dict[str, str]:
    """The source of each schedule."""
    source = inspect.getsource(dag_schedules)
    (table,) = (
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SCHEDULES"
    )
    assert isinstance(table, ast.Dict)
    keys = [ast.literal_eval(key) for key in table.keys if key is not None]
    return {key: ast.get_source_segment(source, value) or "" for key, value in zip(keys, table.values, strict=True)}


def count(name: str) -> dict[str, Any]:
    """The figures of a program."""
    source = inspect.getsource(PROGRAMS[name])
    program, schedule = PROGRAMS[name](), size_of(schedules()[name])
    kernels = {step.kernel.name: step.kernel.body for step in program.steps}
    ours = size_of(source)
    # Names stand in the lines of the accesses, so that only the number of tokens differs.
    named = size_of(ast.unparse(_Names().visit(ast.parse(source))))["tokens"]
    unparsed = size_of(ast.unparse(ast.parse(source)))["tokens"]
    return {
        "program": name,
        "kernels": sum(map(size_of_cuda, kernels.values()), Counter()),
        "ours": ours,
        "accesses": unparsed - named,
        "schedule": schedule,
        "by_hand": Counter(lines=ours["lines"], tokens=ours["tokens"] - unparsed + named) + schedule,
        "calls": len(program.steps) + len(program.read_back),
        "calls_by_hand": len(operations_with_copies(program, SCHEDULES[name])),
    }


def main(arguments: list[str] | None = None) -> int:
    """Count, print the table, and write the JSON file if asked to."""
    options = report.argument_parser(__doc__).parse_args(arguments)
    rows = [count(name) for name in PROGRAMS]
    keys = [key for key in rows[0] if key != "program"]
    rows.append({"program": "the six"} | {key: sum((row[key] for row in rows[1:]), rows[0][key]) for key in keys})
    report.show_rows(
        "Lines / tokens of the DAG programs",
        [
            *(("program", "{program}"), ("kernels, both", "{kernels[lines]} / {kernels[tokens]}")),
            *(("celerity_py", "{ours[lines]} / {ours[tokens]}"), ("of which accesses", "{accesses}")),
            *(("by hand", "{by_hand[lines]} / {by_hand[tokens]}"),),
            *(("of which schedule", "{schedule[lines]} / {schedule[tokens]}"), ("calls", "{calls}")),
            ("calls by hand", "{calls_by_hand}"),
        ],
        rows,
    )
    shared = {
        "ours": sources_of(dag_programs, {"ResidentProgram"}),
        "by_hand": sources_of(dag_schedules, OF_OPERATIONS) + sources_of(dags_by_hand, OF_CALLS),
    }
    words = {name: f"{size['lines']} lines, {size['tokens']} tokens" for name, size in shared.items()}
    print(f"Once for all programs: celerity_py {words['ours']}; by hand {words['by_hand']}")
    report.write(options.output, rows, shared=shared)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
