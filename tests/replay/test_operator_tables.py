"""Operator and kernel tables: read in every format, checked, the fault named."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.core.errors import BadInput
from tracetool.replay.operator_tables import load_table, read_table

GEMM = {"op": ["gemm", "gemm", "gemm"], "dtype": ["bf16"] * 3, "m": [8, 8, 16], "n": [8] * 3, "k": [8] * 3}


def test_equal_rows_are_modeled_once_and_order_is_kept() -> None:
    table = read_table(pl.DataFrame(GEMM))
    assert table.kind == "operators"
    assert len(table.rows) == 2
    assert table.index.tolist() == [0, 0, 1]
    assert table.rows.number("m").tolist() == [8.0, 16.0]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json", "jsonl"])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    frame = pl.DataFrame(GEMM)
    {
        "csv": frame.write_csv,
        "parquet": frame.write_parquet,
        "json": frame.write_json,
        "jsonl": frame.write_ndjson,
    }[suffix](path)  # type: ignore[operator]
    assert read_table(path).rows.number("k").tolist() == [8.0, 8.0]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"op": ["gemm", "spmm", "gemm"]}, "row 2: unknown op 'spmm'"),
        ({"dtype": ["bf16", "bf15", "bf16"]}, "row 2, column dtype: unknown number format 'bf15'"),
        ({"m": [8, None, 16]}, "row 2: gemm needs column m"),
        ({"m": ["8", "x", "16"]}, "row 2, column m: 'x' is not a number"),
        ({"m": [8, 0, 16]}, "row 2, column m: 0 is below 1"),
        ({"m": [8.0, 1e300, 16.0]}, "row 2, column m: 1e+300 is beyond 1e+15"),
        ({"m": [8.0, float("inf"), 16.0]}, "row 2, column m: is not finite"),
        ({"count": [1, -1, 1]}, "column count: -1 is below 0"),
        ({"m": [date(2020, 1, 1)] * 3}, "column m holds Date, not numbers"),
        ({"m": [timedelta(1)] * 3}, "column m holds Duration(time_unit='us'), not numbers"),
        ({"m": [b"8"] * 3}, "column m holds Binary, not numbers"),
        ({"dtype": [timedelta(1)] * 3}, "column dtype holds Duration(time_unit='us'), not text"),
        ({"op": ["moe"] * 3, "gated": [1, 0, -1]}, "row 3, column gated: -1 is neither true nor false"),
        (
            {"op": ["moe"] * 3, "gated": [1.0, 0.5, 1.0]},
            "row 2, column gated: 0.5 is neither",
        ),
    ],
)
def test_faults_name_row_and_column(change: dict[str, list[object]], fault: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_table(pl.DataFrame({**GEMM, **change}))
    assert fault in caught.value.message


@pytest.mark.parametrize(
    ("count", "fault"),
    [
        (["1", "x"], "row 2, column count: 'x' is not a number"),
        ([1, -3], "row 2, column count: -3 is out of range"),
        ([[1], [2]], "column count holds List(Int64), not numbers"),
    ],
)
def test_counts_of_kernels_are_checked_as_those_of_operators(count: list[object], fault: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_table(pl.DataFrame({"kernel": ["a", "b"], "duration_us": [1.0, 2.0], "count": count}))
    assert fault in caught.value.message


@pytest.mark.parametrize("count", [["2 ", " 4"], ["2", None], [2.0, float("nan")]])
def test_counts_written_as_text_or_not_at_all_are_read(tmp_path: Path, count: list[object]) -> None:
    frame = pl.DataFrame(GEMM)[:2].with_columns(pl.Series("count", count))
    expected = [2.0, 4.0 if " 4" in count else 1.0]
    assert read_table(frame).counts.tolist() == expected
    frame.write_parquet(tmp_path / "t.parquet")
    swept = tt.sweep(tmp_path / "t.parquet", gpu="h100-sxm", clock=[1200, 1755])
    stated = tt.sweep(frame.with_columns(pl.Series("count", expected)), gpu="h100-sxm", clock=[1200, 1755])
    assert swept.families.equals(stated.families)


@pytest.mark.parametrize("category", [pl.Categorical(), pl.Enum(["gemm", "bf16", "8", "16"])])
def test_columns_stored_as_categories_are_read(tmp_path: Path, category: pl.DataType) -> None:
    frame = pl.DataFrame(GEMM).cast(pl.String).cast(category)
    frame.write_parquet(tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        assert read_table(source).rows.number("m").tolist() == [8.0, 16.0]


def test_no_more_is_chosen_than_there_is() -> None:
    experts = {"op": ["moe"] * 2, "dtype": ["bf16"] * 2, "tokens": [64] * 2, "hidden": [1024] * 2,
               "intermediate": [1024] * 2, "top_k": [8, 9], "experts": [8] * 2}  # fmt: skip
    with pytest.raises(BadInput, match="row 2, column top_k: 9 is more than experts, 8"):
        read_table(pl.DataFrame(experts))
    heads = {
        "op": ["attention"],
        "dtype": ["bf16"],
        "batch": [1],
        "q_len": [64],
        "heads": [8],
        "head_dim": [128],
    }
    assert len(read_table(pl.DataFrame({**heads, "kv_heads": [8]})).rows) == 1
    with pytest.raises(BadInput, match="row 1, column kv_heads: 16 is more than heads, 8"):
        read_table(pl.DataFrame({**heads, "kv_heads": [16]}))


@pytest.mark.parametrize("raw", [b"", b"\x00\x01", b"op\n", b"a,b\n1,2\n", "ü,\n".encode("latin-1")])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "json", "txt"])
def test_a_broken_file_is_bad_input(tmp_path: Path, raw: bytes, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(raw)
    with pytest.raises(BadInput):
        read_table(path)


def test_kernel_tables_keep_launch_and_clock() -> None:
    table = read_table(
        pl.DataFrame(
            {"kernel": ["k"], "duration_us": [5.0], "clock_mhz": [900], "grid_x": [4], "block_x": [128]}
        )
    )
    assert table.kind == "kernels"
    assert table.rows.number("recorded_clock_mhz").tolist() == [900.0]
    assert table.rows.number("blocks").tolist() == [4.0]
    with pytest.raises(BadInput, match="not a share"):
        read_table(pl.DataFrame({"kernel": ["k"], "duration_us": [5.0], "mix_mem_gl": [7.0]}))


def test_a_utilization_stands_where_a_monitors_field_is_empty() -> None:
    table = pl.DataFrame(
        {
            "kernel": ["a", "b"],
            "duration_us": [900.0, 900.0],
            "clock_mhz": [1410.0, 1410.0],
            "util_dram": [0.6, 0.6],
            "DCGM_FI_PROF_DRAM_ACTIVE": [None, 0.3],
        }
    )
    assert read_table(table).rows.number("act_dram").tolist() == [0.6, 0.3]


@pytest.mark.parametrize(("written", "meant"), [("dtpe", "dtype"), ("M", "m"), ("Dtype", "dtype")])
def test_a_misspelled_column_is_named(written: str, meant: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_table(pl.DataFrame(GEMM).rename({meant: written}))
    assert f"needs column {meant}" in caught.value.message
    assert f"is column '{written}' meant?" in str(caught.value.fix)


@pytest.mark.parametrize("clock", [1.2, 1_200_000.0])
def test_a_clock_in_another_unit_is_refused(clock: float) -> None:
    table = pl.DataFrame({"kernel": ["a", "b"], "duration_us": [5.0, 6.0], "clock_mhz": [1200.0, clock]})
    with pytest.raises(BadInput, match=r"row 2, column clock_mhz: .* MHz is no clock of a100-sxm"):
        tt.predict(table, gpu="a100-sxm")


def test_a_pipe_is_no_missing_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for source in (pipe, Path("-"), Path("/dev/null")):
        with pytest.raises(BadInput, match="is a pipe, and a table is read from a file"):
            load_table(source)


_ATTENTION: dict[str, list[object]] = {
    "op": ["attention"] * 2, "dtype": ["bf16"] * 2, "batch": [1, 1], "q_len": [100, 100], "heads": [32, 32],
    "head_dim": [128, 128],
}  # fmt: skip


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({**GEMM, "m": [8, 16.5, 16]}, "row 2, column m: 16.5 is not whole"),
        ({**GEMM, "m": [8, 16, 4096.7]}, "row 3, column m: 4096.7 is not whole"),
        ({**GEMM, "m": [8.0, 1e12, 16.0]}, "row 2, column m: 1e+12 is more than any GPU holds"),
        ({**_ATTENTION, "kv_heads": [8, 7]}, "row 2, column kv_heads: heads, 32, is no multiple of 7"),
        (
            {**_ATTENTION, "kv_len": [100, 50], "causal": [1, 1]},
            "row 2, column kv_len: 50 is less than q_len, 100, and the row is causal",
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused(table: dict[str, list[object]], fault: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_table(pl.DataFrame(table, strict=False))
    assert fault in caught.value.message
    assert caught.value.fix


def test_sizes_that_can_be_are_taken() -> None:
    crossed = {**_ATTENTION, "kv_len": [100.0, 50.0], "causal": [1, 0], "kv_heads": [None, 8]}
    assert len(read_table(pl.DataFrame(crossed)).rows) == 2
    means = pl.DataFrame({**GEMM, "m": [8.0, 16.5, 16.0]})
    assert read_table(means, of_means=True).rows.number("m").tolist() == [8.0, 16.5, 16.0]
    unstated = pl.DataFrame({**GEMM, "count": [2.0, float("nan"), None]})
    assert read_table(unstated).counts.tolist() == [2.0, 1.0, 1.0]


def test_the_configuration_of_a_model_is_sent_to_forecast(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": 4096}', "utf-8")
    with pytest.raises(BadInput, match="is the configuration of a model, no table") as raised:
        read_table(path)
    assert f"tracetool forecast {path} --gpu" in raised.value.line()


def test_a_table_of_other_columns_is_told_where_the_right_names_stand() -> None:
    with pytest.raises(BadInput, match="neither an operator table") as raised:
        read_table(pl.DataFrame({"operator": ["matmul"], "M": [64]}))
    assert "tracetool schema operator_table" in raised.value.line()
    assert raised.value.line().endswith("they are: operator, M)")
