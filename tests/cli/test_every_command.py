"""What every command promises: help with an example, one line on a fault, no traceback."""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest
import typer

import tracetool.cli.commands
from tests.conftest import Tool
from tests.documents import check_document
from tracetool.cli.app import build, run
from tracetool.core.errors import MissingPart

COMMANDS = sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(tracetool.cli.commands.__path__))
CLICK_COMMAND = typer.main.get_command(build())


def _leaves(command: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    inner = getattr(command, "commands", None)
    if not inner:
        return [(path, command)]
    return [leaf for name, c in sorted(inner.items()) for leaf in _leaves(c, (*path, name))]


LEAVES = _leaves(CLICK_COMMAND)
NAMES = [" ".join(p) for p, _ in LEAVES]


def _help(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [p for p, _ in LEAVES], ids=NAMES)
def test_help_has_an_example(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = _help(*words, capsys=capsys)
    assert re.search(rf"Examples?:\s+.*tracetool\s+{re.escape(' '.join(words))}\b", " ".join(text.split()))


@pytest.mark.parametrize(("words", "command"), LEAVES, ids=NAMES)
def test_every_option_is_explained(words: tuple[str, ...], command: object) -> None:
    for parameter in command.params:  # type: ignore[attr-defined]
        assert parameter.help or parameter.name == "help", f"{parameter.name} has no help"


#: What a command writes in place of a table of its result: a run, a data set, baselines.
WRITES_OTHER = {
    "baseline add", "baseline prune", "calibrate", "export", "fleet ingest", "ingest", "record", "report",
    "sensor check", "sensor identify",
}  # fmt: skip


#: Files that ``-o`` of every other command writes.
PROMISED = (".parquet", ".csv", ".json", ".md", ".html", ".xml")


@pytest.mark.parametrize(("words", "command"), LEAVES, ids=NAMES)
def test_every_command_has_the_usual_options(words: tuple[str, ...], command: object) -> None:
    helps = {flag: p.help for p in command.params for flag in p.opts}  # type: ignore[attr-defined]
    assert {"--json", "-q", "--quiet", "-v", "--verbose"} <= set(helps)
    if " ".join(words) not in WRITES_OTHER:
        assert [suffix for suffix in PROMISED if suffix not in helps["-o"]] == []


@pytest.mark.parametrize("name", ["doctor", "families", "formats", "schema"])
def test_a_list_can_be_written_and_kept_quiet(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "-q", "-o", str(tmp_path / "list.csv")]) == 0
    assert capsys.readouterr() == ("", "")
    assert len((tmp_path / "list.csv").read_text("utf-8").splitlines()) > 1


def test_verbose_says_each_step_on_standard_error(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "a.tracetool"
    assert run(["ingest", str(samples / "mi300x_kernel_trace.csv"), "-o", str(made), "-v", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    told = [line for line in err.splitlines() if line.startswith("tracetool: ")]
    assert all(re.match(r"tracetool: +\d+\.\d\d s  ", line) for line in told)
    steps = [line.split(" s  ", 1)[1] for line in told]
    assert steps[1:3] == ["reading mi300x_kernel_trace.csv", "linking kernels to their launches"]
    assert re.fullmatch(r"done, peak memory [\d,]+ MiB", steps[-1])
    for words, step in (
        (["report", str(made), "--gpu", "mi300x", "-o", str(tmp_path / "page.html")], "predicting"),
        (["classify", str(made), "-o", str(tmp_path / "names.csv")], f"writing {tmp_path / 'names.csv'}"),
    ):
        assert run([*words, "-q", "-v"]) == 0
        assert step in [line.split(" s  ", 1)[-1] for line in capsys.readouterr().err.splitlines()]
        assert run([*words, "-q"]) == 0
        assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", [p for p, _ in LEAVES], ids=NAMES)
def test_an_unknown_option_is_usage(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--no-such-option"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("error: ")
    assert "no-such-option" in err


def _error(words: tuple[str, ...], *arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Run a command under ``--json`` that has to fail, and return the one document it printed."""
    assert run([*words, "--json", *arguments]) in (2, 3)
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert list(document) == ["error"]
    check_document(" ".join(words), document)
    assert len(err.strip().splitlines()) == 1
    error: dict[str, object] = document["error"]
    return error


@pytest.mark.parametrize("words", [p for p, _ in LEAVES], ids=NAMES)
def test_a_fault_under_json_is_an_error_document(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command there is, those of groups too."""
    error = _error(words, "--no-such-option", capsys=capsys)
    assert error["exit_code"] == 2
    assert "--no-such-option" in str(error["message"])
    assert error["fix"]


#: These take a folder: nothing in it is an answer.
FOLDER_MAY_BE_EMPTY = {("baseline", "list"), ("baseline", "prune")}
TAKES_INPUT = [
    (p, c)
    for p, c in LEAVES
    if any(x.param_type_name == "argument" and x.required for x in c.params)  # type: ignore[attr-defined]
]


@pytest.mark.parametrize(("words", "command"), TAKES_INPUT, ids=[" ".join(p) for p, _ in TAKES_INPUT])
@pytest.mark.parametrize("kind", ["absent", "folder", "empty", "noise"])
def test_hopeless_input_is_one_line(
    words: tuple[str, ...], command: object, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "input"
    if kind == "folder":
        path.mkdir()
    elif kind != "absent":
        path.write_bytes(b"" if kind == "empty" else bytes(range(256)) * 64)
    required = [p for p in command.params if p.required and p.param_type_name == "option"]  # type: ignore[attr-defined]
    arguments = [*words, str(path)]
    for option in required:
        arguments += [option.opts[0], "h100-sxm" if "gpu" in option.name else str(tmp_path / "out.csv")]
    before = sorted(p.name for p in tmp_path.iterdir())
    code = run(arguments)
    out, err = capsys.readouterr()
    if words in FOLDER_MAY_BE_EMPTY and kind == "folder":
        assert code == 0
        return
    assert code in (2, 3), (arguments, out, err)
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    assert "internal fault" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == before, "something half-written stays"


@pytest.mark.parametrize(("words", "command"), TAKES_INPUT, ids=[" ".join(p) for p, _ in TAKES_INPUT])
def test_an_absent_input_under_json_is_an_error_document(
    words: tuple[str, ...], command: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "absent")
    arguments = [path]
    for option in command.params:  # type: ignore[attr-defined]
        if option.required and option.param_type_name == "option":
            arguments += [option.opts[0], "h100-sxm" if "gpu" in option.name else str(tmp_path / "out.csv")]
    error = _error(words, *arguments, capsys=capsys)
    assert error["exit_code"] in (2, 3)
    assert "Traceback" not in str(error["message"])


@pytest.mark.parametrize(("words", "command"), LEAVES, ids=NAMES)
def test_a_missing_part_under_json_is_an_error_document(
    words: tuple[str, ...],
    command: object,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library that is not installed ends every command with 3, whatever it was to do."""
    module = importlib.import_module(f"tracetool.cli.commands.{words[0].replace('-', '_')}")
    for registered in module.app.registered_commands:

        @functools.wraps(registered.callback)
        def missing(*_: object, **__: object) -> None:
            raise MissingPart("charts need bokeh", "pip install bokeh")

        monkeypatch.setattr(registered, "callback", missing)
    arguments = []
    for parameter in command.params:  # type: ignore[attr-defined]
        if parameter.required:
            named = [parameter.opts[0]] if parameter.param_type_name == "option" else []
            arguments += [*named, str(tmp_path / "input")]
    error = _error(words, *arguments, capsys=capsys)
    assert (error["exit_code"], error["message"], error["fix"]) == (
        3,
        "charts need bokeh",
        "pip install bokeh",
    )


def test_help_of_the_whole_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = _help(capsys=capsys)
    assert all(re.search(rf"^\s+{name}\b", text, re.MULTILINE) for name in COMMANDS)


def test_no_command_imports_its_workflow_before_it_is_called(tool: Tool) -> None:
    """``--help`` stays quick: no table or number library is loaded to print it."""
    done = tool("--help", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert not loaded & {"polars", "scipy", "pyarrow", "bokeh"}


def test_schema_as_json_is_one_document(tool: Tool) -> None:
    done = tool("schema", "--json")
    assert {t["name"] for t in json.loads(done.stdout)} >= {"kernels", "telemetry", "predictions"}
    assert done.stderr == ""
