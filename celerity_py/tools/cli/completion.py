# SPDX-License-Identifier: MIT
"""`celerity-py completion bash`: a script with which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from celerity_py.tools.cli.words import add_command

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "completion",
        execute,
        "Print a script with which a shell completes this command.",
        'For bash: eval "$(celerity-py completion bash)" in ~/.bashrc. For zsh: celerity-py completion zsh > '
        "~/.zfunc/_celerity-py, with fpath+=~/.zfunc before compinit.",
    )
    parser.add_argument("shell", choices=("bash", "zsh"))


def execute(options: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    print(shtab.complete(options.whole_parser, shell=options.shell))
    return 0
