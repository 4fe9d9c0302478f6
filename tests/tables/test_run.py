"""A run is opened or refused with one line; never half of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.tables.run import Run, file_sha256, write_run
from tracetool.tables.schema import load_schema


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
    file = run.path / "kernels.parquet"
    facts = {"rows": 2, "bytes": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert run.info["tables"] == {"kernels": {"schema": load_schema("kernels").tag, **facts}}


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


DAMAGE = ("empty", "cut", "other", "text", "missing", "flipped")


def _damage(file: Path, kind: str) -> None:
    whole = file.read_bytes()
    at = len(whole) // 3
    file.unlink()
    if kind == "other":
        _kernels(3).write_parquet(file)
    elif kind != "missing":
        flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        cut = whole[: len(whole) // 2]
        file.write_bytes({"empty": b"", "cut": cut, "text": b"start_ns\n1\n", "flipped": flipped}[kind])


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("table", ["kernels", "devices"])
def test_a_table_that_is_not_the_one_listed_is_one_line(tmp_path: Path, table: str, damage: str) -> None:
    tables = {"kernels": _kernels(), "devices": load_schema("devices").empty()}
    path = write_run(tmp_path / "a.tracetool", tables, {})
    _damage(path / f"{table}.parquet", damage)
    with pytest.raises(BadInput) as raised:
        Run.open(path)
    line = raised.value.line()
    assert line.startswith(str(path / f"{table}.parquet"))
    assert "\n" not in line
    assert {"missing": "is missing", "other": "3 rows"}.get(damage, "") in line


def test_a_table_of_another_run_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {})
    other = write_run(tmp_path / "b.tracetool", {"kernels": _kernels().with_columns(start_ns=9)}, {})
    _kernels().write_parquet(path / "telemetry.parquet")
    with pytest.raises(BadInput, match=r"telemetry.*is not a table of this run"):
        Run.open(path)
    (path / "telemetry.parquet").rename(path / "mine.parquet")  # the user's own tables may lie there
    assert Run.open(path).kernels.height == 2
    (other / "kernels.parquet").replace(path / "kernels.parquet")
    with pytest.raises(BadInput, match=r"kernels.*checksum"):
        Run.open(path)


def test_a_run_replaced_while_it_is_read_is_not_mixed(tmp_path: Path) -> None:
    run = Run.open(write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {}))
    write_run(run.path, {"kernels": _kernels(3)}, {})
    with pytest.raises(BadInput, match="was replaced while it was read"):
        _ = run.kernels


@pytest.mark.parametrize("tables", [None, [], {"kernels": "kernels/1"}])
def test_a_broken_list_of_tables_is_one_line(tmp_path: Path, tables: object) -> None:
    path = write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {})
    info = json.loads((path / "run.json").read_text("utf-8"))
    (path / "run.json").write_text(json.dumps(info | {"tables": tables}), "utf-8")
    with pytest.raises(BadInput, match=r"run\.json: (holds no list of tables|tables is not an object)"):
        Run.open(path)


@pytest.mark.parametrize("damage", [None, "empty", "cut", "text"])
def test_a_run_of_before_the_list_is_read_as_it_is(tmp_path: Path, damage: str | None) -> None:
    path = write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {})
    info = {"schema": "run/1", "tool_version": "0.1", "tables": {"kernels": "kernels/1"}}
    (path / "run.json").write_text(json.dumps(info), "utf-8")
    if damage is None:
        assert Run.open(path).kernels.equals(_kernels())
        return
    _damage(path / "kernels.parquet", damage)
    with pytest.raises(BadInput, match="broken table") as raised:
        _ = Run.open(path).kernels
    assert str(path / "kernels.parquet") in raised.value.line()


def test_a_table_at_which_the_reader_gives_up_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panic of the library is no exception that others catch: it ended in a traceback."""
    path = write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {})

    def panics(*_: object, **__: object) -> pl.DataFrame:
        raise pl.exceptions.PanicException("called `Option::unwrap()` on a `None` value")

    monkeypatch.setattr(pl, "read_parquet", panics)
    with pytest.raises(BadInput, match=r"kernels\.parquet: broken table: it is damaged"):
        _ = Run.open(path).kernels


def test_sha256_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert file_sha256(tmp_path / "x").startswith("ba7816bf8f01cfea")


def test_run_json_is_plain_json(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {"sources": []})
    assert json.loads((path / "run.json").read_text("utf-8"))["schema"] == "run/2"


def test_some_columns_are_read_without_the_others(tmp_path: Path) -> None:
    run = Run.open(write_run(tmp_path / "a.tracetool", {"kernels": _kernels()}, {}))
    some = run.table("kernels", ["start_ns", "range"])
    assert some.columns == ["start_ns", "range"]
    assert some.height == 2
    assert run.table("telemetry", ["power_w"]).columns == ["power_w"]
