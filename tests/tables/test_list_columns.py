"""Shapes and types of calls: what profilers write as JSON text becomes lists, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.makers import kineto
from tracetool.api.ingest import ingest
from tracetool.kernels.classification import classify_run
from tracetool.tables.list_columns import as_lists, dims_of, list_dims_of, shape_texts, texts_of
from tracetool.tables.run import Run, write_run

SIZES = st.lists(st.integers(0, 2**40), max_size=4)
ARGUMENTS = st.lists(st.one_of(SIZES, st.lists(SIZES, min_size=1, max_size=3)), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=12
)


def _frame(**texts: list[str | None]) -> pl.DataFrame:
    return pl.DataFrame(texts, schema=dict.fromkeys(texts, pl.String))


@given(st.lists(ARGUMENTS, max_size=4))
def test_what_profilers_write_is_given_back(calls: list[list[object]]) -> None:
    texts = [json.dumps(c) for c in calls]
    frame = as_lists(_frame(input_dims=texts))
    assert frame.schema["input_dims"] == pl.List(pl.List(pl.Int64()))
    assert shape_texts(frame).to_list() == texts


@given(st.lists(st.one_of(JSON.map(json.dumps), st.text()), max_size=6))
def test_any_text_becomes_lists_or_null(texts: list[str]) -> None:
    frame = as_lists(_frame(input_dims=texts, input_types=texts, concrete_inputs=texts))
    assert frame.height == len(texts)
    assert [c for c, kind in frame.schema.items() if not isinstance(kind, pl.List)] == []


@pytest.mark.parametrize(
    ("text", "dims", "groups"),
    [
        ("[[4, 8], []]", [[4, 8], []], None),
        ('[[4, "x", 1.5, true, null]]', [[4, None, None, None, None]], None),
        ("[[[2, 3], []], [5]]", [None, [5]], [[[2, 3], []], None]),
        ('["", 3, null]', [None, None, None], None),
        ("[[9223372036854775808]]", [[None]], None),
        ("{}", None, None),
        ("[" * 100_000, None, None),
        ("[[1", None, None),
    ],
)
def test_a_size_that_is_no_number_is_null(text: str, dims: object, groups: object) -> None:
    assert dims_of(text) == dims
    assert list_dims_of(text) == groups


def test_types_and_scalars_keep_their_places() -> None:
    assert texts_of('["float", "", null, 1, [1, 1]]') == ["float", "", None, "1", "[1, 1]"]


def test_a_run_of_before_the_lists_gives_the_same_lists(tmp_path: Path) -> None:
    run = Run.open(ingest([kineto(tmp_path)], out=tmp_path / "run"))
    for name in ("operators", "signatures"):
        table = run.table(name)
        assert table["input_dims"].drop_nulls().len() > 0
        file = run.path / f"{name}.parquet"
        lists = [c for c, kind in table.schema.items() if isinstance(kind, pl.List)]
        spelled = [pl.Series(c, [None if v is None else json.dumps(v) for v in table[c].to_list()], pl.String)
                   for c in lists if c != "input_list_dims"]  # fmt: skip
        table.drop(*lists, *(["family"] if name == "signatures" else [])).with_columns(spelled).write_parquet(
            file
        )
    info = {**run.info, "schema": "run/1", "tables": {}}
    (run.path / "run.json").write_text(json.dumps(info), "utf-8")
    old = Run.open(run.path)
    again = Run.open(ingest([kineto(tmp_path)], out=tmp_path / "again"))
    assert old.table("operators").equals(again.table("operators"))
    assert old.signatures.drop("family").equals(again.signatures.drop("family"))
    assert classify_run(old).equals(classify_run(again))


@pytest.mark.parametrize("name", ["a100_generation.pt.trace.json.gz", None])
def test_the_family_on_disk_is_the_one_classify_says(name: str | None, samples: Path, tmp_path: Path) -> None:
    trace = samples / name if name else kineto(tmp_path)
    run = Run.open(ingest([trace], out=tmp_path / "run"))
    on_disk = run.kernels.filter(kind="kernel").join(
        run.signatures.select("signature", "family"), on="signature"
    )
    said = classify_run(run)
    left = on_disk.select("start_ns", "device", "stream", "family").sort(pl.all())
    assert left.equals(
        said.select("start_ns", "device", "stream", pl.col("family").cast(pl.String)).sort(pl.all())
    )
    assert said["family"].null_count() == 0


def test_lists_are_written_as_lists(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "signature": [0], "kind": ["kernel"], "name": ["k"], "launches": [1], "duration_ns": [1],
            "duration_median_ns": [1.0], "input_dims": ["[[4, 8]]"],
        }
    )  # fmt: skip
    path = write_run(tmp_path / "run", {"signatures": table}, {})
    assert pl.read_parquet(path / "signatures.parquet")["input_dims"].to_list() == [[[4, 8]]]
