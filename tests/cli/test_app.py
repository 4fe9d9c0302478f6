"""Exit codes and messages, as a shell sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import typer.testing

from tests.conftest import Tool
from tracetool.cli import app
from tracetool.core.errors import BadInput, CheckFailed, MissingPart
from tracetool.core.stop_signals import Terminated
from tracetool.tables.scratch import scratch_prefix
from tracetool.tables.write import aside_file


def test_version(tool: Tool) -> None:
    done = tool("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("tracetool ")


def test_nothing_asked_shows_the_help(tool: Tool) -> None:
    done = tool()
    assert done.returncode == 2
    assert "ingest" in done.stdout or "schema" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["schema", "no-such-table"], ["schema", "a", "b"], ["--no-such"]]
)
def test_usage_is_exit_2_and_one_line(tool: Tool, arguments: list[str]) -> None:
    done = tool(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("variable", ["NO_COLOR", "none"])
def test_no_escape_codes_in_a_pipe(tool: Tool, variable: str) -> None:
    assert "\x1b" not in tool("schema", "kernels", **{variable: "1"}).stdout


def test_a_table_is_at_most_100_columns_wide(tool: Tool) -> None:
    for name in ("", "kernels", "predictions"):
        assert max(map(len, tool("schema", *([name] if name else [])).stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CheckFailed("energy rose 12 %"), 1, "error: energy rose 12 %"),
        (BadInput.in_file("a\nb.csv", "no rows", "log longer"), 2, "error: a b.csv: no rows (log longer)"),
        (MissingPart("nsys is not installed", "apt-get install nsight-systems"), 3, "error: nsys is not"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (Terminated(), 143, "error: terminated"),
        (Terminated(signal.SIGHUP), 129, "error: hung up"),
        (MemoryError(), 2, "error: out of memory"),
        (ImportError("libx.so: failed to map segment from shared object"), 2, "error: out of memory"),
        (OSError(28, "No space left on device"), 2, "error: standard output: No space left on device"),
        (FileNotFoundError(2, "No usable temporary directory"), 2, "error: No usable temporary directory"),
        (ZeroDivisionError("a\nb"), 2, "error: internal fault: ZeroDivisionError: a b"),
    ],
)
def test_every_failure_is_a_code_and_a_line(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.delenv("TRACETOOL_DEBUG", raising=False)
    monkeypatch.setattr("tracetool.tables.schema.schema_names", fail)
    assert app.run(["schema"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [("marshal data too short", "error: a compiled file"), ("cut", "error: internal fault: EOFError: cut")],
)
def test_the_end_of_a_file_is_no_interrupt(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EOFError(text)

    monkeypatch.delenv("TRACETOOL_DEBUG", raising=False)
    monkeypatch.setattr("tracetool.tables.schema.schema_names", fail)
    assert app.run(["schema"]) == 2
    assert capsys.readouterr().err.strip().startswith(said)


def test_an_interrupt_after_the_file_is_in_its_place_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(*_: object, **__: object) -> None:
        with aside_file(tmp_path / "out.csv") as path:
            path.write_text("a")
        tempfile.mkstemp(prefix=scratch_prefix(tmp_path / "next.csv"), dir=tmp_path)  # and the next began
        raise KeyboardInterrupt

    monkeypatch.setattr("tracetool.tables.schema.schema_names", write)
    assert app.run(["schema"]) == 130
    assert capsys.readouterr().err == f"error: interrupted; {tmp_path / 'out.csv'} was written\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_a_groups_help_read_by_head_is_not_a_fault() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "tracetool", "baseline"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.close()
        _, said = process.communicate(timeout=200)
    assert process.returncode == 2
    assert said == b""


def test_a_full_disk_behind_standard_output_is_said() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no such device here")
    with full.open("w") as out:
        done = subprocess.run(
            [sys.executable, "-m", "tracetool", "schema"], stdout=out, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr.decode() == "error: standard output: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a shell's redirections")
@pytest.mark.parametrize(
    ("line", "code"),
    [("schema >&-", 0), ("schema >&- 2>&- <&-", 0), ("no-such 2>&-", 2), ("no-such 2>/dev/full", 2)],
)
def test_outputs_that_are_closed_change_no_code(line: str, code: int) -> None:
    done = subprocess.run(
        f"'{sys.executable}' -m tracetool {line}", shell=True, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def _interrupted_at(module: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Run a command to which a signal comes just before it loads a module."""
    handler = "signal.default_int_handler" if number == signal.SIGINT else "signal.SIG_DFL"
    program = (
        "import signal, sys\nclass Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        f"            sys.meta_path.remove(self); signal.raise_signal({int(number)})\n"
        f"signal.signal({int(number)}, {handler})\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from tracetool.__main__ import main; main()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["core.stop_signals", "cli.streams", "tables.stopping", "cli.app"])
def test_an_interrupt_while_it_loads_is_a_line_too(module: str) -> None:
    done = _interrupted_at(f"tracetool.{module}", signal.SIGINT)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "error: interrupted; nothing was written\n"


def test_a_compiled_file_that_a_full_disk_cut_short_is_one_line() -> None:
    program = (
        "import sys\nclass Short:\n    def find_spec(self, name, *_):\n"
        "        if name == 'tracetool.cli.app': raise EOFError('marshal data too short')\n"
        "sys.meta_path.insert(0, Short())\nfrom tracetool.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "__pycache__" in done.stderr


@pytest.mark.parametrize("module", ["cli.streams", "cli.app"])
@pytest.mark.parametrize(("number", "how"), [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "hung up")])
def test_a_signal_while_it_loads_is_a_line_too(module: str, number: signal.Signals, how: str) -> None:
    done = _interrupted_at(f"tracetool.{module}", number)
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert done.stderr == f"error: {how}; nothing was written\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_cleans_up_prints_nothing(number: signal.Signals) -> None:
    program = (
        "import atexit, signal, sys; sys.argv[1:] = ['--version']\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"atexit.register(lambda: signal.raise_signal({int(number)}))\n"
        "from tracetool.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_while_it_writes_its_last_output_is_a_line() -> None:
    program = (
        "import signal, sys; sys.argv[1:] = ['--version']\n"
        "from tracetool.cli import streams\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "streams.flush_output = lambda: signal.raise_signal(signal.SIGINT)\n"
        "from tracetool.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted; its output may be cut short\n")


def _loaded(*arguments: str) -> set[str]:
    """Return the modules that a command has loaded when it ends."""
    program = (
        "import sys; from tracetool.cli.app import run; code = run(sys.argv[1:]);"
        " print('loaded:', *sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.partition("loaded:")[2].split())


def test_a_forecast_starts_without_pages_and_charts() -> None:
    loaded = _loaded("forecast", "-q", "gpt2", "--gpu", "h100-sxm", "--mode", "prefill", "--isl", "64")
    assert "tracetool.forecast.forecast" in loaded
    pages = {
        name for name in loaded if name.startswith(("tracetool.report.page", "tracetool.report.pictures"))
    }
    assert not pages
    assert not loaded & {"scipy", "pyarrow", "pandas", "numba", "jinja2", "bokeh", "torch"}


def test_a_read_starts_with_what_it_needs(tmp_path: Path) -> None:
    """Libraries and commands not asked for took half a second of every start."""
    log = tmp_path / "kernels.csv"
    log.write_text(
        '"Kind","Agent_Id","Queue_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"KERNEL_DISPATCH","Agent 1",1,"k",1,100,200\n'
    )
    loaded = _loaded("ingest", "-q", str(log), "-o", str(tmp_path / "run"))
    assert "polars" in loaded
    # numpy comes with the families: each counts its work in arrays
    assert not loaded & {"scipy", "pyarrow", "pandas", "msgspec", "numba", "jinja2", "bokeh"}
    commands = {name for name in loaded if name.startswith("tracetool.cli.commands.")}
    assert commands == {"tracetool.cli.commands.ingest"}


@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_a_list_of_commands_starts_bare(asked: str) -> None:
    """A listing may take a quarter of a second beyond Python itself, which any table library takes alone."""
    loaded = _loaded(asked)
    extras = {"pynvml", "amdsmi", "onnx", "torch", "transformers", "diffusers", "ray", "perfetto"}
    libraries = {"polars", "pyarrow", "numpy", "scipy", "numba", "msgspec", "jinja2", "bokeh", "rich"}
    assert not loaded & (extras | libraries)


def test_a_list_without_options_reads_as_one_of_whole_commands() -> None:
    runner = typer.testing.CliRunner()
    whole, listed = (runner.invoke(app.build(listing=bare), ["--help"]).output for bare in (False, True))
    assert listed == whole
    assert all(name in listed for name in app.command_names())
