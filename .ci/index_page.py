# SPDX-License-Identifier: MIT
"""The text that a package index shows: the README, whose links lead to files that the index does not have.

A plug-in of the build backend, named in pyproject.toml. The links lead to the tag of the version in the repository,
`Repository` of `[project.urls]`. Without that address, the words stay and the links and pictures go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FENCED = re.compile(r"(^```.*?^```$)", flags=re.MULTILINE | re.DOTALL)
#: A link or picture whose target is no address of the web. The README writes each in one line.
_RELATIVE = re.compile(r"(!?)\[([^\[\]]*)\]\((?![a-z]+:)([^()\s]*)\)")


def make_index_page(readme: str, repository: str | None, tag: str) -> str:
    """The README with links that work elsewhere.

    Args:
        readme: Its Markdown.
        repository: The address of the repository, as on GitHub or GitLab, or None.
        tag: Of the version.
    """

    def lead(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if repository is None:
            return "" if mark else words
        if target.startswith("#"):
            target = f"README.md{target}"
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/{tag}/{target})"

    parts = _FENCED.split(readme)
    return "".join(part if part.startswith("```") else _RELATIVE.sub(lead, part) for part in parts)


def dynamic_metadata(_settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """The field `readme` of the metadata; the build backend calls this function."""
    text = make_index_page(
        Path("README.md").read_text(encoding="utf-8"),
        project.get("urls", {}).get("Repository"),
        f"v{project['version']}",
    )
    return {"readme": {"content-type": "text/markdown", "text": text}}
