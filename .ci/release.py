# SPDX-License-Identifier: MIT
"""Makes a release of this checkout: `python .ci/release.py 0.2.0`, or `make release VERSION=0.2.0`.

The checks run. One commit changes the version and the changelog, the source distribution and the wheels are built from
it, and a tag names it. If any step fails, the branch is where it was. Nothing leaves the machine.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

BRANCH = "main"
#: The files that have the version, and the text before it, at the start of a line.
VERSION_PLACES = {
    "pyproject.toml": 'version = "',
    "cluster_jobs/recipes/conda/recipe.yaml": '  version: "',
    "cluster_jobs/recipes/spack/package.py": '    version("',
}
CHANGELOG = "CHANGELOG.md"
CHECKS = (".ci/run",)
BUILD = ("make", "wheel")
_UNRELEASED = "## [Unreleased]\n"


class ReleaseError(Exception):
    """The release cannot be made; the message says why."""


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def _numbers(version: str) -> tuple[int, ...]:
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise ReleaseError(f"{version!r} is no version: write three numbers, such as 0.2.0.")
    return tuple(map(int, version.split(".")))


def replace_version(text: str, path: str, version: str) -> str:
    """The text of one of the files of `VERSION_PLACES`, with another version."""
    pattern = re.compile(rf'^({re.escape(VERSION_PLACES[path])})([\d.]+)(?=")', flags=re.MULTILINE)
    changed, count = pattern.subn(rf"\g<1>{version}", text)
    if count != 1:
        raise ReleaseError(f"{path} has {count} lines that begin with {VERSION_PLACES[path]!r}, not 1.")
    return changed


def close_changelog(text: str, version: str, date: str) -> str:
    """The changelog, whose section Unreleased has become the section of a version, below a new empty one.

    Raises:
        ReleaseError: If there is no such section, or no entry in it.
    """
    before, found, after = text.partition(_UNRELEASED)
    entries, next_section, older = after.partition("\n## [")
    if not found or not re.search(r"^- ", entries, flags=re.MULTILINE):
        raise ReleaseError(f"{CHANGELOG} has no entry under {_UNRELEASED.strip()!r}: write what users notice.")
    return f"{before}{_UNRELEASED}\n## [{version}] - {date}\n{entries}{next_section}{older}"


def prepare(version: str) -> dict[str, str]:
    """What the files will contain.

    Raises:
        ReleaseError: If the checkout is not ready for a release.
    """
    if (branch := _git("branch", "--show-current")) != BRANCH:
        raise ReleaseError(f"A release is made on the branch {BRANCH}, and this is {branch or 'none'}.")
    if changes := _git("status", "--porcelain"):
        raise ReleaseError(f"There are changes that no commit has:\n{changes}")
    if _git("tag", "--list", f"v{version}"):
        raise ReleaseError(f"There is a tag v{version} already.")
    texts = {path: Path(path).read_text(encoding="utf-8") for path in (*VERSION_PLACES, CHANGELOG)}
    current = re.search(r'^version = "(.+)"$', texts["pyproject.toml"], flags=re.MULTILINE)
    if not current or _numbers(version) <= _numbers(current[1]):
        raise ReleaseError(f"{version} does not come after {current[1] if current else 'no version'}, the current one.")
    changed = {path: replace_version(texts[path], path, version) for path in VERSION_PLACES}
    return {**changed, CHANGELOG: close_changelog(texts[CHANGELOG], version, f"{datetime.now(UTC):%Y-%m-%d}")}


def _step(*command: str, dry: bool) -> None:
    print("+", *command, flush=True)
    if not dry and subprocess.run(command, check=False).returncode != 0:
        raise ReleaseError(f"'{' '.join(command)}' has failed.")


def release(version: str, *, dry: bool) -> None:
    """Make the release, or print its steps.

    Raises:
        ReleaseError: If it cannot be made. The checkout is then as before.
    """
    texts = prepare(version)
    _step(*CHECKS, dry=dry)
    start = _git("rev-parse", "HEAD")
    try:
        for path, text in texts.items():
            print("+ change", path)
            if not dry:
                Path(path).write_text(text, encoding="utf-8")
        _step("git", "commit", "--quiet", "--message", f"Release {version}", "--", *texts, dry=dry)
        _step(*BUILD, dry=dry)
        _step("git", "tag", "--annotate", f"v{version}", "--message", f"Version {version}", dry=dry)
    except BaseException:
        _git("reset", "--quiet", "--hard", start)  # the tree was clean
        raise
    if not dry:
        print(f"v{version} is tagged, and dist/ has its files. Publish the tag: git push origin {BRANCH} v{version}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", metavar="VERSION", help="three numbers, such as 0.2.0")
    parser.add_argument("--dry-run", action="store_true", help="check the branch, print the steps, change nothing")
    options = parser.parse_args()
    try:
        release(options.version, dry=options.dry_run)
    except ReleaseError as error:
        sys.exit(f"No release: {error}")
