"""Tables that users write, as Parquet whose columns are of any type: a result or one line, and no date a number."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.core.errors import BadInput

#: The first moment of all tables. [us]
T0 = 1_700_000_000_000_000
STARTS = range(T0, T0 + 6_000_000, 300_000)
LOG = "timestamp,power_w\n" + "".join(f"{T0 / 1e6 + i / 10},{100 + i % 7}\n" for i in range(70))
SAMPLES = "gpu_us,power_w\n" + "".join(f"{T0 + i * 10_000},{100 + i % 7}\n" for i in range(600))
SPANS = {"start_us": list(STARTS), "end_us": [s + 250_000 for s in STARTS]}
TABLES: dict[str, dict[str, list[object]]] = {
    "activity": {"name": ["a", "b"] * 10, **SPANS},
    "windows": dict(SPANS),
    "executions": {"kernel": ["a", "b"] * 10, **SPANS},
    "sync": {"host_us": [T0, T0 + 10**6], "gpu_us": [T0, T0 + 10**6], "delay_us": [1.0, 1.0]},
    "cases": {"model": ["llama-3.1-8b"], "gpu": ["h100-sxm"], "mode": ["decode"], "bs": [4], "isl": [64], "osl": [8]},
    "operators": {"op": ["gemm"], "dtype": ["bf16"], "m": [64], "n": [64], "k": [64], "count": [2], "stack": ["vllm"]},
    "kernels": {"kernel": ["a", "b"], "duration_us": [10.0, 20.0], "power_w": [200.0, 250.0], "clock_mhz": [1410, 1410],
                "util_tensor": [0.1, 0.2], "mem_clock_mhz": [1215, 1215]},
    "names": {"name": ["a", "b"], "duration_ns": [1, 2]},
}  # fmt: skip
A100 = {"gpu": "a100-pcie-40gb"}
LOGGED = {**A100, "power": "log.csv", "tz": "+00:00"}
READERS: dict[str, Callable[[str], object]] = {
    "activity": lambda path: tt.attribute(path, **LOGGED),
    "windows": lambda path: tt.attribute("activity.csv", windows=path, **LOGGED),
    "executions": lambda path: tt.profile(path, power="samples.csv", sync="sync.csv", gpu="mi300x"),
    "sync": lambda path: tt.profile("activity.csv", power="samples.csv", sync=path, gpu="mi300x"),
    "cases": tt.forecast,
    "operators": lambda path: tt.predict(path, gpu="h100-sxm"),
    "kernels": lambda path: tt.calibrate(path, **A100),
    "names": tt.classify,
}
#: Values of types that no such table has, and whether they can be read as numbers none the less.
VALUES = {
    "date": (date(2023, 11, 14), False), "moment": (datetime(2023, 11, 14, 12, tzinfo=UTC), False), "time": (time(3), False),
    "duration": (timedelta(seconds=3), False), "bytes": (b"\xff", False), "list": ([1], False),
    "structure": ({"a": 1}, False), "decimal": (Decimal("7.00"), True),
}  # fmt: skip
TEXTS = {"name", "kernel", "model", "gpu", "mode", "op", "dtype", "stack"}


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG)
    Path("samples.csv").write_text(SAMPLES)
    for name in ("activity", "sync"):
        pl.DataFrame(TABLES[name]).write_csv(f"{name}.csv")
    return tmp_path


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in TABLES.items() for c in columns])
def test_a_column_of_another_type_is_read_or_refused(table: str, column: str) -> None:
    frame = pl.DataFrame(TABLES[table])
    for what, (value, is_number) in VALUES.items():
        frame.with_columns(pl.Series(column, [value] * frame.height)).write_parquet("t.parquet")
        try:
            READERS[table]("t.parquet")
        except BadInput:
            continue
        assert column in TEXTS or is_number or column == "duration_ns", f"a {what} was taken for a number"


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize("table", TABLES)
def test_texts_may_be_stored_as_categories(table: str) -> None:
    frame = pl.DataFrame(TABLES[table])
    frame.with_columns(pl.col(pl.String).cast(pl.Categorical)).write_parquet("t.parquet")
    try:
        READERS[table]("t.parquet")
    except BadInput as refused:
        assert table == "kernels"  # two rows are too few for a fit
        assert "reject" in str(refused) or "rows" in str(refused) or "fit" in str(refused), refused


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize(
    ("table", "change", "fault"),
    [
        ("activity", {"start_us": -1}, "no times in order"),
        ("activity", {"start_us": 1}, "no times in order"),  # fifty years
        ("executions", {"start_us": 1}, "lasts more than 30 days"),
        ("executions", {"end_us": 1e300}, "end_us is no time"),
        ("sync", {"gpu_us": pl.col("gpu_us") * 1000}, "gpu_us is no time"),
        ("sync", {"gpu_us": pl.col("gpu_us") / 1000}, "times as fast as its GPU's"),
        ("sync", {"gpu_us": pl.col("gpu_us").reverse()}, "times as fast as its GPU's"),
        ("sync", {"delay_us": -1.0}, "delay_us is below 0"),
        ("cases", {"model": 7}, "model: 7 is neither a name nor a path"),
        ("kernels", {"util_tensor": 3.0}, "3 is not a share"),
        ("kernels", {"util_tensor": "much"}, "'much' is not a number"),
        ("kernels", {"clock_mhz": 1e300}, "no row that can be used"),
        ("kernels", {"mem_clock_mhz": float("inf")}, "no row that can be used"),
        ("names", {"duration_ns": -1}, "duration_ns is below 0"),
    ],
)
def test_what_cannot_be_is_refused(table: str, change: dict[str, object], fault: str) -> None:
    exprs = {c: v if isinstance(v, pl.Expr) else pl.lit(v) for c, v in change.items()}
    pl.DataFrame(TABLES[table]).with_columns(**exprs).write_parquet("t.parquet")
    with pytest.raises(BadInput) as refused:
        READERS[table]("t.parquet")
    assert fault in refused.value.message


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize("watts", [-100.0, 1e300])
def test_a_sample_that_no_gpu_draws_is_refused(watts: float) -> None:
    with Path("samples.csv").open("a") as file:
        file.write(f"{T0 + 7_000_000},{watts}\n")
    with pytest.raises(BadInput, match=r"line 602: no GPU draws"):
        READERS["executions"]("activity.csv")


@pytest.mark.parametrize("column", ["duration_us", "power_w", "temperature_c"])
def test_a_kernel_of_next_to_nothing_or_too_hot_is_refused(column: str) -> None:
    value = 1e6 if column == "temperature_c" else 1e-300
    frame = pl.DataFrame(TABLES["kernels"]).drop("util_tensor").with_columns(pl.lit(value).alias(column))
    with pytest.raises(BadInput, match=f"row 1, column {column}: .* is out of range"):
        tt.predict(frame, **A100)
