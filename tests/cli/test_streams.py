"""The exit code is the verdict's, whatever becomes of the output."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compare.folders import write_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a shell's redirections")

#: What becomes of standard output, and what the shell is asked for the tool's own exit code.
LOST = {
    "head": "{} | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
    "nobody": "{} | true; exit ${{PIPESTATUS[0]}}",
    "both to nobody": "{} 2>&1 | true; exit ${{PIPESTATUS[0]}}",
    "closed": "{} >&-",
    "both closed": "{} >&- 2>&-",
    "full": "{} >/dev/full",
    "both full": "{} >/dev/full 2>&1",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("verdicts")
    for side, slower in (("base", 1.0), ("slow", 1.3)):
        (made / side).mkdir()
        for number in range(1):
            write_folder(made / side / f"run-{number}.tracetool", slower=slower, seed=number)
    (made / "tracetool.toml").write_text('fail-on = ["time=5%"]\nbase = ["base"]\nhead = ["slow"]\n')
    return made


def exit_code(line: str, how: str, folder: Path) -> int:
    tool = f"{shlex.quote(sys.executable)} -m tracetool {line}"
    done = subprocess.run(
        ["bash", "-c", LOST[how].format(tool)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    return done.returncode


@pytest.mark.parametrize("how", LOST)
def test_a_failed_check_stays_failed(how: str, folder: Path, samples: Path) -> None:
    if "full" in how and not Path("/dev/full").exists():
        pytest.skip("no such device here")
    log = shlex.quote(str(samples / "h100_training_power.csv"))
    assert exit_code(f"check-power {log} --strict", how, folder) == 1


@pytest.mark.parametrize("how", ["head", "both full"])
def test_a_failed_comparison_writes_its_file_whole(how: str, folder: Path) -> None:
    if "full" in how and not Path("/dev/full").exists():
        pytest.skip("no such device here")
    assert exit_code("check -o out.md", how, folder) == 1
    written = folder / "out.md"  # whole, although nobody read the rest
    assert written.read_text("utf-8").startswith("### ")
    written.unlink()


@pytest.mark.parametrize(
    ("line", "code", "how"),
    [
        ("diff base slow --fail-on time=5% --json", 1, "nobody"),
        ("diff slow/run-0.tracetool --fail-on time=0.001%", 1, "head"),
        ("diff base slow", 0, "head"),
        ("families", 0, "nobody"),
        ("baseline", 2, "head"),
        ("diff nowhere", 2, "nobody"),
    ],
)
def test_a_reader_that_leaves_changes_no_code(line: str, code: int, how: str, folder: Path) -> None:
    assert exit_code(line, how, folder) == code


def test_a_terminal_that_hangs_up_ends_no_work(tmp_path: Path) -> None:
    """As that of a lost connection does to a recording, whose program is ended and whose run is made."""
    pty = pytest.importorskip("pty")
    program = (
        "import os, sys\nfrom tracetool.cli.streams import flush_output, tolerate_lost_readers\n"
        "tolerate_lost_readers()\nassert sys.stdout.isatty()\nprint('before')\n"
        "os.close(int(sys.argv[1]))\nprint('after'); print('after', file=sys.stderr, flush=True)\n"
        "open('fault', 'w').write(str(flush_output().strerror))"
    )
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(ours)], cwd=tmp_path, stdout=terminal, stderr=terminal,
        pass_fds=[ours],
    ) as child:  # fmt: skip
        os.close(ours)  # the child's alone
        os.close(terminal)
    assert child.returncode == 0
    assert (tmp_path / "fault").read_text() == "Input/output error"


def test_what_fits_no_disk_is_a_fault_of_a_command_that_only_prints(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no such device here")
    assert exit_code("schema", "full", folder) == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_an_encoding_without_a_letter_ends_no_command(encoding: str, tmp_path: Path) -> None:
    names = tmp_path / "\u00b5_\u2026_\U0001f600.txt"
    names.write_text("gemm\n")
    environment = os.environ | {"PYTHONIOENCODING": encoding}

    def printed(*words: object) -> bytes:
        line = [sys.executable, "-m", "tracetool", *map(str, words)]
        done = subprocess.run(line, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    assert b"doctor" in printed("--help")
    assert b"?" not in printed("forecast", "llama-3.1-8b", "--gpu", "h100-sxm", "--mode", "decode")
    document = printed("classify", names, "--json")
    document.decode("ascii")
    assert Path(json.loads(document)["source"]).name == names.name
