"""Paths that are not what they seem: patterns to a library, pipes, devices, packed tables, odd names."""

from __future__ import annotations

import ast
import gzip
import json
import os
import random
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.damaged.small_run import small_run
from tracetool.cli.app import run as command
from tracetool.tables import unpacked

ROOT = Path(__file__).resolve().parents[2]
GPU = ("--gpu", "a100-sxm")
OPERATORS = "op,dtype,m,n,k\ngemm,bf16,{size},{size},{size}\n"
START_US = 1_767_589_200_200_000
ACTIVITY = "name,start_us,end_us\n" + "".join(
    f"k{i % 3},{START_US + 30_000 * i},{START_US + 30_000 * i + 25_000}\n" for i in range(40)
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("stored"))


def _makespan_ms(table: Path, capsys: pytest.CaptureFixture[str]) -> float:
    assert command(["predict", str(table), *GPU, "--json"]) == 0
    return float(json.loads(capsys.readouterr().out)["totals"][0]["makespan_ms"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".jsonl"])
def test_a_table_is_the_one_named_not_one_its_name_matches(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(path: Path, size: int) -> Path:
        frame = pl.read_csv(OPERATORS.format(size=size).encode())
        with path.open("wb") as file:
            {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".json": frame.write_json}.get(
                suffix, frame.write_ndjson
            )(file)
        return path

    named, other = write(tmp_path / f"t[1]{suffix}", 8192), write(tmp_path / f"t1{suffix}", 128)
    small, large = _makespan_ms(other, capsys), _makespan_ms(named, capsys)
    assert large > small
    assert large == _makespan_ms(write(tmp_path / f"plain{suffix}", 8192), capsys)
    if suffix == ".csv":
        (tmp_path / "n[1].csv").write_text("name\nampere_sgemm_128x64_nn\n")
        (tmp_path / "n1.csv").write_text("name\nreduce_kernel\n")
        assert command(["classify", str(tmp_path / "n[1].csv"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["families"][0]["family"] == "gemm"


def test_every_command_reads_a_run_whose_name_is_a_pattern(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, prior = tmp_path / "lr=[0.1]*.tracetool", tmp_path / "p[1].parquet"
    shutil.copytree(stored, run)
    (tmp_path / "w[1].csv").write_text(ACTIVITY)
    for words in (
        ["summary", run], ["classify", run], ["predict", run, "-o", prior],
        ["attribute", run, "--prior", prior],
        ["attribute", run, "--windows", tmp_path / "w[1].csv"], ["export", run, "-o", tmp_path / "e[1].json"],
        ["diff", run, run], ["report", run, "-o", tmp_path / "r[1].html"],
    ):  # fmt: skip
        assert command([str(w) for w in words]) == 0, capsys.readouterr().err


def _refused(words: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    code = command([str(w) for w in words])
    error = capsys.readouterr().err
    assert code in (2, 3), error
    assert len(error.splitlines()) == 1, error
    assert "internal fault" not in error
    assert error.rstrip().endswith(")"), f"no fix: {error}"
    return error


def _readers(stored: Path, path: Path, folder: Path) -> list[list[object]]:
    """Return a call for each kind of file that a command reads."""
    table = folder / "ops.csv"
    table.write_text(OPERATORS.format(size=512))
    configuration = ["--gpu", "a100-sxm", "--mode", "decode", "--bs", "1", "--isl", "8", "--osl", "4"]
    return [
        ["classify", path], ["predict", path, *GPU], ["predict", table, *GPU, "--calibration", path],
        ["predict", table, *GPU, "--operands", f"{path}"], ["attribute", stored, "--windows", path],
        ["attribute", stored, "--sensor", path], ["attribute", stored, "--prior", path],
        ["attribute", path, "--power", stored.parent / "power.csv", "--tz", "+00:00"],
        ["profile", path, "--power", path], ["sensor", "identify", stored, "--meter", path],
        ["check", stored, "--base", stored, "--config", path], ["forecast", path, *configuration],
        ["ingest", path, "-o", folder / "out"],
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", ["", ".csv", ".parquet", ".toml", ".json", ".npy"])
def test_pipes_and_endless_devices_are_refused(
    suffix: str, stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, endless = tmp_path / f"pipe{suffix}", tmp_path / f"endless{suffix}"
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless):
        for words in _readers(stored, path, tmp_path):
            _refused(words, capsys)


def test_a_pipe_in_a_run_is_refused(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("run.json", "kernels.parquet", "telemetry.parquet"):
        run = tmp_path / f"{name}.tracetool"
        shutil.copytree(stored, run)
        (run / name).unlink()
        os.mkfifo(run / name)
        for words in (["summary", run], ["classify", run], ["ingest", run, "-o", tmp_path / "out"]):
            _refused(words, capsys)


def test_a_packed_table_is_held_against_what_it_grows_to(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacked, "HARMLESS_BYTES", 1 << 20)
    bomb = gzip.compress(b"name,start_us,end_us\n" + b" " * (20 << 20), 9)
    for name in ("bomb.csv", "bomb.csv.gz"):
        (tmp_path / name).write_bytes(bomb)
        for words in (
            ["attribute", stored, "--windows", tmp_path / name],
            ["attribute", stored, "--prior", tmp_path / name],
            ["classify", tmp_path / name],
        ):
            assert "unpacks to more than" in _refused(words, capsys)
    (tmp_path / "good.csv.gz").write_bytes(gzip.compress(ACTIVITY.encode()))
    assert command(["attribute", str(stored), "--windows", str(tmp_path / "good.csv.gz")]) == 0


def test_a_table_in_utf_16_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.csv").write_text(OPERATORS.format(size=8192))
    (tmp_path / "excel.csv").write_text(OPERATORS.format(size=8192).replace("\n", "\r\n"), "utf-16")
    assert _makespan_ms(tmp_path / "excel.csv", capsys) == _makespan_ms(tmp_path / "plain.csv", capsys)


def test_names_that_are_no_text(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.csv"))
    table.write_text(OPERATORS.format(size=8192))
    (tmp_path / "plain.csv").write_text(OPERATORS.format(size=8192))
    assert _makespan_ms(table, capsys) == _makespan_ms(tmp_path / "plain.csv", capsys)
    run = table.with_suffix(".tracetool")
    shutil.copytree(stored, run)
    assert "rename it" in _refused(["summary", run], capsys)


def test_a_damaged_footer_is_one_line(
    stored: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """At some of them polars panics, which is no ``Exception``, and prints its stack past Python."""
    good, bad, draw = tmp_path / "good.parquet", tmp_path / "bad.parquet", random.Random(11)
    operators = pl.read_csv(OPERATORS.format(size=512).encode())
    pl.concat([operators.with_columns(name=pl.lit("gemm"), duration_ns=500)] * 5).write_parquet(good)
    raw = good.read_bytes()
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    for _ in range(150):
        changed = bytearray(raw)
        for _ in range(draw.choice((1, 2, 5))):
            changed[draw.randrange(footer, len(raw) - 8)] = draw.randrange(256)
        bad.write_bytes(changed)
        for words in (["classify", bad, "-q"], ["ingest", bad, "-q", "-o", tmp_path / "out"]):
            code = command([str(w) for w in words])
            error = capfd.readouterr().err
            assert code in (0, 2)
            assert len(error.splitlines()) == (1 if code else 0), error
            assert "internal fault" not in error


def test_no_library_takes_a_path_for_a_pattern() -> None:
    """``glob=False`` wherever polars would expand; two of its readers cannot be told so."""
    faults = []
    for file in sorted((ROOT / "tracetool").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("pl.")):
                continue
            name = ast.unparse(node.func)[3:]
            stated = any(k.arg == "glob" and ast.unparse(k.value) == "False" for k in node.keywords)
            in_memory = node.args and ast.unparse(node.args[0]).startswith("io.BytesIO")
            expands = name in ("scan_parquet", "read_parquet", "scan_ipc") and not stated and not in_memory
            if expands or name in ("read_parquet_schema", "read_ipc"):
                faults.append(f"{file.relative_to(ROOT)}:{node.lineno}: {name}")
    assert not faults
