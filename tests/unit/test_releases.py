# SPDX-License-Identifier: MIT
"""What `make wheel` refuses to ship, the page of an index, the recipes, and `make release` in a small repository."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import celerity_py._native

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILD_REQUIREMENTS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
RECIPES = ROOT / "cluster_jobs" / "recipes"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wheels, index_page, release = _load("wheels"), _load("index_page"), _load("release")


# ---- wheels


def _wheel(folder: Path, files: dict[str, Path], platform: str = "manylinux_2_28_x86_64") -> Path:
    path = folder / f"celerity_py-1.0.0-cp311-cp311-{platform}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.write(content, name)
    return path


EXTENSION = "celerity_py/_native.cpython-311-x86_64-linux-gnu.so"


def _portable_extension() -> Path:
    """An extension of a wheel for an old glibc."""
    files = distribution("numpy").files or ()
    (path,) = (file for file in files if re.fullmatch(r"numpy/random/bit_generator\..*so", str(file)))
    return Path(str(path.locate()))


def test_an_extension_for_an_old_glibc_without_other_libraries_is_shipped(tmp_path: Path) -> None:
    assert wheels.find_faults(_wheel(tmp_path, {EXTENSION: _portable_extension()})) == []


def test_a_wheel_whose_extension_the_compiler_of_this_machine_has_linked_is_refused(tmp_path: Path) -> None:
    extension = Path(celerity_py._native.__file__)
    faults = wheels.find_faults(_wheel(tmp_path, {EXTENSION: extension}))
    assert f"{EXTENSION} needs libstdc++.so.6" in faults
    assert any(re.search(r"needs GLIBCXX_3\.\d+\.?\d* of libstdc\+\+\.so\.6$", fault) for fault in faults)


def test_a_newer_glibc_than_the_platform_says_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "GLIBC", (2, 1))
    faults = wheels.find_faults(_wheel(tmp_path, {EXTENSION: _portable_extension()}))
    assert f"{EXTENSION} needs GLIBC_2.2.5 of libc.so.6" in faults


def test_a_wheel_of_another_platform_or_with_other_libraries_is_refused(tmp_path: Path) -> None:
    library = _portable_extension()
    testing = "celerity_py/_native_testing.cpython-311-x86_64-linux-gnu.so"
    assert wheels.find_faults(_wheel(tmp_path, {EXTENSION: library, testing: library}, "linux_x86_64")) == [
        "its platform is not manylinux_2_28_x86_64",
        f"its libraries are {EXTENSION}, {testing}, not the extension alone",
    ]


def test_an_interpreter_is_found_by_its_version_and_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = "3.14"
    script = tmp_path / f"python{version}"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for answer, with_headers in (("True", True), ("False", False)):
        script.write_text(f"#!/bin/sh\necho {version} {answer}\n")
        script.chmod(0o755)
        assert (wheels.find_interpreter(version, with_headers=True) == script) == with_headers
        assert wheels.find_interpreter(version, with_headers=False) == script
    script.write_text("#!/bin/sh\necho 3.1 True\n")
    assert wheels.find_interpreter(version, with_headers=False) is None


def test_zig_finds_the_headers_of_python_that_debian_keeps_elsewhere_and_no_others(tmp_path: Path) -> None:
    headers, multiarch = tmp_path / "include" / "python3.14", "x86_64-linux-gnu"
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho '{headers}|{multiarch}'\n")
    interpreter.chmod(0o755)
    assert wheels.link_debian_headers(interpreter, tmp_path / "build") == ""
    elsewhere = tmp_path / "include" / multiarch / "python3.14"
    elsewhere.mkdir(parents=True)
    (elsewhere / "pyconfig.h").write_text("#define SIZE 8\n")
    (elsewhere.parent / "features.h").touch()
    found = tmp_path / "build" / "headers"
    assert wheels.link_debian_headers(interpreter, tmp_path / "build") == f"-isystem {found}"
    assert (found / multiarch / "python3.14" / "pyconfig.h").read_text() == "#define SIZE 8\n"
    assert [path.name for path in (found / multiarch).iterdir()] == ["python3.14"]


# ---- the page of an index


README = """
[a page](docs/a.md#place), [here](#below), [the web](https://example.org) ![picture](docs/b.svg)

```python
u[box](1)
```
"""


def test_links_of_the_readme_lead_to_the_repository_if_its_address_is_known() -> None:
    text = index_page.make_index_page(README, "https://example.org/r", "v1")
    assert "[a page](https://example.org/r/blob/v1/docs/a.md#place)" in text
    assert "[here](https://example.org/r/blob/v1/README.md#below), [the web](https://example.org)" in text
    assert "![picture](https://example.org/r/raw/v1/docs/b.svg)" in text
    assert "u[box](1)" in text


def test_without_an_address_the_words_of_links_stay() -> None:
    text = index_page.make_index_page(README, None, "v1")
    assert text.splitlines()[1] == "a page, here, [the web](https://example.org) "
    assert "u[box](1)" in text


def test_no_link_of_the_index_page_of_this_project_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = index_page.dynamic_metadata({}, PROJECT)["readme"]
    assert page["content-type"] == "text/markdown"
    outside = re.sub(r"^```.*?^```$", "", page["text"], flags=re.MULTILINE | re.DOTALL)
    assert "The runtime calls `wave_step` once per device" in outside
    assert re.findall(r"\]\((?!https://)[^)]*\)", outside) == []


# ---- recipes


def _minimum(requirement: str) -> tuple[str, str]:
    name, _, version = requirement.partition(">=")
    return re.sub(r"[._ -]+", "-", name.strip().removeprefix("py-")), version.strip()


def test_the_conda_recipe_requires_what_the_project_requires() -> None:
    recipe = (RECIPES / "conda" / "recipe.yaml").read_text()
    host, run = re.search(r"^  host:\n(.*?)^  run:\n(.*?)^  #", recipe, flags=re.MULTILINE | re.DOTALL).groups()  # type: ignore[union-attr]
    listed = [{_minimum(line) for line in re.findall(r"- ([^#\n]+)", part)} for part in (host, run)]
    assert listed[0] == {*map(_minimum, BUILD_REQUIREMENTS), ("python", ""), ("pip", "")}
    assert listed[1] == {*map(_minimum, PROJECT["dependencies"]), ("python", "")}


def test_the_spack_package_requires_what_the_project_requires() -> None:
    listed = []
    for node in ast.walk(ast.parse((RECIPES / "spack" / "package.py").read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "depends_on":
            words = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
            listed.append((ast.literal_eval(node.args[0]), words["type"], words.get("when")))
    for kind, requirements in (("build", BUILD_REQUIREMENTS), ("run", PROJECT["dependencies"])):
        found = {spec for spec, how, when in listed if spec.startswith("py-") and how == kind and when is None}
        expected = [(name, version.removesuffix(".0")) for name, version in map(_minimum, requirements)]
        assert found == {f"py-{name}@{version}:" if version else f"py-{name}" for name, version in expected}
    assert (f"python@{PROJECT['requires-python'].removeprefix('>=')}:", ("build", "run"), None) in listed


def test_all_places_have_the_version_of_the_project() -> None:
    for path in release.VERSION_PLACES:
        text = (ROOT / path).read_text()
        assert release.replace_version(text, path, PROJECT["version"]) == text


# ---- releases


CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n- A thing.\n\n## [0.1.0] - 2026-01-01\n- The start.\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository in which a release can be made: its checks and its build are small scripts."""
    for path, before in release.VERSION_PLACES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f'{before}0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    (tmp_path / "Makefile").write_text("wheel:\n\tgrep '^version' pyproject.toml > dist\n")
    (tmp_path / ".gitignore").write_text("/dist\n")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / ".ci" / "run").chmod(0o755)
    _git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    _commit(tmp_path)
    return tmp_path


IDENTITY = {f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def _git(repository: Path, *arguments: str) -> str:
    run = ["git", "-C", str(repository), *arguments]
    return subprocess.run(run, check=True, capture_output=True, text=True, env=os.environ | IDENTITY).stdout.strip()


def _commit(repository: Path) -> None:
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--message", "A change")


def _release(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "release.py"), *arguments]
    environment = os.environ | IDENTITY
    return subprocess.run(
        command, cwd=repository, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def _state(repository: Path) -> tuple[str, str, str]:
    return _git(repository, "rev-parse", "HEAD"), _git(repository, "tag"), _git(repository, "status", "--porcelain")


def test_a_release_is_a_commit_with_version_and_changelog_from_which_the_files_are_built_and_a_tag(
    repository: Path,
) -> None:
    outcome = _release(repository, "0.2.0")
    assert outcome.returncode == 0, outcome.stderr
    assert _git(repository, "log", "-1", "--format=%s", "v0.2.0") == "Release 0.2.0"
    assert _git(repository, "rev-parse", "v0.2.0^{commit}") == _git(repository, "rev-parse", "HEAD")
    assert _git(repository, "cat-file", "-t", "v0.2.0") == "tag"
    assert not _git(repository, "status", "--porcelain")
    for path, before in release.VERSION_PLACES.items():
        assert (repository / path).read_text() == f'{before}0.2.0"\n'
    changelog = (repository / "CHANGELOG.md").read_text()
    heading = re.search(r"^## \[0\.2\.0\] - \d{4}-\d\d-\d\d$", changelog, flags=re.MULTILINE)
    assert heading
    assert changelog == CHANGES.replace("## [Unreleased]\n", f"## [Unreleased]\n\n{heading[0]}\n")
    assert (repository / "dist").read_text() == 'version = "0.2.0"\n'
    assert "No release: CHANGELOG.md has no entry under" in _release(repository, "0.3.0").stderr


def test_a_dry_run_changes_nothing_and_names_the_steps(repository: Path) -> None:
    before = _state(repository)
    outcome = _release(repository, "0.2.0", "--dry-run")
    assert outcome.returncode == 0, outcome.stderr
    assert [line.split()[1] for line in outcome.stdout.splitlines()] == [
        *(".ci/run", "change", "change", "change", "change", "git", "make", "git")
    ]
    assert _state(repository) == before
    assert not (repository / "dist").exists()


def _edit(repository: Path) -> None:
    (repository / "new").touch()


def _other_branch(repository: Path) -> None:
    _git(repository, "switch", "--quiet", "--create", "other")


def _tag(repository: Path) -> None:
    _git(repository, "tag", "v0.2.0")


def _no_entry(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGES.replace("- A thing.\n", ""))
    _commit(repository)


def _red_checks(repository: Path) -> None:
    (repository / ".ci" / "run").write_text("#!/bin/sh\nfalse\n")
    _commit(repository)


def _broken_build(repository: Path) -> None:
    (repository / "Makefile").write_text("wheel:\n\tfalse\n")
    _commit(repository)


def _two_versions(repository: Path) -> None:
    (repository / "pyproject.toml").write_text('version = "0.1.0"\nversion = "0.1.0"\n')
    _commit(repository)


@pytest.mark.parametrize(
    ("spoil", "version", "message"),
    [
        (_edit, "0.2.0", "There are changes that no commit has:\n?? new"),
        (_other_branch, "0.2.0", "A release is made on the branch main, and this is other."),
        (_tag, "0.2.0", "There is a tag v0.2.0 already."),
        (_no_entry, "0.2.0", "CHANGELOG.md has no entry under '## [Unreleased]': write what users notice."),
        (_red_checks, "0.2.0", "'.ci/run' has failed."),
        (_broken_build, "0.2.0", "'make wheel' has failed."),
        (_two_versions, "0.2.0", "pyproject.toml has 2 lines that begin with 'version = \"', not 1."),
        (lambda _: None, "0.1.0", "0.1.0 does not come after 0.1.0, the current one."),
        (lambda _: None, "0.2", "'0.2' is no version: write three numbers, such as 0.2.0."),
    ],
)
def test_a_checkout_that_is_not_ready_is_refused_and_stays_as_it_was(
    repository: Path, spoil: Any, version: str, message: str
) -> None:
    spoil(repository)
    before = _state(repository)
    outcome = _release(repository, version)
    assert outcome.returncode == 1
    assert outcome.stderr.strip() == f"No release: {message}" or f"No release: {message}\n" in outcome.stderr
    assert _state(repository) == before
