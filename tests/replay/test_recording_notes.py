"""What a recording leaves uncertain enters the intervals: an unstated clock, a coarse timer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.api.ingest import ingest
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.replay.predict_run import predict_run
from tracetool.replay.recording_conditions import device_notes, with_timer_error
from tracetool.replay.run_rows import run_rows
from tracetool.tables.run import Run


@pytest.fixture(scope="module")
def run(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the sample generation trace as a run: no clock readings."""
    out = tmp_path_factory.mktemp("run") / "a100.tracetool"
    return Run.open(ingest([samples / "a100_generation.pt.trace.json.gz"], [], tz=None, gpu=None, out=out))


def _with(run: Run, **tables: pl.DataFrame) -> Run:
    """Return the run with other tables in place of its own."""

    class Changed(Run):
        def table(self, name: str, columns: object = None) -> pl.DataFrame:
            found = tables.get(name)
            return super().table(name, columns) if found is None else found  # type: ignore[arg-type]

    return Changed(run.path, run.info)


def _rows(family: str, columns: dict[str, float], low_mhz: float) -> OperatorColumns:
    gpu = load_gpu("a100-sxm")
    numbers = columns | {"recorded_clock_mhz": gpu.clock_boost_mhz, "recorded_clock_low_mhz": low_mhz}
    texts = {"dtype": "bf16", "shape_source": "operator"}
    return OperatorColumns(
        np.array([family], dtype=object),
        {k: np.array([v]) for k, v in numbers.items()}
        | {k: np.array([v], dtype=object) for k, v in texts.items()},
    )


@pytest.mark.parametrize(
    ("family", "columns", "follows_clock"),
    [
        # 5.87 ms at 0.6 of the boost clock at the peak rate: it may have run there
        ("gemm", {"m": 8192, "n": 8192, "k": 8192, "batch": 1, "duration_us": 6500.0}, True),
        ("memcpy", {"bytes": 1e9, "duration_us": 40000.0}, False),
    ],
)
def test_an_unstated_clock_widens_what_follows_the_clock(
    family: str, columns: dict[str, float], follows_clock: bool
) -> None:
    gpu = load_gpu("a100-sxm")
    clock = np.array([gpu.clock_boost_mhz])
    base = 0.6 * gpu.clock_boost_mhz
    stated = predict_rows(
        _rows(family, columns, gpu.clock_boost_mhz), gpu, clock, anchor=True, power_cap_w=1e4
    )
    open_ = predict_rows(_rows(family, columns, base), gpu, clock, anchor=True, power_cap_w=1e4)
    assert open_.timing.duration_s[0, 0] == stated.timing.duration_s[0, 0]
    assert open_.timing.high[0, 0] == pytest.approx(stated.timing.high[0, 0])
    if not follows_clock:
        assert open_.timing.low[0, 0] == pytest.approx(stated.timing.low[0, 0], rel=0.02)
        return
    # a kernel bound by its clock that ran at the low one takes base / boost of the time here
    assert open_.timing.low[0, 0] < 0.65
    assert open_.energy_low_j[0, 0] < stated.energy_low_j[0, 0]
    assert open_.power_high_w[0, 0] > stated.power_high_w[0, 0]


def test_a_run_without_clock_readings_says_so_and_widens_its_makespan(run: Run) -> None:
    made = predict_run(run)
    gpu = load_gpu("a100-sxm")
    assert any(f"the intervals allow for {gpu.clock_base_mhz:.4g} MHz" in note for note in made.notes), (
        made.notes
    )
    kernels = pl.read_parquet(run.path / "kernels.parquet")
    start, end = kernels["start_ns"].min(), (kernels["start_ns"] + kernels["duration_ns"]).max()
    names = ("time_ns", "device", "clock_mhz", "utilization")
    readings = pl.DataFrame([(start, 0, 1410.0, 1.0), (end, 0, 1410.0, 1.0)], schema=names, orient="row")
    logged = predict_run(_with(run, telemetry=run.telemetry.clear().vstack(_conform(run, readings))))
    assert logged.totals[0]["makespan_ms"] == pytest.approx(made.totals[0]["makespan_ms"], rel=0.02)
    assert made.totals[0]["kernel_time_low_ms"] < logged.totals[0]["kernel_time_low_ms"]
    assert made.totals[0]["energy_low_j"] < logged.totals[0]["energy_low_j"]
    assert not any("the intervals allow for" in note for note in logged.notes)


def _conform(run: Run, readings: pl.DataFrame) -> pl.DataFrame:
    empty = run.telemetry.clear()
    absent = [pl.lit(None).cast(t).alias(c) for c, t in empty.schema.items() if c not in readings.columns]
    return readings.with_columns(*absent).select(pl.col(c).cast(t) for c, t in empty.schema.items())


def _timed(durations_ns: list[int], step_ns: int = 1000) -> pl.DataFrame:
    n = len(durations_ns)
    return pl.DataFrame(
        {
            "start_ns": np.arange(n) * 100 * step_ns + 7,  # the run's clock may be shifted by anything
            "duration_ns": durations_ns,
            "device": np.zeros(n, np.int32),
            "process": np.full(n, 5),
            "signature": np.zeros(n, np.int64),
        }
    )


def _signature() -> OperatorColumns:
    return OperatorColumns(np.array(["gemm"], dtype=object), {"signature": np.zeros(1)})


def test_whole_microseconds_enter_as_an_error_that_only_varied_launches_average_out(run: Run) -> None:
    def error_us(durations_ns: list[int]) -> float:
        rows, notes = with_timer_error(_with(run, kernels=_timed(durations_ns)), _signature())
        assert notes, durations_ns
        return float(rows.number("duration_sd_us")[0])

    even = 1 / np.sqrt(12)  # of an error spread over one step
    alike, varied = [3000] * 100, [3000, 5000, 4000, 2000] * 25
    assert error_us(alike) == pytest.approx(even)
    assert error_us(varied) == pytest.approx(even / np.sqrt(len(varied)))
    assert error_us(varied) < error_us([*alike[:95], *varied[:5]]) < error_us(alike)


def test_a_finer_timer_adds_no_error(run: Run) -> None:
    fine = _timed([3008, 2976, 3040, 3000, 3008])
    rows, notes = with_timer_error(_with(run, kernels=fine), _signature())
    assert notes == []
    assert "duration_sd_us" not in rows.columns


def test_a_timer_s_error_widens_short_kernels(run: Run) -> None:
    gpu = load_gpu("a100-sxm")
    _, rows = run_rows(run, gpu)
    rows = replace(rows, columns={**rows.columns, "recorded_clock_mhz": np.full(len(rows), 1410.0)})
    coarse = replace(rows, columns={**rows.columns, "duration_sd_us": np.full(len(rows), 0.3)})
    exact, wide = (predict_rows(r, gpu, np.array([1410.0]), anchor=True).timing for r in (rows, coarse))
    assert (wide.low < exact.low).all() and (wide.high > exact.high).all()
    added = np.log(wide.high) - np.log(exact.high)
    short, long = np.argmin(rows.number("duration_us")), np.argmax(rows.number("duration_us"))
    assert added[short] > added[long]


def test_a_slice_of_a_gpu_is_named(run: Run) -> None:
    a30 = load_gpu("a30")
    devices = run.devices.with_columns(
        pl.lit("NVIDIA A30 MIG 2g.12gb").alias("name"),
        pl.lit(12_549_357_568).alias("memory_bytes"),
        pl.lit(28).cast(pl.Int32).alias("sm_count"),
    )
    notes = device_notes(_with(run, devices=devices), a30)
    assert len(notes) == 1 and "28 SMs" in notes[0] and "11.69 GiB" in notes[0]
    whole = devices.with_columns(
        pl.lit(25_278_087_168).alias("memory_bytes"), pl.lit(a30.sm_count).cast(pl.Int32).alias("sm_count")
    )
    assert device_notes(_with(run, devices=whole), a30) == []
