"""The SQL of the documentation is run as it stands, in DuckDB and in polars, and gives the same rows."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

PAGE = Path(__file__).parents[2] / "docs" / "fleet-sql.md"
_QUERY = re.compile(r"^## ([^\n]+)\n(?:[^`#][^\n]*\n)*```sql\n(.*?)```", re.DOTALL | re.MULTILINE)
QUERIES: dict[str, str] = dict(_QUERY.findall(PAGE.read_text("utf-8")))


def tables() -> dict[str, pl.DataFrame]:
    """Return a fleet by hand: three GPUs, the third takes 30 % more; 100 J and 50 J a job, 9 J of waiting."""
    scale = {"a": 1.0, "b": 1.0, "c": 1.3}
    parts = (
        ("mm", "gemm", 100.0, 30, 0.0),
        ("ln", "norm", 50.0, 20, 0.0),
        ("(idle)", "(idle)", 9.0, 0, 500.0),
    )
    energy = pl.DataFrame(
        [
            {"job": job, "rank": 0, "kernel": kernel, "family": family, "launch": "1x1x1",
             "uuid": None,
             "energy_j": joules * (more if launches else 1.0), "source": "measured", "launches": launches,
             "time_ms": 10.0, "idle_ms": idle, "gpu": "a100-sxm"}
            for job, more in scale.items()
            for kernel, family, joules, launches, idle in parts
        ],
        schema_overrides={"uuid": pl.String},
    )  # fmt: skip
    predictions = pl.DataFrame(
        [{"job": j, "rank": 0, "clock_mhz": c, "energy_j": 100 + abs(c - 1000) / 10, "makespan_ms": 1e6 / c,
          "gpu": "a100-sxm"} for j in scale for c in (900.0, 1000.0, 1050.0)]
    )  # fmt: skip
    families = pl.DataFrame(
        [{"job": j, "rank": 0, "family": f, "kernel": f, "launch": "", "launches": 3, "time_ms": t}
         for j in scale for f, t in (("gemm", 5.0), ("norm", 2.0))]
    )  # fmt: skip
    jobs = pl.DataFrame(
        {"job": list(scale), "month": ["2026-01", "2026-01", "2026-02"], "team": ["x", "x", "y"],
         "model": ["p", "q", "r"]}
    )  # fmt: skip
    return {"energy": energy, "predictions": predictions, "families": families, "jobs": jobs}


def first(title: str) -> dict[str, object]:
    return pl.SQLContext(**tables()).execute(QUERIES[title], eager=True).row(0, named=True)


def test_every_question_is_on_the_page() -> None:
    assert len(QUERIES) == 7


def test_answers_are_those_of_the_fleet_by_hand() -> None:
    top = first("Top signatures by joules over a month")
    assert (top["kernel"], top["joules"], top["launches"]) == ("mm", 200.0, 60)
    assert first("Energy per team, model and GPU")["joules"] == pytest.approx(204.0)
    assert first("Regressions over time")["more_pct"] == pytest.approx(30.0)
    worst = first("GPUs that take more for equal work")
    assert (worst["unit"], worst["more_pct"]) == ("c", pytest.approx(100 * (1.3 / 1.1 - 1)))
    assert first("Joules while GPUs wait") == {"team": "x", "joules": 18.0, "seconds": 1.0}
    best = first("Best clock per class of workload")
    assert (best["family"], best["clock_mhz"], best["joules"]) == ("gemm", 1000.0, 300.0)
    assert first("Energy per clock") == {
        "gpu": "a100-sxm", "clock_mhz": 900.0, "joules": 330.0, "gpu_seconds": pytest.approx(10 / 3)
    }  # fmt: skip


@pytest.mark.parametrize("title", QUERIES)
def test_duckdb_says_the_same(title: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    base = duckdb.connect()
    for name, frame in tables().items():
        base.register(name, frame.to_arrow())
    there = pl.from_arrow(base.sql(QUERIES[title]).to_arrow_table())
    assert isinstance(there, pl.DataFrame)
    here = pl.SQLContext(**tables()).execute(QUERIES[title], eager=True)
    assert_frame_equal(there, here, check_dtypes=False, check_row_order=False)
