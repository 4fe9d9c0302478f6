"""A run's part of a campaign: true power of the GPU that ran the kernel, on a clock that may drift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.measure.jobs import job, sensor_log
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.measure.align import Alignment
from tracetool.measure.fingrav.campaign_runs import read_part
from tracetool.tables.run import Run

SAMPLES = Path(__file__).resolve().parents[3] / "sample_traces"


class _Logged(Run):
    """A run whose tables are those given."""

    def table(self, name: str, columns: object = None) -> pl.DataFrame:
        return self.info["tables_given"].get(name, super().table(name))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    folder = tmp_path_factory.mktemp("sample")
    log = SAMPLES / "h100_training_power.csv"
    return tt.ingest(SAMPLES / "h100_training.sqlite", power=log, out=folder / "run.tracetool")


def _with_log(sample: tt.Run, seed: int, gain: float, offset_w: float, device: int) -> tuple[_Logged, float]:
    """The sample's run with kernels and readings of an invented job for its own, and its mean power."""
    stored = Run.open(sample.path)
    made = job(seed, classes=1, seconds=25.0, mean_s=0.05, vary=0.0)
    time, power = sensor_log(made.steps, 2, seed, gain=gain, offset_w=offset_w)
    ns = 1_700_000_000_000_000_000
    kernel = stored.kernels.filter(pl.col("kind") == "kernel").head(1)
    start = np.round(made.start_s * 1e9).astype(np.int64) + ns
    length = np.round((made.end_s - made.start_s) * 1e9).astype(np.int64)
    kernels = pl.concat([kernel] * len(start)).with_columns(start_ns=start, duration_ns=length)
    reading = stored.telemetry.head(1).with_columns(
        field=pl.lit("power.draw.instant"), device=pl.lit(device, stored.telemetry.schema["device"])
    )
    stamps = np.round(time * 1e9).astype(np.int64) + ns
    telemetry = pl.concat([reading] * len(time)).with_columns(time_ns=stamps, power_w=power)
    given = {"kernels": kernels, "telemetry": telemetry}
    spent = made.energy_j.sum() / (made.end_s - made.start_s).sum()
    return _Logged(stored.path, {**stored.info, "tables_given": given}), float(spent)


def test_a_profile_shows_true_power_as_attribution_does(sample: tt.Run) -> None:
    sensor = load_gpu("rtx-3090", part="sensor").sensor("instant", None)
    assert abs(sensor.gain - 1.0) > 0.03
    run, true_w = _with_log(sample, 5, sensor.gain, sensor.offset_w, 0)
    name = run.signatures.join(run.kernels, on="signature", how="semi")["name"][0]
    part = read_part(run, name, "rtx-3090")
    high = part.samples.power_w["total"]
    assert float(np.quantile(high, 0.9)) == pytest.approx(true_w, rel=0.02)
    assert "gain" in part.note


def test_another_gpus_readings_are_no_profile(sample: tt.Run) -> None:
    run, _ = _with_log(sample, 6, 1.0, 0.0, 3)
    other = run.kernels.with_columns(device=pl.lit(1, run.kernels.schema["device"]))
    run.info["tables_given"]["kernels"] = pl.concat([run.kernels, other.head(1)])
    run.__dict__.pop("kernels", None)
    name = run.signatures.join(run.kernels, on="signature", how="semi")["name"][0]
    with pytest.raises(BadInput, match="no power readings of GPU 0"):
        read_part(run, name, "rtx-3090")


def test_a_timeline_is_moved_and_stretched() -> None:
    alignment = Alignment(0.5, 0.0, np.zeros(1), np.ones(1), drift=1e-3, pivot_s=10.0)
    assert alignment.moved(np.array([10.0, 20.0])) == pytest.approx([10.5, 20.51])
