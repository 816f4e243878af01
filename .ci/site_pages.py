# SPDX-License-Identifier: MIT
"""Hooks of MkDocs: pages that the folder docs/ does not hold, and links that lead to them.

The documents link to each other and to sources by paths, so that they can be read in the repository. On the site, each
linked file outside of docs/ is a page, and so is each notebook.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
#: Documents outside of docs/, and their pages.
_DOCUMENTS = {
    "README.md": "index.md",
    "cluster_jobs/README.md": "programs.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_PATHS = {page: path for path, page in _DOCUMENTS.items()}
_LANGUAGES = {".py": "python", ".cpp": "cpp", ".hpp": "cpp", ".cuh": "cuda", ".sh": "bash", ".sbatch": "bash"}
_FENCED = re.compile(r"(^ *```.*?^ *```$)", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the documents outside of docs/, and a page for each notebook and for each linked source."""
    for path, page in _DOCUMENTS.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    notebooks = [file for file in files if file.src_uri.endswith(".ipynb")]
    for file in notebooks:
        text = Path(file.abs_src_path).read_text()
        files.append(File.generated(config, _page_of(f"docs/{file.src_uri}"), content=_notebook(text, file.name)))
    for path in sorted(set(_linked_sources(files))):
        content = f"---\nsearch: {{ exclude: true }}\n---\n# `{path}`\n\n{_source(ROOT / path)}"
        page = File.generated(config, _page_of(path), content=content, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Lead the links to files of the repository to their pages."""
    here = page.file.src_uri

    def lead(link: re.Match[str]) -> str:
        uri = _page_of(_target(_path_of(here), link[1]))
        return f"]({posixpath.relpath(uri, posixpath.dirname(here) or '.')}{link[2] or ''})"

    return "".join(
        part if part.lstrip().startswith("```") else _LINK.sub(lead, part) for part in _FENCED.split(markdown)
    )


def _path_of(page: str) -> str:
    """The path, from the root of the repository, of the document that is a page."""
    return _PATHS.get(page, f"docs/{page}")


def _page_of(path: str) -> str:
    """The page that shows a file of the repository."""
    if path in _DOCUMENTS:
        return _DOCUMENTS[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/").replace(".ipynb", ".md")
    return f"source/{path}.md"


def _target(document: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), link))


def _linked_sources(files: Iterable[File]) -> Iterator[str]:
    for file in files:
        if not file.is_documentation_page():
            continue
        document = _path_of(file.src_uri)
        for part in _FENCED.split(file.content_string):
            for link, _ in [] if part.lstrip().startswith("```") else _LINK.findall(part):
                path = _target(document, link)
                if path not in _DOCUMENTS and not path.startswith("docs/") and (ROOT / path).exists():
                    yield path


def _source(path: Path) -> str:
    """A file as it is, or the list of the files in a folder."""
    if path.is_dir():
        names = sorted(each for each in path.iterdir() if each.suffix in {*_LANGUAGES, ".md"} or each.is_dir())
        return "\n".join(f"* `{each.name}{'/' * each.is_dir()}`{_summary(each)}" for each in names if _is_shown(each))
    return f"````{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n````\n"


def _is_shown(path: Path) -> bool:
    return not path.name.startswith((".", "__pycache__"))


def _summary(path: Path) -> str:
    """The title of a document, or the first line of the docstring of a module, as the end of a line."""
    if path.suffix == ".md":
        return f": {path.read_text().splitlines()[0].removeprefix('# ')}"
    docstring = ast.get_docstring(ast.parse(path.read_text())) if path.suffix == ".py" else None
    return f": {docstring.splitlines()[0]}" if docstring else ""


# ---- notebooks


def _notebook(text: str, name: str) -> str:
    cells = json.loads(text)["cells"]
    shown = "\n\n".join(part for cell in cells for part in _cell(cell))
    return f"{shown}\n\n[Download this notebook]({name}.ipynb){{ download }}\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            yield f'<img alt="The picture that the cell draws" src="data:image/png;base64,{data["image/png"].strip()}">'
        else:
            yield f"```text\n{''.join(output.get('text', data.get('text/plain', ''))).rstrip()}\n```"
