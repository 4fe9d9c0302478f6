"""A run is opened or refused with one line; never half of it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tracetool.tables.run import Run, file_sha256, write_run
from tracetool.tables.schema import load_schema
from tracetool.vocabulary.errors import BadInput


def _kernels(n: int = 2) -> pl.DataFrame:
    schema = load_schema("kernels")
    fill = {"int32": 0, "int64": 0, "float64": 0.0, "str": "kernel", "bool": False}
    return schema.conform(
        pl.DataFrame({c.name: [fill[c.type]] * n for c in schema.columns if not c.nullable})
    )


def test_what_was_written_is_read(tmp_path: Path) -> None:
    run = Run.open(write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {"warnings": ["µ"]}))
    assert run.info["warnings"] == ["µ"]
    assert run.kernels.equals(_kernels())
    assert run.telemetry.is_empty()
    assert set(run.info) >= {"schema", "tool_version", "tables"}
    assert run.info["tables"] == {"kernels": load_schema("kernels").tag}


def test_a_table_that_does_not_conform_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="absent"):
        write_run(tmp_path / "a.tracetool", {"kernels": pl.DataFrame({"name": ["x"]})}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "no run schema"),
        ("{}", "no run schema"),
        ('{"schema": "run/999"}', "run/999"),
        ('{"schema": null}', "no run schema"),
        (b"\xff\xfe\x00", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_broken_run_file_is_one_line(tmp_path: Path, text: str | bytes, fault: str) -> None:
    (tmp_path / "run.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadInput, match=fault) as raised:
        Run.open(tmp_path)
    assert "\n" not in raised.value.line()
    assert "run.json" in raised.value.line()


def test_no_run_says_how_to_make_one(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(BadInput, match=r"no such run|not a run") as raised:
            Run.open(path)
        assert "tracetool ingest" in raised.value.line()


@pytest.mark.parametrize("damage", ["empty", "cut", "other", "text"])
def test_a_broken_table_is_one_line(tmp_path: Path, damage: str) -> None:
    run = Run.open(write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {}))
    file = run.path / "kernels.parquet"
    whole = file.read_bytes()
    if damage == "other":
        pl.DataFrame({"x": [1]}).write_parquet(file)
    else:
        file.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"start_ns\n1\n"}[damage])
    with pytest.raises(BadInput, match="broken table") as raised:
        _ = run.kernels
    assert str(file) in raised.value.line()


def test_sha256_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert file_sha256(tmp_path / "x").startswith("ba7816bf8f01cfea")


def test_run_json_is_plain_json(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {"sources": []})
    assert json.loads((path / "run.json").read_text("utf-8"))["schema"] == "run/1"


def test_some_columns_are_read_without_the_others(tmp_path: Path) -> None:
    run = Run.open(write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {}))
    some = run.table("kernels", ["start_ns", "range"])
    assert some.columns == ["start_ns", "range"]
    assert some.height == 2
    assert run.table("telemetry", ["power_w"]).columns == ["power_w"]
