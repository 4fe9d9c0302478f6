"""Every command fits the terminal: no line is longer, energy stays, and a wide one hides nothing."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tool
from tests.documents import check_document
from tracetool.api.result import Result

WIDTHS = (60, 80, 100, 140, 200)
#: Commands with the word each of their tables with energies has in a heading.
COMMANDS = {
    "classify train": "",
    "predict train": "energy",
    "predict train --clock 1200,1500,1755": "energy",
    "predict train --by signature": "energy",
    "predict train --by operator": "energy",
    "predict train --by family --clock 1200,1755": "energy",
    "predict train --by range": "energy",
    "predict train --by iteration": "energy",
    "predict train --by gap": "energy",
    "predict train --by power": "",
    "sweep train --clock 600:1950:150": "energy",
    "attribute train": "energy",
    "check-power train": "",
    "roofline train": "energy",
    "roofline train --gemm": "energy",
    "attribute train --by gpu,range": "energy",
    "attribute train --by family --price 0.3": "energy",
    "attribute forward --by family": "energy",
    "predict train --price 0.3 --power-over-time power.csv": "energy",
    "summary train --price 0.3 --pue 1.2": "energy",
    "diff forward train --by family": "energy",
    "check forward --base train --by family": "energy",
    "export train -o train.prom": "",
    "diff train --by operator": "energy",
    "predict train --by gap,gpu": "energy",
    "diagnose runs.csv": "energy",
    "summary train": "energy",
    "summary forward": "energy",
    "diagnose train": "energy",
    "sensor identify brief": "",
    "diff train": "energy",
    "diff forward": "energy",
    "diff train train": "energy",
    "diff forward train": "energy",
    "check forward --base train": "energy",
    "baseline list store": "",
    "forecast config.json --gpu h100-sxm --bs 64": "energy",
    "forecast config.json --gpu h100-sxm,h200-sxm --bs 1,64": "J/token",
    "forecast cases.csv --gpu h200-sxm --mode decode": "energy",
    "gpus": "",
    "gpus --show h100-sxm": "",
    "formats": "",
    "families": "",
    "schema": "",
    "schema kernels": "",
    "doctor": "",
    "classify --explain nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT": "",
}
#: An interval in a table or a sentence, and what is said of it before the first one.
INTERVAL = re.compile(r"(\(<?-?[\d.,]+\.\.<?-?[\d.,]+\))")
SAID_AS = ("90 %", "(range of pairs)")
#: What tables of a command are about: from 80 columns on shown beside energy, whatever else is hidden.
ABOUT = {
    "sweep train --clock 600:1950:150": ("slowdown",),
    "roofline train": ("TFLOP/s", "of roof [%]"),
    "roofline train --gemm": ("TFLOP/s", "of roof [%]"),
    "diff train": ("error [%]",),
    "diff forward": ("time err [%]",),
    "diff train train": ("change", "90 % interval", "verdict"),
    "diff forward train": ("change", "90 % interval", "verdict"),
}


CONFIG = """{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Path:
    from tracetool.cli.app import run

    made = tmp_path_factory.mktemp("widths")
    log = (samples / "h100_training_power.csv").read_text("utf-8").splitlines(keepends=True)
    (made / "brief.csv").write_text("".join(log[:160]), "utf-8")
    (made / "config.json").write_text(CONFIG, "utf-8")
    (made / "runs.csv").write_text(
        "model,gpu,batch,power_w,energy_per_token_j\n"
        + "".join(f"a-model-of-a-long-name,h100-sxm,{b},{500 + b},{4 / b + 0.1}\n" for b in (1, 2, 4, 8, 16))
    )
    (made / "cases.csv").write_text("model,bs,tp\nconfig.json,8,1\nconfig.json,64,2\n", "utf-8")
    for arguments in (
        ["ingest", samples / "h100_training.sqlite", samples / "h100_training_power.csv", "-o", "train"],
        ["ingest", samples / "h100_training.sqlite", "brief.csv", "-o", "brief"],
        ["ingest", samples / "mi300x_kernel_trace.csv", "--gpu", "mi300x", "-o", "forward"],
        ["baseline", "add", "store", "train"],
    ):
        with contextlib.chdir(made):
            assert run([*map(str, arguments), "--quiet"]) == 0
    (made / "pyproject.toml").write_text('[tool.tracetool]\nenergy = "auto"\n')
    return made


@pytest.mark.usefixtures("each_run_opened_once")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_fits_every_width(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command does its work once; its result is printed at every width."""
    from tracetool.cli import output
    from tracetool.cli.app import run

    prints: list[Callable[[], None]] = []
    emit = output.emit

    def keep(result: Result, **how: Any) -> None:
        check_document(command, result.to_dict())
        prints.append(lambda: emit(result, **how))

    monkeypatch.setattr(output, "emit", keep)
    monkeypatch.chdir(folder)
    assert run(command.split()) in (0, 1), command
    assert capsys.readouterr().out == ""
    (print_result,) = prints
    word = COMMANDS[command]
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        print_result()
        text = capsys.readouterr().out
        longest = max(text.splitlines(), key=len)
        assert len(longest) <= width, f"{width}: {longest}"
        assert word in text.split("hidden columns")[0]
        before, interval, _ = INTERVAL.split(text, 1) if INTERVAL.search(text) else (text, "", "")
        assert not interval or any(words in before for words in SAID_AS), f"{width}: {interval} of what?"
        for sentence in re.findall(r"^hidden columns.*(?:\n  .*)*", text, re.MULTILINE):
            assert not re.search(r"[:,]\s+energy( predicted)? \[", sentence), sentence
            hidden = re.split(r",\s+|: ", " ".join(sentence.split()))
            assert width < 80 or not set(ABOUT.get(command, ())) & set(hidden), sentence
        if width == 200:
            assert "hidden columns" not in text


def test_a_pipe_without_a_width_gets_tables_of_100(folder: Path, command: Tool) -> None:
    kept = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    assert "COLUMNS" not in kept
    rows = command("attribute", "train", cwd=folder, COLUMNS="").stdout.splitlines()
    table = [line for line in rows if "nvjet" in line or line.startswith("class")]
    assert 90 < max(map(len, table)) <= 100
    names = [re.split(r"  +", line)[0] for line in table]
    assert len(set(names)) == len(names)  # shapes of one kernel too


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("width", "no_color", "command"),
    [(72, False, "attribute train"), (150, True, "predict train --by signature")],
)
def test_a_terminals_own_width_counts(width: int, no_color: bool, command: str, folder: Path) -> None:
    import fcntl
    import pty
    import struct
    import subprocess
    import termios

    head, tail = pty.openpty()
    fcntl.ioctl(tail, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": "xterm-256color"} | ({"NO_COLOR": "1"} if no_color else {})
    with subprocess.Popen(
        [sys.executable, "-m", "tracetool", *command.split()],
        cwd=folder, stdout=tail, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment,
    ) as process:  # fmt: skip
        os.close(tail)
        parts = []
        while True:
            try:
                part = os.read(head, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(120) == 0
    os.close(head)
    text = b"".join(parts).decode("utf-8")
    assert ("\x1b" in text) is not no_color
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    rows = [line for line in plain if "nvjet" in line]
    assert width - 20 < max(map(len, rows)) <= width
    assert max(map(len, plain)) <= width
    assert any("energy [" in line for line in plain)


def test_help_fits_80_columns_and_cuts_no_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracetool.cli.app import command_names, run

    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], *([name] for name in command_names())):
        assert run([*words, "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80, words
        assert not any(line.rstrip().endswith("...") and "Usage" not in line for line in lines), words
