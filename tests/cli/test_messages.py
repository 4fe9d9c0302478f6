"""What an error says: what is wrong, where, and the fix; with ``--json`` as a document too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tracetool as tt
from tests.conftest import Tool
from tests.documents import check_document
from tests.sources.makers import kineto, nsys_tables, write_tables
from tracetool.cli.app import run
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted


@pytest.fixture(scope="module")
def forward(tmp_path_factory: pytest.TempPathFactory, samples: Path, tool: Tool) -> Path:
    path = tmp_path_factory.mktemp("messages") / "forward.tracetool"
    done = tool("ingest", samples / "mi300x_kernel_trace.csv", "--gpu", "mi300x", "-o", path)
    assert done.returncode == 0
    assert "720 kernels" in done.stdout
    assert "1 GPU, 0 readings" in done.stdout
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["predict", "no-such-run", "--json"], 2, "no-such-run"),
        (["predict", "--json"], 2, "Missing argument"),
        (["diff", "--json", "--no-such-option"], 2, "no-such-option"),
        (["no-such-command", "--json"], 2, "no-such-command"),
        (["gpus", "--show", "h111-sxm", "--json"], 2, "h111-sxm"),
        (["gpus", "h111-sxm", "--json"], 2, "h111-sxm"),
        (["gpus", "h100-sxm", "--show", "a100-sxm", "--json"], 2, "two GPUs are named"),
        (["baseline", "list", "no-such-folder", "--json"], 2, "no-such-folder"),
        (["ingest", "no-such.sqlite", "--json"], 2, "no-such.sqlite"),
        (["schema", "no-such-table", "--json"], 2, "no-such-table"),
        (["record", "--json"], 2, "no program"),
        (["classify", "--json"], 2, "nothing to classify"),
        (["calibrate", "no-such.csv", "--gpu", "h100-sxm", "--json"], 2, "no-such.csv"),
    ],
)
def test_an_error_is_a_document_and_a_line(
    arguments: list[str], code: int, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert set(error) == {"file", "message", "fix", "exit_code"}
    assert error["file"] in (None, part)
    check_document(arguments[0], {"error": error})
    assert error["exit_code"] == code
    assert part in error["message"]
    assert len(err.splitlines()) == 1
    assert error["message"] in err
    assert run([a for a in arguments if a != "--json"]) == code
    assert capsys.readouterr().out == "", "without --json standard output stays empty"


def test_a_check_that_fails_prints_its_document_alone(
    forward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", str(forward), "--fail-on", "time=0.01%", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["failed"] is True
    assert len(err.splitlines()) == 1


def test_json_of_the_recorded_program_is_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = ["record", "--vendor", "other", "--", "true", "--json"]
    assert run(program) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["h111-sxm", "foo", "mi300", "", "Q"])
def test_an_unknown_gpu_names_a_few_near_ones(name: str) -> None:
    from tracetool.hardware.load import load_gpu

    with pytest.raises(BadInput) as error:
        load_gpu(name)
    line = error.value.line()
    assert "all: tracetool gpus" in line
    named = re.search(r"nearest: ([^;]*);", line)
    assert named is None or len(named[1].split(", ")) <= 5
    if name == "h111-sxm":
        assert named and "h100-sxm" in named[1]


def test_all_gpus_are_listed(tool: Tool) -> None:
    from tracetool.hardware.names import gpu_names

    assert set(gpu_names()) <= set(re.findall(r"^(\S+)", tool("gpus").stdout, re.MULTILINE))


@pytest.mark.parametrize("part", ["", "run.json", "kernels.parquet", "devices.parquet"])
def test_a_run_given_to_ingest_is_told_to_be_one(part: str, forward: Path, tmp_path: Path) -> None:
    from tracetool.api.ingest import ingest

    with pytest.raises(BadInput) as error:
        ingest([forward / part], out=tmp_path / "out")
    assert "already a run" in error.value.line() or "file of a run" in error.value.line()
    assert f"tracetool predict {forward}" in error.value.line()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    ["predict", "sweep", "summary", "attribute", "classify", "diagnose", "diff", "calibrate --gpu a100-sxm"],
)
@pytest.mark.parametrize("kind", ["json", "sqlite"])
def test_a_trace_in_place_of_a_run_is_told_to_be_ingested(
    kind: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = kineto(tmp_path) if kind == "json" else write_tables(tmp_path / "t.sqlite", nsys_tables())
    command, *more = words.split()
    assert run([command, str(trace), *more]) == 2
    assert capsys.readouterr().err.endswith(
        f"(it is a trace: make a run of it with tracetool ingest {trace})\n"
    )


def test_a_bad_table_is_not_called_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "activity.csv"
    table.write_text("name,start_us,end_us\nload,2000000,1000000\n", "utf-8")
    assert run(["attribute", str(table), "--power", str(table)]) == 2
    assert "is a trace" not in capsys.readouterr().err


def test_a_limit_on_time_without_shapes_says_how_to_record_them() -> None:
    import polars as pl

    from tracetool.compare.accuracy import breaches
    from tracetool.compare.thresholds import parse_thresholds

    rows = pl.DataFrame(
        {
            "level": "total", "name": "(compared)", "compared_pct": [0.0, 50.0],
            "time_error_pct": [None, 3.0], "energy_error_pct": [None, None],
        },
        schema_overrides={"time_error_pct": pl.Float64, "energy_error_pct": pl.Float64},
    )  # fmt: skip
    with pytest.raises(BadInput, match="no shapes of their operators") as error:
        breaches(rows[:1], parse_thresholds(["time=5%"]))
    assert "record_shapes=True" in error.value.line()
    assert "--power" not in error.value.line()
    with pytest.raises(BadInput, match="has no measured energy"):
        breaches(rows[1:], parse_thresholds(["energy=5%"]))


@pytest.mark.parametrize("command", [["list"], ["prune"]])
def test_a_store_that_is_not_there_is_an_error(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["baseline", *command, str(tmp_path / "absent")]) == 2
    assert "no such folder of baselines" in capsys.readouterr().err
    assert run(["baseline", *command, str(tmp_path)]) == 0


def test_counts_agree_with_their_nouns() -> None:
    assert [counted(n, "GPU") for n in (0, 1, 2, 1000)] == ["0 GPUs", "1 GPU", "2 GPUs", "1,000 GPUs"]
    assert counted(1, "copy", "copies") == "1 copy"


@pytest.mark.parametrize("option", [("--work", "tokens=abc"), ("--work", "tokens=4096"), ("--depth", "2")])
def test_options_of_groups_are_not_passed_over(forward: Path, command: Tool, option: tuple[str, str]) -> None:
    done = command("attribute", forward, *option)
    assert done.returncode == 2
    assert f"{option[0]} is of the groups of --by" in done.stderr


@pytest.mark.parametrize(
    "option", [("--windows", "w.csv"), ("--device", "0"), ("--prior", "model"), ("--bars", "b.html")]
)
def test_options_of_classes_are_not_passed_over_for_groups(
    forward: Path, command: Tool, option: tuple[str, str]
) -> None:
    done = command("attribute", forward, "--by", "family", *option)
    assert done.returncode == 2
    assert f"{option[0]} is of a log's classes, not of the groups of --by" in done.stderr


def test_a_run_without_products_says_so(forward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tracetool.report.terminal.roofline import print_achieved

    achieved = tt.roofline(forward)
    for gemm, said in ((True, "no matrix product of known shape ran"), (False, "no operator ran")):
        print_achieved(achieved.source, achieved.source.frame.clear(), (), gemm=gemm)
        assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "listed"),
    [
        (["summary", "run"], ".csv .html .json .md .parquet .xml"),
        (["gpus"], ".csv .html .json .md .parquet .xml"),
        (["diff", "base", "head"], ".codequality .csv .html .json .md .parquet .sarif .xml"),
    ],
)
def test_an_unknown_kind_of_output_lists_those_of_the_command(
    command: list[str], listed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "-o", "out.foo"]) == 2
    assert f"known: {listed})" in capsys.readouterr().err
    code = run([*command, "-o", "out.sarif"])
    assert code == 2
    assert ("no output of kind '.sarif'" in capsys.readouterr().err) == (".sarif" not in listed)


def test_a_report_names_the_one_kind_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "run", "-o", "out.foo"]) == 2
    assert "report.html" in capsys.readouterr().err
