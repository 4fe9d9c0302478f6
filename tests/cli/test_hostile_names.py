"""A trace whose every text wants to be more than text, through every command and every kind of output."""

# ruff: noqa: E501

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.damaged.small_run import write_log, write_trace
from tracetool.api.ingest import ingest
from tracetool.api.result import Result
from tracetool.cli.app import run as command
from tracetool.cli.safe_output import guarded_streams
from tracetool.report.sentences import cell_width

pytestmark = pytest.mark.usefixtures("each_run_opened_once")

KERNELS = (
    "::set-output name=x::gemm\u202e\u2066 <b>",
    "=cmd|' /C calc'!A0 ##[error]forged ##vso[task.complete]",
    "\uff1d1+1 [bold]markup[/bold] \u200b\u200f\u061c | `tick` \x9b31m",
)
RANGE = "::error file=a::step {} \u2067##[group]x"
OPERATOR = "@evil::mm\u2069"
DEVICE = "::warning::NVIDIA \u202bA100 ##[x]"
#: What a CI runner obeys: GitHub at the start of a line, and the older form anywhere; Azure likewise.
OBEYED = re.compile(r"^\s*::|##(?:vso)?\[", re.MULTILINE | re.IGNORECASE)
FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
OUTPUTS = (".csv", ".json", ".md", ".html")
WITH_GPU = ("--gpu", "a100-sxm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("names")
    trace = write_trace(place / "::error::\u202etrace.json", KERNELS, RANGE, DEVICE, OPERATOR)
    ingest([trace], [write_log(place / "##[x]power.csv")], tz="+00:00", out=place / "::notice::\u2066run")
    return place


def harmless(text: str, where: str) -> None:
    odd = {c for c in text if not c.isprintable() and c != "\n"}
    assert not odd, f"{where}: {odd!a}"
    assert not OBEYED.search(text), f"{where}: {OBEYED.search(text)!r} in {text!r:.2000}"


def _file_is_harmless(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.suffix == ".csv":
        harmless(text.replace("\r\n", "\n"), path.name) if "##" not in text else None
        for row in csv.reader(text.splitlines()):
            for cell in row:
                numeric = re.fullmatch(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?", cell)
                assert numeric or not (len(cell) > 1 and cell.startswith(FORMULA)), cell
    elif path.suffix in (".json", ".sarif", ".codequality"):
        harmless(text, path.name)
        json.loads(text)
    elif path.suffix == ".html":
        body = re.sub(r"<script\b.*?</script>|<style\b.*?</style>", "", text, flags=re.DOTALL)
        assert "<b>" not in re.sub(r"&lt;b&gt;", "", body)
        assert not {c for c in body if not c.isprintable() and c not in "\n\t"}
    else:
        harmless(text, path.name)


COMMANDS = (
    ["classify", "RUN"],
    *[["predict", "RUN", *WITH_GPU, "--by", by] for by in
      ("signature", "family", "range", "operator", "iteration", "gap", "power")],
    ["sweep", "RUN", *WITH_GPU, "--clock", "900,1410"],
    ["attribute", "RUN", *WITH_GPU],
    ["profile", "RUN", *WITH_GPU],
)  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=[" ".join(c) for c in COMMANDS])
def test_tables_and_files(
    arguments: list[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """The command does its work once; its result is printed and written in every way."""
    from tracetool.cli import output

    results: list[Result] = []
    emit = output.emit
    monkeypatch.setattr(output, "emit", lambda result, **how: results.append(result) or emit(result, **how))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    run = str(next(folder.glob("*run")))
    given = [run if a == "RUN" else a for a in arguments]
    files = [tmp_path / f"out{suffix}" for suffix in OUTPUTS]
    code = command([*given, "-o", str(files[0])])
    out, err = capsys.readouterr()
    assert code == 0, err
    harmless(out, f"{given}")
    harmless(err, f"{given}")
    (result,) = results
    with guarded_streams():
        emit(result, as_json=True)
    out = capsys.readouterr().out
    harmless(out, f"{given} --json")
    json.loads(out)
    with guarded_streams():
        for file in files[1:]:
            output.save(result, file)
        emit(result, as_json=False, written=files)
    out, err = capsys.readouterr()
    harmless(out, f"{given} -o")
    harmless(err, f"{given} -o")
    for file in files:
        _file_is_harmless(file)


#: Commands that share a run's energy out.
SHARED = (
    ["attribute", "--by", "signature"], ["attribute", "--by", "gpu,range"], ["attribute", "--by", "operator"],
    ["predict", "--by", "family"], ["predict", "--by", "operator"], ["predict", "--by", "range"],
    ["summary"], ["roofline"],
)  # fmt: skip


@pytest.mark.parametrize("arguments", SHARED, ids=[" ".join(c) for c in SHARED])
def test_name_energy_and_share_come_first_in_80_columns(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name, *options = arguments
    assert command([name, str(next(folder.glob("*run"))), *WITH_GPU, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = [line for line in lines if not line.startswith("note: ")]
    assert not [line for line in tables if cell_width(line) > 80]
    headings = [line for line in lines if re.search(r"  energy[^:,]* \[", line)]
    assert headings
    assert all(
        re.match(r"(clock \[MHz\] +)?\S+ +energy \S+( +\S+ \[J\])? +of run", line) for line in headings
    ), headings


@pytest.mark.parametrize(
    "arguments", [["diff", "RUN"], ["diff", "RUN", "RUN"], ["check", "RUN", "--base", "RUN"]]
)
def test_comparisons(
    arguments: list[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    run = str(next(folder.glob("*run")))
    given = [run if a == "RUN" else a for a in arguments]
    more = [] if arguments[0] == "check" else [*WITH_GPU]
    suffixes = (".md", ".json", ".csv", ".html", ".xml", ".sarif", ".codequality")
    files = [tmp_path / f"out{s}" for s in suffixes]
    code = command([*given, *more, *[w for f in files for w in ("-o", str(f))]])
    out, err = capsys.readouterr()
    assert code in (0, 1, 2), err
    assert "internal fault" not in err
    harmless(out, str(given))
    harmless(err, str(given))
    for file in files:
        if code < 2:
            _file_is_harmless(file)


def test_errors_notes_and_lists(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = str(next(folder.glob("*run")))
    trace = str(next(folder.glob("*trace.json")))
    store = str(tmp_path / "::error::store")
    for arguments in (
        ["predict", "::error::\u202eabsent"], ["predict", run], ["no\u2066::such"], ["schema", "##[error]x"],
        ["ingest", trace, "-o", str(tmp_path / "::debug::\u2069run")], ["ingest", trace, "--gpu", "##[error]\u202e"],
        ["baseline", "add", store, run, *WITH_GPU, "--branch", "::error::b\u202e"], ["baseline", "list", store],
        ["report", run, *WITH_GPU, "-o", str(tmp_path / "::x\u2066.html")], ["classify", "--explain", KERNELS[0]],
        ["classify", "--explain", KERNELS[1]], ["predict", run, *WITH_GPU, "--drop", "##[error]\u2066"],
    ):  # fmt: skip
        code = command(arguments)
        out, err = capsys.readouterr()
        assert code in (0, 2), err
        assert "internal fault" not in err
        assert code == 0 or len(err.splitlines()) == 1
        harmless(out, str(arguments))
        harmless(err, str(arguments))


def test_names_in_a_csv_come_back_as_they_were(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.csv"
    again = tmp_path / "again.csv"
    assert command(["classify", str(next(folder.glob("*run"))), "-o", str(names), "-q"]) == 0
    assert command(["classify", str(names), "-o", str(again), "-q"]) == 0

    def read(path: Path) -> set[str]:
        with path.open(encoding="utf-8", newline="") as file:
            return {row["name"] for row in csv.DictReader(file)}

    assert read(names) == read(again)
    assert any(n.startswith("'=cmd") for n in read(names))
