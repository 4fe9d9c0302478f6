"""Jobs recorded on a real H100: kernels' times predicted from shapes alone, family by family."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.tables.run import Run

RECORDED = Path(__file__).resolve().parents[2] / "sample_traces" / "recorded"
#: Families that take more than 4 % of a job's kernels' time, and predicted over measured. A trace says no
#: clock: products that ran under the power cap are predicted at the boost clock, 15 % faster.
BOUNDS = {
    "resnet50": {
        "conv": (0.85, 1.15),
        "norm": (0.8, 1.15),
        "elementwise": (0.9, 1.15),
        "pooling": (0.8, 1.3),
    },
    "gpt": {"gemm": (0.75, 1.1), "elementwise": (0.85, 1.15), "copy": (0.75, 1.35), "optimizer": (0.85, 1.2)},
    "llama": {"gemm": (0.75, 1.1), "elementwise": (0.85, 1.2), "copy": (0.8, 1.2)},
}


@pytest.fixture(scope="module", params=sorted(BOUNDS))
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Run]:
    folder = tmp_path_factory.mktemp("recorded")
    trace = RECORDED / f"h100_{request.param}.pt.trace.json.gz"
    return request.param, tt.ingest(trace, out=folder / "run.tracetool")


def test_each_familys_time_is_predicted_from_shapes(job: tuple[str, Run]) -> None:
    name, run = job
    rows = run.predict(anchor="none").rows(None)
    time = rows.filter(pl.col("measured_duration_us") > 0).group_by("family").agg(
        measured=(pl.col("launches") * pl.col("measured_duration_us")).sum(),
        predicted=(pl.col("launches") * pl.col("duration_us")).sum(),
    )  # fmt: skip
    found = {family: predicted / measured for family, measured, predicted in time.rows()}
    whole = time["measured"].sum()
    large = {family for family, measured, _ in time.rows() if measured > 0.04 * whole}
    assert large - {"attention", "softmax", "norm"} <= set(BOUNDS[name])
    for family, (low, high) in BOUNDS[name].items():
        assert low < found[family] < high, (family, found[family])
    assert 0.85 < time["predicted"].sum() / whole < 1.15


def test_an_h100_holds_its_clock_down_under_large_products(tmp_path: Path) -> None:
    """Loops recorded at the power limit, whose clock decides the time of large products."""
    loops = pl.read_csv(RECORDED / "h100_operators.csv").filter(
        (pl.col("op") == "gemm")
        & pl.col("dtype").is_in(["bf16", "fp16", "tf32"])
        & (pl.col("duration_us") > 150)
    )
    assert loops.height >= 8
    shapes = loops.select("op", "dtype", "batch", "m", "n", "k")
    shapes.write_csv(tmp_path / "products.csv")
    rows = tt.predict(tmp_path / "products.csv", gpu="h100-sxm", stack="torch").rows(None)
    time = (rows["duration_us"] / loops["duration_us"]).log()
    power = (rows["power_w"] / loops["power_w"]).log()
    assert abs(time.median()) < 0.08 and time.abs().max() < 0.2
    assert abs(power.median()) < 0.05
    assert rows["clock_actual_mhz"].max() < 1850.0
