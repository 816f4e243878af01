# SPDX-License-Identifier: MIT
"""Which code is measured."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess

from cluster_jobs.processes import ROOT


def code_version() -> str:
    """The commit, with "-dirty" behind it if files differ from it; without git, the version of the package."""
    git = shutil.which("git")
    if git is not None:
        described = subprocess.run(  # noqa: S603 - no input
            [git, "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if described.returncode == 0:
            return described.stdout.strip()
    try:
        return importlib.metadata.version("celerity_py")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
