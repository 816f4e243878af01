# SPDX-License-Identifier: MIT
"""The command line: version, info, demo, and the launch of programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.cli import bind_rank, demo
from celerity_py.cli.main import main
from celerity_py.cli.run import choose_launch
from celerity_py.cli.words import CommandError
from tests.failures.launching import Outcome, run

COMMAND = (sys.executable, "-m", "celerity_py")


def command_line(*arguments: str, num_ranks: int | None = None, **variables: str) -> Outcome:
    return run(num_ranks, *COMMAND, *arguments, variables=variables)


# ---- all commands


def test_the_version_is_told_without_mpi_and_cuda() -> None:
    code = (
        "import sys\nfrom celerity_py.cli.main import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
        "print([name for name in ('mpi4py', 'mpi4py.MPI', 'cupy') if name in sys.modules])\n"
        "print('libcuda' in open('/proc/self/maps').read())"
    )
    outcome = run(None, sys.executable, "-c", code)
    assert outcome.output.splitlines() == [f"celerity_py {celerity.__version__}", "[]", "False"]


def test_a_command_that_does_not_exist_is_refused_with_those_that_do() -> None:
    outcome = command_line("inform")
    assert outcome.status == 2
    assert "invalid choice: 'inform'" in outcome.errors
    assert "info" in outcome.errors


def test_without_a_command_there_is_help_and_a_wrong_option_shows_those_of_its_command() -> None:
    outcome = command_line()
    assert (outcome.status, outcome.output) == (2, "")
    assert "  dry-run " in outcome.errors
    outcome = command_line("info", "--jsn")
    assert outcome.status == 2
    assert outcome.errors.splitlines() == [
        "usage: celerity-py info [-h] [--json]",
        "celerity-py info: error: unrecognized arguments: --jsn",
    ]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_ends_a_command_without_a_traceback(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "run", "--show", "-n", "1", "-m", "this"]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    outcome = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writing)
    assert (outcome.returncode, outcome.stderr) == (1, "")


def test_an_output_without_a_place_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, "run", "--show", "-n", "1", "-m", "this"]
        outcome = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr == "celerity-py run: the output cannot be written: No space left on device.\n"


# ---- info


def test_info_tells_what_was_found_and_chosen() -> None:
    outcome = command_line("info", CELERITY_DEVICES="cpu:3", CELERITY_STALL_S="50")
    assert outcome.status == 0, outcome.errors
    lines = outcome.output.splitlines()
    for heading in ("software", "host", "launch", "gpus", "run"):
        assert heading in lines
    assert f"  celerity_py  {celerity.__version__} in {Path(celerity.__file__).parent}" in lines
    assert "Settings: CELERITY_DEVICES=cpu:3, CELERITY_STALL_S=50." in outcome.output
    assert "  Rank 0 drives 3 CPU device(s). Host " in outcome.output
    assert "mpi4py uses " in outcome.output


def test_rank_0_tells_of_all_ranks_and_of_the_transport_of_each_pair() -> None:
    outcome = command_line("info", "--json", num_ranks=3, CELERITY_BACKEND="cpu")
    assert outcome.status == 0, outcome.errors
    told = json.loads(outcome.output)
    assert told["problem"] is None
    assert told["launch"]["started"].endswith("as one of 3")
    for number, rank in enumerate(told["ranks"]):
        others = {str(other) for other in range(3) if other != number}
        assert rank["rank"] == number
        assert rank["transports"] == dict.fromkeys(others, "direct")
        assert rank["why_not_direct"] == {}


def test_info_says_why_a_transport_is_not_direct() -> None:
    outcome = command_line("info", num_ranks=2, CELERITY_BACKEND="cpu", CELERITY_TRANSPORT="host")
    assert outcome.status == 0, outcome.errors
    assert "Rank 1 drives 1 CPU device(s). It exchanges data by messages of MPI with rank 0." in outcome.output
    assert "    not direct with rank 0: CELERITY_TRANSPORT or CELERITY_SYNC rules it out\n" in outcome.output


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_info_tells_the_rest_where_the_runtime_does_not_start(num_ranks: int | None) -> None:
    outcome = command_line("info", num_ranks=num_ranks, CELERITY_BAKEND="cpu")
    assert outcome.status == 1
    assert outcome.output.count("software\n") == 1
    assert "The runtime does not start. ConfigurationError: Unknown environment variable" in outcome.output
    outcome = command_line("info", "--json", CELERITY_BAKEND="cpu")
    assert outcome.status == 1
    assert json.loads(outcome.output)["problem"].startswith("ConfigurationError: Unknown environment variable")


# ---- demo


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_the_demo_agrees_with_numpy(num_ranks: int | None) -> None:
    outcome = command_line("demo", "--size", "64", "--steps", "20", num_ranks=num_ranks, CELERITY_DEVICES="cpu:2")
    assert outcome.status == 0, outcome.errors
    wave, verdict = outcome.output.splitlines()
    assert wave.startswith("A wave on 64 x 64 cells: 20 steps in ")
    assert wave.endswith(f"{num_ranks or 1} rank(s) with 2 CPU device(s) each.")
    assert verdict == "Verified: bit-identical to NumPy."


def test_a_demo_that_does_not_start_says_why() -> None:
    outcome = command_line("demo", CELERITY_DEVICES="cpu:none")
    assert outcome.status == 1
    assert outcome.errors.startswith("celerity-py demo: CELERITY_DEVICES=cpu:none is not understood")
    assert "Traceback" not in outcome.errors


def test_the_demo_takes_another_rounding_for_right_and_other_differences_for_wrong() -> None:
    expected = demo.reference(demo.drop(32), 10)
    assert demo.compare(expected, expected) == (True, "Verified: bit-identical to NumPy.")
    flushed = np.where(np.abs(expected) < 1e-12, np.float32(0), expected)
    is_right, verdict = demo.compare(flushed, expected)
    assert is_right
    assert "no element differs by more than " in verdict
    for wrong in (1e-3, np.nan):
        changed = expected.copy()
        changed[3, 4] += np.float32(wrong)
        is_right, verdict = demo.compare(changed, expected)
        assert not is_right
        assert verdict.startswith("WRONG: 1 elements differ from NumPy, by up to ")


def test_a_demo_that_differs_from_numpy_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "reference", lambda initial, steps: initial)
    assert main(["demo", "--size", "32", "--steps", "10"]) == 1
    assert "WRONG: " in capsys.readouterr().out


def test_the_demo_writes_a_picture_of_the_wave(tmp_path: Path) -> None:
    path = tmp_path / "wave.png"
    outcome = command_line("demo", "--size", "48", "--steps", "10", "--output", str(path), num_ranks=2)
    assert outcome.status == 0, outcome.errors
    assert f"The picture is {path}." in outcome.output.splitlines()
    pixels = plt.imread(path)[:, :, :3]
    assert pixels.shape == (48, 48, 3)
    wave = demo.reference(demo.drop(48), 10)
    highest, rest = np.unravel_index(wave.argmax(), wave.shape), np.unravel_index(np.abs(wave).argmin(), wave.shape)
    assert pixels[highest][0] > 2 * pixels[highest][2]  # red
    assert pixels[rest].min() > 0.9  # nearly white
    lowest = np.unravel_index(wave.argmin(), wave.shape)
    assert pixels[lowest][2] > pixels[lowest][0]  # blue


def test_a_picture_that_is_no_png_file_is_refused() -> None:
    outcome = command_line("demo", "--output", "wave.jpg")
    assert outcome.status == 1
    assert "The picture is a PNG file, but the name 'wave.jpg' does not end in .png." in outcome.errors
    assert not outcome.output


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_a_picture_that_cannot_be_written_is_refused_before_the_run_and_by_one_rank(
    num_ranks: int | None, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "wave.png"
    outcome = command_line("demo", "--size", "16", "--output", str(path), num_ranks=num_ranks)
    assert outcome.status == 1
    message = f"celerity-py demo: --output={path}: files cannot be written to the folder {tmp_path / 'file'}: "
    assert outcome.errors.count(message) == 1
    assert not outcome.output


def test_a_picture_gets_the_folder_that_it_lacks_and_one_that_fills_the_disk_is_a_failure(tmp_path: Path) -> None:
    picture = tmp_path / "new" / "wave.png"
    assert command_line("demo", "--size", "16", "--steps", "2", "--output", str(picture)).status == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    picture.symlink_to("/dev/full")
    outcome = command_line("demo", "--size", "16", "--steps", "2", "--output", str(picture))
    assert outcome.status == 1
    assert f"celerity-py demo: {picture}: No space left on device." in outcome.errors


# ---- run


PROGRAM = (
    "import sys, celerity_py as c\nwith c.Queue(): print(c.rank(), c.size(), *sys.argv[1:])\nsys.exit(int(sys.argv[1]))"
)


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_run_starts_the_ranks_and_passes_arguments_and_the_exit_status(tmp_path: Path, num_ranks: int) -> None:
    program = tmp_path / "app.py"
    program.write_text(PROGRAM)
    outcome = command_line("run", "-n", str(num_ranks), str(program), "3", "--size", "-n", CELERITY_BACKEND="cpu")
    assert outcome.status == 3, outcome.errors
    expected = [f"{rank} {num_ranks} 3 --size -n" for rank in range(num_ranks)]
    assert sorted(outcome.output.splitlines()) == expected


def test_run_takes_a_module() -> None:
    outcome = command_line("run", "-n", "2", "-m", "celerity_py", "demo", "--size", "32", "--steps", "4")
    assert outcome.status == 0, outcome.errors
    assert "2 rank(s)" in outcome.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-n", "2"), "no program is given. Name a file, such as app.py, or a module with -m."),
        (("-n", "2", "nowhere.py"), "there is no file nowhere.py."),
        (("-n", "2", "--launcher", "'", "-m", "this"), "--launcher=' is not understood: no closing quotation."),
        (("-n", "2", "--launcher", " ", "-m", "this"), "--launcher names no command, such as 'mpiexec -f hosts'."),
        (
            ("-n", "2", "--launcher", "no-such-launcher", "-m", "this"),
            "no-such-launcher cannot be started: No such file",
        ),
    ],
)
def test_run_says_what_it_lacks(words: tuple[str, ...], text: str) -> None:
    outcome = command_line("run", *words)
    assert outcome.status == 1
    assert outcome.errors.startswith(f"celerity-py run: {text}")


def test_run_counts_ranks_from_one() -> None:
    outcome = command_line("run", "-n", "0", "app.py")
    assert outcome.status == 2
    assert "argument -n: expected an integer from 1 on, not '0'" in outcome.errors


def test_run_is_refused_below_a_launcher() -> None:
    with pytest.raises(CommandError, match="has started this process as one of 4"):
        choose_launch(2, {"PMI_SIZE": "4", "PMI_RANK": "0"})


def test_one_rank_needs_no_launcher() -> None:
    assert choose_launch(1, {}).words == []


def _fake_srun(folder: Path, offered: str) -> None:
    srun = folder / "srun"
    srun.write_text(f"#!/bin/sh\necho 'MPI plugin types are...'\nfor name in {offered}; do echo \"\t$name\"; done\n")
    srun.chmod(0o755)


def test_in_a_slurm_job_srun_starts_equal_numbers_of_ranks_on_all_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_srun(tmp_path, "none pmi2 pmix")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "64"}
    launch = choose_launch(8, job)
    assert launch.words[0] == "srun"
    assert launch.words[2:] == [
        *("--ntasks=8", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=16"),
        "--cpu-bind=cores",
    ]
    assert launch.reason.startswith("Slurm job 7, whose srun speaks with ")
    in_a_step = {**job, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    assert "--overlap" in choose_launch(8, in_a_step).words
    assert "--nodes=1" in choose_launch(1, job).words


def test_an_srun_that_does_not_speak_with_the_library_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_srun(tmp_path, "none")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    launch = choose_launch(2, {"SLURM_JOB_ID": "7"})
    assert Path(launch.words[0]).name == "mpiexec"
    assert "does not speak with" in launch.reason


# ---- the binding of ranks


def _write_topology(folder: Path, places: list[tuple[int, int]]) -> None:
    for processor, (socket, core) in enumerate(places):
        topology = folder / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
        (topology / "core_id").write_text(f"{core}\n")


def test_hardware_threads_of_a_core_and_cores_of_a_socket_stay_together(tmp_path: Path) -> None:
    # Two sockets with four cores each; the second threads of all cores come behind the first ones.
    places = [(processor % 2, processor // 2) for processor in range(8)]
    _write_topology(tmp_path, 2 * places)
    cores = bind_rank.cores_of_host(set(range(16)), tmp_path)
    assert cores == [[0, 8], [2, 10], [4, 12], [6, 14], [1, 9], [3, 11], [5, 13], [7, 15]]
    assert bind_rank.share_of(cores, 0, 2) == {0, 2, 4, 6, 8, 10, 12, 14}
    assert bind_rank.share_of(cores, 1, 2) == {1, 3, 5, 7, 9, 11, 13, 15}
    assert bind_rank.share_of(cores, 1, 3) == set(range(16)), "with two or three cores each, ranks share all"
    assert bind_rank.cores_of_host({2, 6, 10}, tmp_path) == [[2, 10], [6]]
    assert bind_rank.cores_of_host({4, 5}, tmp_path / "nowhere") == [[4], [5]]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7])
def test_each_core_belongs_to_one_rank(num_ranks: int) -> None:
    cores = [[number] for number in range(24)]
    shares = [bind_rank.share_of(cores, place, num_ranks) for place in range(num_ranks)]
    assert sorted(processor for share in shares for processor in share) == list(range(24))
    assert min(map(len, shares)) >= 24 // num_ranks


def test_a_rank_becomes_its_program_on_its_cores() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    code = (
        "from celerity_py.cli import bind_rank; import sys; bind_rank.LEAST_CORES = 1; "
        "bind_rank.main([sys.executable, '-c', 'import os; print(sorted(os.sched_getaffinity(0)))'])"
    )
    shares = []
    for rank in range(2):
        place = {"MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "2"}
        outcome = run(None, sys.executable, "-c", code, variables=place)
        shares += json.loads(outcome.output)
    if len(bind_rank.cores_of_host(set(allowed))) > 1:
        assert sorted(shares) == allowed
    else:
        assert shares == 2 * allowed


# ---- completion


def test_bash_completes_commands_options_and_files(tmp_path: Path) -> None:
    script = command_line("completion", "bash")
    assert script.status == 0, script.errors
    (tmp_path / "completion").write_text(script.output)
    (tmp_path / "application.py").touch()
    ask = (
        "source ./completion; complete -p celerity-py | grep -o -- '-F [^ ]*' > function; "
        "COMP_WORDS=($1); COMP_CWORD=$(($# > 1 ? $2 : 1)); $(cut -c4- function) celerity-py; echo ${COMPREPLY[@]}"
    )

    def complete(words: str, place: int) -> list[str]:
        command = ["bash", "-c", f"cd {tmp_path}; {ask}", "bash", words, str(place)]
        return run(None, *command).output.split()

    assert complete("celerity-py d", 1) == ["demo", "dry-run"]
    assert complete("celerity-py trace m", 2) == ["merge"]
    assert "--devices" in complete("celerity-py dry-run --", 2)
    assert complete("celerity-py dry-run app", 2) == ["application.py"]


def test_zsh_gets_a_script_of_its_own() -> None:
    script = command_line("completion", "zsh")
    assert script.status == 0, script.errors
    assert script.output.startswith("#compdef celerity-py\n")
    assert "dry-run" in script.output


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_finds_the_script_and_loads_it(tmp_path: Path) -> None:
    (tmp_path / "_celerity-py").write_text(command_line("completion", "zsh").output)
    code = (
        f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[celerity-py]; "
        f"zsh -n {tmp_path}/_celerity-py && print accepted"
    )
    outcome = run(None, "zsh", "-f", "-c", code)
    assert outcome.output.split() == ["_celerity-py", "accepted"], outcome.errors


# ---- graph

GRAPHED = """
import sys
import numpy as np
import celerity_py as celerity
from celerity_py import access

def step(chunk, after, before):
    raise AssertionError("a plan executes nothing")

with celerity.Queue() as queue:
    u, v = (celerity.Buffer.from_array(np.zeros((64, 8)), name=name) for name in "uv")
    for _ in range(int(sys.argv[sys.argv.index("--steps") + 1])):
        queue.parallel_for(u.shape, step, v.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
        u, v = v, u
"""


@pytest.fixture
def graphed(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(GRAPHED)
    return tmp_path / "app.py"


def test_graph_writes_the_graphs_of_a_plan_for_several_ranks(graphed: Path) -> None:
    folder = graphed.parent / "graphs"
    words = ("--ranks", "3", "--devices", "2", "--rank", "1", "--window=4:7", "-o", str(folder), "--steps", "9")
    outcome = command_line("graph", str(graphed), *words)
    assert outcome.status == 0, outcome.errors
    drawn = shutil.which("dot") is not None
    kinds = ("dot", "svg") if drawn else ("dot",)
    names = [f"{name}.{kind}" for name in ("commands", "instructions.1", "tasks") for kind in kinds]
    assert outcome.output.splitlines() == [str(folder / name) for name in names]
    tasks = (folder / "tasks.dot").read_text()
    assert re.findall(r'^ +"(T\d+)" \[', tasks, flags=re.MULTILINE) == ["T4", "T5", "T6"]
    commands = (folder / "commands.dot").read_text()
    assert all(f'"cluster_R{rank}"' in commands for rank in range(3))
    assert 'class="transfer"' in commands
    assert "from D0 to D1" in (folder / "instructions.1.dot").read_text()


def test_graph_draws_a_program_that_fails_at_its_end_and_ends_as_it_does(graphed: Path) -> None:
    graphed.write_text(f"{graphed.read_text()}\nsys.exit(3)\n")
    folder = graphed.parent / "graphs"
    outcome = command_line("graph", str(graphed), "-o", str(folder), "--steps", "3")
    assert outcome.status == 3
    assert str(folder / "tasks.dot") in outcome.output
    assert "the program ends with status 3 on rank 0." in outcome.errors


def test_graph_tells_of_a_window_without_tasks(graphed: Path) -> None:
    folder = graphed.parent / "graphs"
    outcome = command_line("graph", str(graphed), "--window=99:", "-o", str(folder), "--steps", "9")
    assert outcome.status == 0, outcome.errors
    assert "PRINT_GRAPHS_WINDOW=99: shows no task of this run. Choose another window" in outcome.errors
    assert (folder / "tasks.dot").read_text().startswith('digraph "Tasks none in the window 99:"')


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_graph_draws_the_pictures_that_a_folder_lacks(graphed: Path) -> None:
    folder = graphed.parent / "graphs"
    assert command_line("graph", str(graphed), "-o", str(folder), "--steps", "3").status == 0
    picture = folder / "tasks.svg"
    before = picture.read_text()
    picture.unlink()
    outcome = command_line("graph", str(folder))
    assert outcome.status == 0, outcome.errors
    assert outcome.output.splitlines() == [str(picture)]
    assert picture.read_text() == before
    outcome = command_line("graph", str(folder))
    assert (outcome.status, outcome.output) == (0, "")
    assert outcome.errors == f"All graphs in {folder} have their pictures.\n"


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"digraph {", "celerity-py graph: the graph broken/x.dot cannot be drawn: "),
        (b"\xff", "celerity-py graph: broken/x.dot is no text in UTF-8: "),
    ],
)
def test_a_text_that_cannot_be_drawn_is_named(
    content: bytes, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken").mkdir()
    Path("broken/x.dot").write_bytes(content)
    outcome = command_line("graph", "broken")
    assert outcome.status == 1
    assert outcome.errors.startswith(text)
    assert "Traceback" not in outcome.errors


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("app.py", "--window", "ten"), 2, "argument --window: expected tasks such as '10:40'"),
        (("app.py", "--rank", "2", "--ranks", "2"), 1, "--rank names rank 2, but the ranks are 0 to 1."),
        (("nowhere.py",), 1, "there is no file nowhere.py."),
        (("empty.py",), 1, "empty.py has made no queue on rank 0, so there are no graphs."),
        (("folder",), 1, "the folder folder has no graphs. CELERITY_PRINT_GRAPHS=folder lets a run write them."),
        (("folder", "--steps"), 1, "folder is a folder of graphs, and takes no option --steps."),
        (("app.py", "-o", "empty.py"), 1, "--output=empty.py: this is a file. Name a folder, such as empty_graphs."),
        (("folder", "-o", "other"), 1, "the pictures of folder go into this folder. Leave --output out."),
        (("app.py",), 1, "the program ends with status 1 on rank 0."),
    ],
)
def test_graph_says_what_it_cannot_do(
    words: tuple[str, ...], status: int, text: str, graphed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graphed.parent)
    Path("empty.py").touch()
    Path("folder").mkdir()
    outcome = command_line("graph", *words)
    assert outcome.status == status
    assert text in outcome.errors
