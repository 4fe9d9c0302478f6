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


#: Median of predicted over measured power, less one, of each operator's loops: how far off the model is.
POWER_BIAS = {
    "attention": (-0.05, 0.05),
    "conv2d": (-0.05, 0.05),
    "gemm": (-0.06, 0.03),
    "softmax": (-0.05, 0.08),
    "elementwise": (-0.12, 0.0),
    "norm": (-0.15, 0.0),
}


def test_recorded_loops_are_as_far_off_as_the_pages_say(tmp_path: Path) -> None:
    """All loops whose operator a table can state: errors by operator, and what the intervals hold."""
    loops = pl.read_csv(RECORDED / "h100_operators.csv", infer_schema_length=None)
    assert loops.height == 77
    loops = loops.filter(~pl.col("op").is_in(["reduction", "gather_scatter"]))
    asked = loops.drop("name", "duration_us", "power_w", "clock_mhz", "temperature_c")
    asked.write_csv(tmp_path / "loops.csv")
    rows = tt.predict(tmp_path / "loops.csv", gpu="h100-sxm", stack="torch").rows(None)
    assert rows["op"].to_list() == loops["op"].to_list()
    watts, us = loops["power_w"], loops["duration_us"]
    power = rows["power_w"] / watts - 1.0
    time = rows["duration_us"] / us - 1.0
    assert set(POWER_BIAS) == set(loops["op"])
    for op, (low, high) in POWER_BIAS.items():
        assert low < power.filter(loops["op"] == op).median() < high, op
    assert power.abs().median() < 0.06 and time.abs().median() < 0.06
    assert us.is_between(rows["duration_low_us"], rows["duration_high_us"]).mean() > 0.8
    held = watts.is_between(rows["power_low_w"], rows["power_high_w"])
    assert held.mean() > 0.93
    # two loops of small norms, which a slow host may have held up, drew less
    assert set(loops.filter(~held)["kind"]) <= {"rms_norm", "layer_norm"}
    assert (watts < rows["power_low_w"]).filter(~held).all()
