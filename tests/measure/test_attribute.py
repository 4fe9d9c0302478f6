"""Attribution from files: tables and runs in, energies out, faults in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.api.ingest import ingest
from tracetool.cli.app import run as command
from tracetool.core.errors import BadInput
from tracetool.measure.attribute import attribute_activity, attribute_run
from tracetool.measure.identify_sensor import identify_sensor
from tracetool.tables.run import Run

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def run(sample_run: Path) -> Run:
    return Run.open(sample_run)


def test_kernels_of_the_sample_cost_what_the_board_drew(run: Run) -> None:
    truth = json.loads((SAMPLES / "truth.json").read_text("utf-8"))["h100_training.sqlite"]
    found = attribute_run(run)
    spent = found.energy.group_by("class").agg(pl.col("energy_j").sum(), pl.col("coverage").sum())
    by_name = {row["class"]: row for row in spent.iter_rows(named=True)}
    judged = 0
    for name, told in truth["kernels"].items():
        row = by_name.get(name)
        if row is None or row["coverage"] < 5 or not told["energy_j"]:
            continue
        judged += 1
        assert row["energy_j"] == pytest.approx(told["energy_j"], rel=0.12)
    assert judged >= 3
    kernels = found.energy.filter(~pl.col("class").is_in(["(active idle)", "(idle)"]))
    assert kernels["energy_j"].sum() == pytest.approx(truth["kernel_energy_j"], rel=0.05)


def test_the_energy_table_keeps_its_promises(run: Run) -> None:
    found = attribute_run(run).energy
    assert found.filter(pl.col("energy_low_j") > pl.col("energy_j")).height == 0
    assert found.filter(pl.col("energy_high_j") < pl.col("energy_j")).height == 0
    assert found.filter(~pl.col("identified") & pl.col("reason").is_null()).height == 0
    assert found["prior_share"].is_between(0, 1).all()
    assert {"(active idle)", "(idle)"} <= set(found["class"].to_list())


def test_a_prior_gives_the_second_control(run: Run) -> None:
    power = {int(s): 500.0 for s in run.signatures["signature"]}
    rows = attribute_run(run, prior=power).controls()
    assert rows
    assert all(row["model_share_j"] is not None for row in rows)
    total = sum(row["energy_j"] for row in rows)
    assert sum(row["time_share_j"] for row in rows) == pytest.approx(total)
    assert sum(row["model_share_j"] for row in rows) == pytest.approx(total)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    start = 1_700_000_000_000_000
    rows = ["timestamp, power.draw.instant [W]"]
    for i in range(400):
        on = (i // 40) % 2
        at = i * 25
        stamp = f"2023/11/14 22:13:{20 + at // 1000:02d}.{at % 1000:03d}"
        rows.append(f"{stamp}, {300.0 if on else 100.0:.2f} W")
    log = tmp_path / "smi.csv"
    log.write_text("\n".join(rows) + "\n")
    activity = tmp_path / "activity.csv"
    spans = [(start + (2 * k + 1) * 1_000_000, start + (2 * k + 2) * 1_000_000) for k in range(4)]
    activity.write_text("name,start_us,end_us\n" + "".join(f"load,{a},{b}\n" for a, b in spans))
    windows = tmp_path / "windows.csv"
    windows.write_text(f"start_us,end_us\n{start + 3_000_000},{start + 5_000_000}\n")
    return {"log": log, "activity": activity, "windows": windows}


def test_windows_of_an_activity_table(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "windows.parquet"
    code = command(
        ["attribute", str(files["activity"]), "--power", str(files["log"]), "--tz", "+00:00",
         "--gpu", "titan-rtx", "--windows", str(files["windows"]), "-o", str(out), "-q"]
    )  # fmt: skip
    assert code == 0
    row = pl.read_parquet(out).row(0, named=True)
    assert row["energy_j"] == pytest.approx(400.0, rel=0.06)
    assert row["energy_low_j"] < 400.0 < row["energy_high_j"]


def test_a_log_of_nothing_but_zeros_is_refused(files: dict[str, Path]) -> None:
    rows = files["log"].read_text().replace("300.00", "0.00").replace("100.00", "0.00")
    files["log"].write_text(rows)
    with pytest.raises(BadInput, match="never rises above 0 W"):
        attribute_activity(files["activity"], power=[files["log"]], tz="+00:00")


def test_two_counters_in_one_column_are_refused(files: dict[str, Path]) -> None:
    first_s = float(pl.read_csv(files["activity"])["start_us"].min()) * 1e-6 - 1.0  # type: ignore[arg-type]
    counters = [f"{first_s + 0.1 * i:.3f},{20.0 * i + 1e6 * (i % 2)}" for i in range(100)]
    files["log"].write_text("\n".join(["time,energy_j", *counters]) + "\n")
    with pytest.raises(BadInput, match=r"has no power, and the energy counter went backwards 49 times"):
        attribute_activity(files["activity"], power=[files["log"]], tz="+00:00", gpu="titan-rtx")


def test_a_steady_log_tells_no_delay(files: dict[str, Path]) -> None:
    files["log"].write_text(files["log"].read_text().replace("300.00", "100.00"))
    row = identify_sensor(files["activity"], power=[files["log"]], tz="+00:00")[0].row()
    assert row["kind"] is None
    assert row["offset_ms"] is None
    assert row["offset_low_ms"] is None
    assert "hardly follow" in row["note"]


def test_a_wrong_zone_is_said_with_the_right_one(files: dict[str, Path]) -> None:
    with pytest.raises(BadInput, match="do not overlap") as caught:
        attribute_activity(files["activity"], power=[files["log"]], tz="+05:00", gpu="titan-rtx")
    assert "5 h less" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("name,start_us,end_us\n", "no rows"),
        ("name,start_us\nx,1\n", "missing column end_us"),
        ("name,start_us,end_us\nx,5,4\n", "line 2"),
        ("name,start_us,end_us\nx,nan,4\n", "line 2"),
        ("name,start_us,end_us\nx,1,99999999999999999999999\n", "line 2"),
    ],
)
def test_bad_activity_is_one_line(files: dict[str, Path], tmp_path: Path, text: str, said: str) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(text)
    with pytest.raises(BadInput, match=said):
        attribute_activity(bad, power=[files["log"]], tz="+00:00")


def test_bytes_that_are_no_table_end_in_one_line(files: dict[str, Path], tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    for i in range(8):
        bad = tmp_path / f"bad{i}.csv"
        bad.write_bytes(bytes(chance.integers(0, 256, 400, dtype=np.uint8)))
        with pytest.raises(BadInput):
            attribute_activity(bad, power=[files["log"]], tz="+00:00")
        with pytest.raises(BadInput):
            attribute_activity(files["activity"], power=[bad], tz="+00:00")


def test_a_run_without_readings_says_what_to_do(tmp_path: Path) -> None:
    made = ingest(
        [SAMPLES / "mi300x_kernel_trace.csv"], [], tz=None, gpu="mi300x", out=tmp_path / "amd.tracetool"
    ).path
    with pytest.raises(BadInput, match="no power readings"):
        attribute_run(made)
    with pytest.raises(BadInput, match="no power readings") as refused:
        tt.attribute(made)
    assert refused.value.fix == "give a log: --power LOG; predicted energies: --by signature"
    assert tt.energy_by(made, ["signature"]).groups.height  # it does


def test_a_sensor_file_is_used_and_a_broken_one_refused(files: dict[str, Path], tmp_path: Path) -> None:
    calibration = tmp_path / "sensor.toml"
    calibration.write_text("[sensor]\ngain = 0.5\ngain_sd = 0.001\noffset_w = 0.0\n")
    common = {"power": [files["log"]], "tz": "+00:00", "gpu": "titan-rtx", "windows": files["windows"]}
    plain = attribute_activity(files["activity"], **common)  # type: ignore[arg-type]
    halved = attribute_activity(files["activity"], sensor_file=calibration, **common)  # type: ignore[arg-type]
    assert plain.windows is not None
    assert halved.windows is not None
    assert halved.windows["energy_j"][0] == pytest.approx(2 * plain.windows["energy_j"][0], rel=1e-6)
    calibration.write_text("[sensor]\ngain = -1\n")
    with pytest.raises(BadInput, match="positive"):
        attribute_activity(files["activity"], sensor_file=calibration, **common)  # type: ignore[arg-type]
