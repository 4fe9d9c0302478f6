"""Every column says its type, unit and meaning, and its name agrees with its unit."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from tracetool.replay.table_checks import check_operators, column_types, operator_table_columns
from tracetool.tables.schema import load_schema, schema_names

UNITS_BY_SUFFIX = {
    "_per_s": "1/s",
    "_ns": "ns", "_us": "us", "_ms": "ms", "_s": "s", "_mhz": "MHz", "_w": "W", "_j": "J", "_mj": "mJ",
    "_bytes": "B", "_c": "°C",
}  # fmt: skip
#: Sizes whose names end like a unit.
SIZES = {"kernel_w"}
LISTS = ["list[str]", "list[list[int64]]", "list[list[list[int64]]]"]
FILE_SHAPE = {
    "type": "object",
    "required": ["name", "version", "comment", "columns"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z_]+$"},
        "version": {"type": "integer", "minimum": 1},
        "comment": {"type": "string", "pattern": r"\.$"},
        "columns": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "type", "unit", "nullable", "comment"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
                    "type": {"enum": ["int32", "int64", "float64", "str", "bool", *LISTS]},
                    "unit": {"type": "string", "minLength": 1},
                    "nullable": {"type": "boolean"},
                    "comment": {"type": "string", "pattern": r"\.$"},
                    "default": {"type": "string"},
                    "formerly": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
                },
            },
        },
    },
}


@pytest.mark.parametrize("name", schema_names())
def test_a_schema_file_has_the_shape_of_one(name: str, root: Path) -> None:
    raw = json.loads((root / "schemas" / f"{name}.json").read_text("utf-8"))
    jsonschema.validate(raw, FILE_SHAPE)
    assert raw["name"] == name
    names = [c["name"] for c in raw["columns"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", schema_names())
def test_the_suffix_of_a_name_agrees_with_its_unit(name: str) -> None:
    for column in load_schema(name).columns:
        bare = column.name.removesuffix("_low").removesuffix("_high")
        suffix = max((s for s in UNITS_BY_SUFFIX if bare.endswith(s)), key=len, default=None)
        if suffix and column.name not in SIZES and column.type in ("int32", "int64", "float64"):
            assert column.unit == UNITS_BY_SUFFIX[suffix], column.name
        if column.type == "str":
            assert column.unit == "1", f"{column.name} is a text: its unit is 1"


@pytest.mark.parametrize("name", schema_names())
def test_an_empty_table_conforms(name: str) -> None:
    schema = load_schema(name)
    assert schema.conform(schema.empty()).schema == pl.Schema(schema.polars())


def test_conform_casts_orders_and_fills() -> None:
    schema = load_schema("telemetry")
    frame = pl.DataFrame(
        {"source": ["log.csv"], "power_w": [100], "device": [0], "time_ns": [5], "unknown": [1]}
    )
    out = schema.conform(frame)
    assert out.columns == [c.name for c in schema.columns]
    assert out["power_w"].dtype == pl.Float64
    assert out["clock_mhz"].null_count() == 1


def test_conform_refuses_what_must_be_there() -> None:
    schema = load_schema("telemetry")
    with pytest.raises(ValueError, match="time_ns is absent"):
        schema.conform(pl.DataFrame({"device": [0], "source": ["x"]}))
    with pytest.raises(ValueError, match="time_ns holds nulls"):
        schema.conform(pl.DataFrame({"time_ns": [None], "device": [0], "source": ["x"]}))


def test_a_table_of_an_earlier_version_has_todays_columns() -> None:
    """What changed its name between versions of a schema is found under the old one."""
    schema = load_schema("changes")
    formerly = {c.formerly: c.name for c in schema.columns if c.formerly}
    assert formerly == {
        "chance": "p_value", "more_work_j": "work_j", "slower_j": "duration_j", "hungrier_j": "power_j",
    }  # fmt: skip
    today = (
        schema.empty()
        .clear(2)
        .with_columns(
            pl.lit("x").alias(c.name) if c.type == "str" else pl.lit(float(i)).alias(c.name)
            for i, c in enumerate(schema.columns)
        )
    )
    before = today.rename({name: old for old, name in formerly.items()})
    assert schema.conform(before).equals(schema.conform(today))


def test_the_schema_of_operator_tables_has_every_column_that_is_read_and_no_other() -> None:
    """Names, types and meaning of these columns have one home: what is read without a type is a number."""
    assert set(operator_table_columns()) == set(column_types())
    assert set(column_types().values()) <= {"str", "bool", "int64", "float64"}
    required = [c.name for c in load_schema("operator_table").columns if not c.nullable]
    assert required == ["op"]


def test_columns_of_operator_tables_are_read_as_their_schema_says() -> None:
    """A text stays one, a flag may be a word, a number may be written as a text."""
    words = {"str": "x", "bool": "no", "int64": "1", "float64": "1"}
    row = {name: words[kind] for name, kind in column_types().items()}
    row |= {"op": "gemm", "dtype": "bf16", "kv_dtype": "fp8", "state_dtype": "fp32"}
    read = check_operators("table", pl.DataFrame([row]))
    kinds = {name: pl.String() if kind == "str" else pl.Float64() for name, kind in column_types().items()}
    assert dict(read.schema) == {name: kind for name, kind in kinds.items() if name != "count"}
    assert all(read[name].item() == 0.0 for name, kind in column_types().items() if kind == "bool")
