# SPDX-License-Identifier: MIT
"""Looks at the built site: `python .ci/site_check.py build/site`.

Every link leads to a page and to a place on it, no page loads anything from another host, and every public name of
celerity_py is in the reference.
"""

from __future__ import annotations

import inspect
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import celerity_py
from celerity_py import access, errors, hints, random

_LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}
#: Links of this kind load nothing.
_NOT_LOADED = {"next", "prev", "canonical"}


class _Page(HTMLParser):
    """The links of a page, and the places on it that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and places of one element."""
        given = {name: value for name, value in attrs if value}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if _LOADED.get(tag) in given and given.get("rel") not in _NOT_LOADED:
            self.loaded.append(given[_LOADED[tag]])


def find_broken(site: Path) -> list[str]:
    """The links that lead nowhere, and what pages load from other hosts."""
    pages = {path.resolve(): _Page(path) for path in sorted(site.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links begin at the root of a server
        shown = path.relative_to(site.resolve())
        broken += [f"{shown} loads {url}" for url in page.loaded if urlsplit(url).netloc]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.is_file() or (place and target in pages and place not in pages[target].places):
                broken.append(f"{shown}: {link} leads nowhere")
    return broken


def find_missing(site: Path) -> list[str]:
    """The public names that the reference lacks."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    listed = {line.split(b" ", 1)[0].decode() for line in zlib.decompress(inventory).splitlines()}
    public = {f"celerity_py.{name}" for name in celerity_py.__all__}
    for module in (access, hints, random):
        public |= {f"{module.__name__}.{name}" for name in module.__all__}
    public |= {f"celerity_py.errors.{name}" for name, value in vars(errors).items() if inspect.isclass(value)}
    return sorted(public - listed)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    problems = find_broken(folder) + [f"{name} is not in the reference" for name in find_missing(folder)]
    sys.exit("\n".join(problems) or 0)
