# SPDX-License-Identifier: MIT
"""The command line: version, info, demo, and completion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.tools.cli import demo
from celerity_py.tools.cli.main import main
from tests.failures.launching import run
from tests.support.command_lines import COMMAND, command_line

# ---- all commands


def test_the_version_is_told_without_mpi_and_cuda() -> None:
    code = (
        "import sys\nfrom celerity_py.tools.cli.main import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
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
