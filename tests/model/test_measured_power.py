"""The power model against measured tables: kernels and programs over clocks, idle curves, unit utilizations.

Coefficients were fitted to some of these rows, so these bounds guard the model; errors on rows held out are
printed by ``benchmarks/fit_power.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.model.gpu_data import texts
from tracetool.calibrate.power_validation import held_out
from tracetool.calibrate.tables import read_measured
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.model.idle import idle_power_w
from tracetool.model.power_files import believed_calibration, power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.replay.operator_tables import read_table
from tracetool.sources.telemetry.logs import read_telemetry

pytestmark = pytest.mark.data
ACTIVITY = ("act_sm", "act_dram", "act_tensor", "act_fp16", "act_fp32", "act_fp64")


def anchored_errors(frame: pl.DataFrame, gpu: str, anchors: tuple[float, ...]) -> tuple[float, float]:
    """Mean absolute errors of time and energy at every clock, from measurements at some of them."""
    frame = frame.with_columns(pl.col(pl.Float64).fill_null(0.0))
    clocks = frame["clock_mhz"].unique().sort().to_numpy().astype(np.float64)
    time, energy = [], []
    chosen, groups = [], []
    for (_,), group in frame.group_by(["kernel"], maintain_order=True):
        rows = [int((group["clock_mhz"] - a).abs().arg_min() or 0) for a in anchors]
        chosen.append(group[rows])
        groups.append(group)
    known = pl.concat(chosen)
    columns = {
        "name": known["kernel"].to_numpy().astype(object),
        "duration_us": known["time_s"].to_numpy() * 1e6,
        "recorded_clock_mhz": known["clock_mhz"].cast(pl.Float64).to_numpy(),
        "power_w": known["power_w"].to_numpy(),
        **{c: known[c].to_numpy() for c in ACTIVITY},
    }
    rows = OperatorColumns(texts(*["unknown"] * known.height), columns)
    made = predict_rows(rows, load_gpu(gpu), clocks, anchor=True)
    for place, group in enumerate(groups):
        row = place * len(anchors)
        at = np.searchsorted(clocks, group["clock_mhz"].to_numpy())
        time.append(np.abs(made.timing.duration_s[row, at] / group["time_s"].to_numpy() - 1))
        energy.append(np.abs(made.energy_j[row, at] / (group["time_s"] * group["power_w"]).to_numpy() - 1))
    return 100 * float(np.concatenate(time).mean()), 100 * float(np.concatenate(energy).mean())


@pytest.mark.parametrize(
    ("table", "gpu"),
    [
        ("a100_programs_activity", "a100-sxm"),
        ("v100_applications_activity", "v100-pcie"),
        ("v100_microbenchmarks_activity", "v100-pcie"),
    ],
)
@pytest.mark.parametrize(
    ("anchors", "time", "energy"),
    [((9999.0,), 8.0, 8.0), ((1100.0,), 8.0, 8.0), ((500.0,), 12.0, 11.0), ((700.0, 1250.0), 3.0, 3.0)],
)
def test_monitored_kernels_at_other_clocks(
    data: Path, table: str, gpu: str, anchors: tuple[float, ...], time: float, energy: float
) -> None:
    errors = anchored_errors(pl.read_parquet(data / f"dvfs/{table}.parquet"), gpu, anchors)
    assert errors[0] <= time
    assert errors[1] <= energy


def test_idle_curve_of_the_a100(data: Path) -> None:
    curve = pl.read_csv(data / "dvfs/a100_voltage_idle.csv")
    gpu = load_gpu("a100-pcie-40gb")
    made = idle_power_w(gpu, curve["clock_mhz"].to_numpy(), power_calibration_of(gpu))
    assert np.sqrt(np.mean((made - curve["idle_w"].to_numpy()) ** 2)) <= 0.5


def test_unit_utilizations_over_two_clock_domains(data: Path) -> None:
    gpu = load_gpu("gtx-titan-x")
    measured = read_measured(data / "dvfs/titanx_microbenchmarks.parquet", gpu)
    prior = believed_calibration(gpu).monitored
    assert measured.power is not None
    assert prior is not None
    assert 100 * held_out(measured.power, prior, gpu.voltage).mape <= 7.0


def test_a_product_under_the_cap_settles_where_the_log_shows_it(data: Path) -> None:
    """Nothing was fitted on this GPU: energies come from an A100, base and voltage from an H100."""
    gpu = load_gpu("h800-sxm")
    log = read_telemetry(
        data / "telemetry/cuda_test__power_data_h800_700w_sxm_dvfs_random_gemm_bf16.csv", "UTC"
    )
    held = log.filter(pl.col("power_w") >= 0.97 * gpu.power_limit_w)
    assert held.height > 20
    question = pl.DataFrame({"op": ["gemm"], "dtype": ["bf16"], "m": [8192], "n": [8192], "k": [8192]})
    made = predict_rows(read_table(question).rows, gpu, np.array([gpu.clock_max_mhz]))
    assert made.throttled.all()
    assert abs(made.clock_mhz[0, 0] - held["clock_mhz"].median()) <= 60.0
    assert abs(made.power_w[0, 0] / held["power_w"].median() - 1.0) <= 0.06


@pytest.mark.parametrize("pair", [(2000, 5500), (1600, 4000)])
def test_kernels_over_two_clock_domains_from_one_pair(data: Path, pair: tuple[int, int]) -> None:
    frame = pl.read_parquet(data / "dvfs/gtx1080ti_two_domains.parquet")
    one = frame.filter((pl.col("clock_mhz") == pair[0]) & (pl.col("mem_clock_mhz") == pair[1]))
    rows = read_table(
        one.select(
            "kernel", "clock_mhz", "mem_clock_mhz", "power_w", (pl.col("time_s") * 1e6).alias("duration_us")
        )
    ).rows
    clocks = frame["clock_mhz"].unique().sort().to_numpy().astype(np.float64)
    time, power = [], []
    for (memory,), there in frame.group_by(["mem_clock_mhz"]):
        made = predict_rows(
            rows, load_gpu("gtx-1080-ti"), clocks, mem_clock_mhz=float(str(memory)), anchor=True
        )
        place = [one["kernel"].to_list().index(k) for k in there["kernel"]]
        at = np.searchsorted(clocks, there["clock_mhz"].to_numpy())
        time.append(np.abs(made.timing.duration_s[place, at] / there["time_s"].to_numpy() - 1))
        power.append(np.abs(made.power_w[place, at] / there["power_w"].to_numpy() - 1))
    assert 100 * np.concatenate(time).mean() <= 4.7
    assert 100 * np.concatenate(power).mean() <= 3.0


def test_the_fastest_products_of_a_board_lie_within_its_limit(data: Path) -> None:
    """A row bounds power without a meter: at the clock it proves, the GPU held its limit."""
    gpu = load_gpu("a100-sxm")
    frame = pl.read_parquet(data / "ops/a100-sxm_vllm_gemm.parquet").with_columns(
        tflops=2.0 * pl.col("m") * pl.col("n") * pl.col("k") / pl.col("measured_us") / 1e6
    )
    fastest = frame.top_k(5, by="tflops")
    rows = read_table(fastest.select("op", "dtype", "m", "n", "k")).rows
    made = predict_rows(rows, gpu, np.array([gpu.clock_boost_mhz]))
    peak = gpu.peak_flops("tensor_bf16", 1.0) / 1e12
    assert (made.clock_mhz[:, 0] * peak >= 0.95 * fastest["tflops"].max()).all()  # type: ignore[operator]


def test_what_a_board_sustains_is_its_own() -> None:
    held, source = (
        power_calibration_of(load_gpu("a100-sxm")),
        power_calibration_of(load_gpu("a100-pcie-40gb")),
    )
    assert held.basis == "transferred"
    assert held.core_pj["tensor_fp16"] < source.core_pj["tensor_fp16"]
    assert believed_calibration(load_gpu("h100-pcie")).carried_from == "a100-pcie-40gb"
