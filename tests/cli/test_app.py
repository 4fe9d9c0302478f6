"""Exit codes and messages, as a shell sees them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import Tool
from tracetool.cli import app
from tracetool.vocabulary.errors import BadInput, CheckFailed, MissingPart


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
        (MemoryError(), 2, "error: out of memory"),
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


def test_a_closed_pipe_is_not_a_fault() -> None:
    program = (
        "import sys; from tracetool.cli.app import run; sys.exit(max(run(['schema']) for _ in range(300)))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert process.returncode == 0
    assert b"Traceback" not in said
    assert b"BrokenPipe" not in said
