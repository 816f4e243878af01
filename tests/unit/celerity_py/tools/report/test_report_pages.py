# SPDX-License-Identifier: MIT
"""Pages of reports: real programs and their diagnoses, the bound on the size, and how a browser shows them."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from celerity_py.tools.cli.main import main as command
from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.comparison import compare_page
from celerity_py.tools.report.levels import MAX_SLICES, Levels
from celerity_py.tools.report.page import report_page
from celerity_py.tools.report.runs import Rank, Run, Texts, read_run
from tests.support import reported_programs
from tests.support.made_traces import ABOUT, MadeTrace, add_chain


def main(files: list[str]) -> int:
    """The command."""
    return command(["report", *files])


def report_of(name: str, folder: Path) -> str:
    """The report of a program, through the command."""
    reported_programs.run(name, trace=str(folder / "run.json"))
    assert main([str(folder / "run.json"), "-o", str(folder / "report.html")]) == 0
    return (folder / "report.html").read_text()


def findings(page: str) -> str:
    return html.unescape(" | ".join(re.findall(r'class="finding">([^<]*)<', page)))


def content_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found.group(1))
    return content


# ---- diagnoses of real programs; those of several ranks are in tests/mpi


def test_a_starved_program_is_diagnosed(tmp_path: Path) -> None:
    found = findings(report_of("starve", tmp_path))
    assert re.match(r"devices starve: the application thread is busy (9\d|100) %", found)
    assert re.search(r"Submits take [\d.]+ % of the thread's time, and the program's own code ([89]\d|100) %", found)


@pytest.mark.filterwarnings("ignore")
def test_resizes_are_diagnosed(tmp_path: Path) -> None:
    found = findings(report_of("grow", tmp_path))
    assert re.search(r"u was resized \d+ times on D0: lookahead was none", found)


def test_a_program_that_looks_at_each_step_is_diagnosed(tmp_path: Path) -> None:
    found = findings(report_of("look_at_each_step", tmp_path))
    start = r'devices run dry: the program waits 6\d times, after [12]\.\d submits each, most often in fence B1 "u"\. '
    assert re.match(start, found), found


def test_a_slow_mapper_is_diagnosed(tmp_path: Path) -> None:
    found = findings(report_of("map_slowly", tmp_path))
    mapper = re.search(r"rank 0's submits of mapped are [\d.]+ (µs|ms): its mapper is a Python function", found)
    assert mapper is not None, found
    if "starve" in found:  # not on a busy machine, whose executor waits for a core
        assert mapper.start() < found.index("starve")
        assert "of which Python mappers take" in found


# ---- the page


def test_the_page_has_all_parts_and_needs_no_other_file(tmp_path: Path) -> None:
    page = report_of("starve", tmp_path)
    for part in ("advice", "path", "time", "overlap", "kernels", "submits", "traffic", "memory"):
        assert page.count(f'<section id="{part}">') == 1
    about = read_run([tmp_path / "run.json"]).about
    for fact in (about["command"], about["host"], about["versions"]["NumPy"], "CELERITY_TRACE="):
        assert html.escape(fact[:80]) in page
    assert not re.search(r"(src|href)=[\"'](?!#)", page)
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert "reported_programs.py:" in page


def test_the_timeline_explains_each_of_its_colours(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace)
    page = report_page(trace.analyse(tmp_path))
    (table,) = re.findall(r"const colourOf = \{(.*?)\};", page, flags=re.DOTALL)
    drawn = set(re.findall(r': "([\w-]+)"', table)) | {"other"}
    (legend,) = re.findall(r'<p class="dim legend">(.*?)</p>', page)
    assert set(re.findall(r"background:var\(--([\w-]+)\)", legend)) == drawn


def test_words_stand_at_the_left_and_every_table_scrolls_by_the_keyboard(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace)
    page = report_page(trace.analyse(tmp_path))
    assert '<td class="words">step</td><td class="words">kernels</td><td>1 ms</td>' in page
    assert page.count("<table>") == page.count('<div class="scroll" tabindex="0" role="region"')


def test_texts_of_the_program_cannot_become_markup(tmp_path: Path) -> None:
    trace = MadeTrace(command="python </script><b>x.py")
    add_chain(trace)
    trace.add("D0 compute", "kernel", 5000, 5001, name="</script><img src=x>@body@", instruction=99, known=4999)
    page = report_page(trace.analyse(tmp_path))
    assert "<img" not in page
    assert "<b>" not in page
    assert page.count("</script>") == 2
    assert content_of(page)["entries"]


def made_run(num_ranks: int, slices_per_rank: int) -> Run:
    """A long run, without a file: kernels, copies, messages and planning, as a stencil has them."""
    texts = Texts()
    random = np.random.default_rng(7)
    tracks = {
        "D0 compute": "kernel",
        "D0 copy": "copy",
        "receive": "receive",
        "scheduler": "plan",
        "application": "submit",
    }
    ranks = {}
    for number in range(num_ranks):
        count = slices_per_rank
        chosen = np.arange(count) % len(tracks)
        track_numbers = np.array([texts.number(track) for track in tracks])
        kind_numbers = np.array([texts.number(kind) for kind in tracks.values()])
        names = np.array([texts.number(f"name {place} of {'long ' * 20}") for place in range(5000)])
        start = np.sort(random.uniform(0, 10.0 * count, count))
        integers = np.arange(count)
        sites = np.array([texts.number(f"/a/program/in/a/folder/program.py:{line}") for line in range(300)])
        none = np.full(count, -1)
        ranks[number] = Rank(
            number=number,
            about={**ABOUT, "rank": number, "size": num_ranks},
            start=start,
            end=start + random.uniform(1, 40, count),
            track=track_numbers[chosen],
            kind=kind_numbers[chosen],
            name=names[random.integers(0, len(names), count)],
            numbers={
                "instruction": integers + 1, "after": np.maximum(integers - 5, 0), "submission": integers,
                "bytes": integers, "message": integers, "peer": np.full(count, (number + 1) % num_ranks),
                "allocation": none, "priority": integers % 2,
            },
            times={"queued_us": np.full(count, 3.0), "known_us": np.full(count, 5.0)},
            texts={
                "submitted at": sites[integers % len(sites)], "buffer": integers * 0, "reason": integers * 0,
                "from": integers * 0, "to": integers * 0, "memory": integers * 0,
            },
            track_order=track_numbers.tolist(),
        )  # fmt: skip
    return Run(ranks, texts)


@pytest.mark.parametrize(("num_ranks", "slices"), [(1, MAX_SLICES), (2, 40_000), (30, 1500), (300, 40)])
def test_the_size_of_a_page_has_a_bound(num_ranks: int, slices: int) -> None:
    page = report_page(Analysis(made_run(num_ranks, slices)))
    assert len(page.encode()) < 5_000_000


def test_a_long_run_is_shown_in_bins_with_windows_of_slices() -> None:
    levels = Levels(Analysis(made_run(2, 2000)), max_slices=1000).content()
    assert len(levels["rows"]) == 10
    assert levels["windows"]
    assert all("bins" in row for row in levels["rows"])
    short = Levels(Analysis(made_run(2, 2000))).content()
    assert not short["windows"]
    assert not any("bins" in row for row in short["rows"])


def test_a_long_timeline_is_reported_in_the_time_for_two_million_slices_in_a_minute(tmp_path: Path) -> None:
    """A twentieth of it here, in a tenth of the time: the machine may be busy."""
    trace = MadeTrace()
    add_chain(trace, steps=100_000)
    path = trace.write(tmp_path / "made.json")
    used = time.process_time()
    assert main([str(path), "-o", str(tmp_path / "report.html")]) == 0
    assert time.process_time() - used < 6
    assert (tmp_path / "report.html").stat().st_size < 5_000_000


# ---- the command


def test_two_runs_are_compared(tmp_path: Path) -> None:
    for name, kernel_us in (("a", 100), ("b", 200)):
        trace = MadeTrace(origin_ns=ord(name))
        add_chain(trace, kernel_us=kernel_us)
        trace.write(tmp_path / f"{name}.json")
    output = tmp_path / "both.html"
    assert main([str(tmp_path / "a.json"), str(tmp_path / "b.json"), "-o", str(output)]) == 0
    page = output.read_text()
    assert "B&#x27;s critical path takes 2.01 ms, A&#x27;s 1.01 ms: B is 99 % longer." in page
    cells = ("10", "1 ms", "100 µs", "10", "2 ms", "200 µs", "2.00")
    assert f'<td class="words">step</td>{"".join(f"<td>{cell}</td>" for cell in cells)}' in page


def test_the_greatest_findings_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = report_of("starve", tmp_path)
    told, heading, *printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{tmp_path / 'report.html'}, \d+(\.\d)? KiB: .* 1 of 1 rank\(s\), 1 device\(s\)", told)
    assert heading == "Advice"
    shown = [f"  {finding}" for finding in findings(page).split(" | ")]
    rest = [f"  The page has {len(shown) - 3} more."] if len(shown) > 3 else []
    assert printed == [*shown[:3], *rest]


def test_the_verdict_about_two_runs_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, kernel_us in (("a", 100), ("b", 200)):
        trace = MadeTrace(origin_ns=ord(name))
        add_chain(trace, kernel_us=kernel_us)
        trace.write(tmp_path / f"{name}.json")
    assert main([str(tmp_path / "a.json"), str(tmp_path / "b.json"), "-o", str(tmp_path / "both.html")]) == 0
    told, *lines = capsys.readouterr().out.splitlines()
    assert told.endswith("made.py: 1 of 1 rank(s), 1 device(s) (A) and made.py: 1 of 1 rank(s), 1 device(s) (B)")
    assert lines[:2] == ["In short", "  B's critical path takes 2.01 ms, A's 1.01 ms: B is 99 % longer."]
    assert [line for line in lines if not line.startswith(" ")] == ["In short", "Advice about A", "Advice about B"]


@pytest.mark.parametrize("fact", ["rank", "origin_ns", "num_devices", "versions"])
@pytest.mark.parametrize("value", [None, "x"])
def test_a_file_whose_facts_were_changed_is_refused_and_named(
    fact: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = MadeTrace()
    add_chain(trace)
    trace.about[0][fact] = value
    path = trace.write(tmp_path / "a.json")
    assert main([str(path), "-o", str(tmp_path / "report.html")]) == 1
    assert f"{path} is no timeline of this version" in capsys.readouterr().err


@pytest.mark.parametrize("event", ["null", "[]", '{"ph": "X", "pid": 0}', '{"ph": "X", "pid": 7, "tid": 1}'])
def test_an_event_that_is_not_understood_is_refused_and_the_file_named(
    event: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = MadeTrace()
    add_chain(trace)
    path = trace.write(tmp_path / "a.json")
    path.write_text(path.read_text().replace("\n]}", f",\n{event}\n]}}"))
    assert main([str(path), "-o", str(tmp_path / "report.html")]) == 1
    assert f"{path}: an event is not understood" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("a.json", "--output=a.json: this is one of the timelines to read. Name another file."),
        ("folder", "--output=folder: this is a folder. Name a file, such as folder/report.html."),
        ("a.json/report.html", "--output=a.json/report.html: files cannot be written to the folder a.json: "),
        ("/dev/full", "/dev/full: No space left on device."),
    ],
)
def test_a_page_that_cannot_be_written_is_refused(
    output: str,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    trace = MadeTrace()
    add_chain(trace)
    trace.write(Path("a.json"))
    before = Path("a.json").read_text()
    assert main(["a.json", "-o", output]) == 1
    told = capsys.readouterr()
    assert complaint in told.err
    assert not told.out
    assert Path("a.json").read_text() == before


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("out", "there is no file out. A run with CELERITY_TRACE=out writes out.json, or out.0.json, out.1.json"),
        (".", ". is a folder. Name the timelines in it, such as out.*.json."),
    ],
)
def test_a_name_without_a_timeline_is_refused(
    name: str,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([name, "-o", "report.html"]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"a.json": "{}"}, "is no timeline of this version"),
        ({"a.json": '{"traceEvents": []}'}, "is no timeline of this version"),
        ({"a.json": 1, "b.json": 2, "c.json": 3}, "The files are of 3 runs"),
        ({"a.json": 1, "b.json": 1}, "another file holds rank 0"),
    ],
)
def test_files_that_cannot_be_reported_are_refused(
    files: dict[str, Any], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in files.items():
        if isinstance(content, str):
            (tmp_path / name).write_text(content)
        else:
            trace = MadeTrace(origin_ns=content)
            add_chain(trace)
            trace.write(tmp_path / name)
    assert main([*(str(tmp_path / name) for name in files), "-o", str(tmp_path / "report.html")]) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_a_file_that_ends_early_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = MadeTrace()
    add_chain(trace)
    path = trace.write(tmp_path / "a.json")
    path.write_text("\n".join(path.read_text().splitlines()[:-2]))
    assert main([str(path), "-o", str(tmp_path / "report.html")]) == 1
    assert "ends in the middle" in capsys.readouterr().err


# ---- the browser

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the path")


def browse(page: Path, folder: Path, *arguments: str) -> str:
    """Open a page without a window; returns what the browser prints."""
    assert BROWSER is not None
    quiet = "no-first-run disable-background-networking disable-component-update disable-sync disable-quic"
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *(f"--{word}" for word in quiet.split()),
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000", *arguments, page.as_uri(),
    ]  # fmt: skip
    home = {**os.environ, "HOME": str(folder)}
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=home)
    assert found.returncode == 0, found.stderr
    return found.stdout


#: Presses keys on the timeline, and leaves the texts that follow in the title, which --dump-dom prints; and which part
#: of the timeline's width is coloured.
_PRESS = """
<script>
window.addEventListener("load", () => {
  const canvas = document.getElementById("timeline"), told = [];
  const press = key => {
    canvas.dispatchEvent(new KeyboardEvent("keydown", {key}));
    told.push(document.getElementById("details").textContent.replaceAll("\\n", " "));
  };
  "@keys@".split(" ").forEach(press);
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let at = 0; at < pixels.length; at += 4 * 97) colours.add(pixels.slice(at, at + 4).join());
  const ground = getComputedStyle(document.body).backgroundColor;
  const from = Math.floor(canvas.width / 4), isDrawn = (x, y) => pixels[4 * (y * canvas.width + x) + 3] > 40;
  let filled = 0;
  for (let x = from; x < canvas.width; x++) {
    let y = 50;
    while (y < canvas.height && !isDrawn(x, y)) y++;
    filled += y < canvas.height;
  }
  document.title = JSON.stringify({told, colours: colours.size, ground, filled: filled / (canvas.width - from)});
});
</script>
"""


def press(analysis: Analysis, folder: Path, keys: str, *arguments: str) -> dict[str, Any]:
    """Open the report of a run, press keys on the timeline, and look."""
    page = folder / "page.html"
    page.write_text(report_page(analysis).replace("</head>", f"{_PRESS.replace('@keys@', keys)}</head>"))
    found = re.search(r"<title>(.*?)</title>", browse(page, folder, "--dump-dom", *arguments))
    assert found is not None
    told: dict[str, Any] = json.loads(html.unescape(found.group(1)))
    return told


@needs_browser
@pytest.mark.processes
def test_a_long_run_shows_bins_over_all_of_it_and_slices_in_its_windows(tmp_path: Path) -> None:
    analysis = Analysis(made_run(2, 40_000))
    whole = press(analysis, tmp_path, "Home ArrowDown")
    assert "each bin shows how busy the row was" in whole["told"][-1]
    assert whole["filled"] > 0.95
    window = press(analysis, tmp_path, "ArrowDown 2 n")
    assert "each bin" not in window["told"][1]
    assert "(copy), " in window["told"][2]


@needs_browser
@pytest.mark.processes
def test_the_facts_of_two_runs_fit_beside_each_other_into_a_narrow_window(tmp_path: Path) -> None:
    runs = []
    for words in ("python a.py", f"python /a/long/{'way/' * 20}b.py"):
        trace = MadeTrace(command=words, processor="A processor with many words in its name")
        add_chain(trace)
        runs.append(trace.analyse(tmp_path))
    look = (
        "<script>addEventListener('load', () => {const table = document.querySelector('#runs .scroll');"
        "document.title = `beyond the edge: ${table.scrollWidth - table.clientWidth}`;});</script></head>"
    )
    page = tmp_path / "both.html"
    page.write_text(compare_page(*runs).replace("</head>", look))
    assert "<title>beyond the edge: 0</title>" in browse(page, tmp_path, "--window-size=600,900", "--dump-dom")


@needs_browser
@pytest.mark.processes
@pytest.mark.parametrize("dark", [False, True])
def test_the_timeline_works_with_the_keyboard(dark: bool, tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace, steps=5)
    keys = "Home + ArrowRight Home ArrowDown ArrowDown n n Enter ArrowUp ArrowUp ArrowUp n"
    told = press(
        trace.analyse(tmp_path), tmp_path, keys, *(["--blink-settings=preferredColorScheme=0"] if dark else [])
    )
    texts = told["told"]
    assert texts[0].startswith("0.00 µs to 510 µs of 510 µs.")
    assert texts[1].startswith("128 µs to 383 µs")
    assert texts[2].startswith("179 µs to 434 µs")
    assert "scheduler" in texts[4]
    assert "D0 compute." in texts[5]
    assert texts[6].endswith("D0 compute: step (kernel), 100 µs from 10.0 µs.")
    assert texts[7].endswith("D0 compute: step (kernel), 100 µs from 110 µs.")
    assert texts[8].startswith("10.0 µs to 310 µs")
    assert texts[-1].endswith("Critical path: kernel on rank 0, 100 µs from 10.0 µs.")
    assert told["colours"] > 10
    assert told["ground"] == ("rgb(22, 24, 27)" if dark else "rgb(251, 251, 250)")
