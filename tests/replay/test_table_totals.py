"""Intervals of sums: what errs apart averages out, what errs together does not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.interval import Z90
from tracetool.hardware.load import load_gpu
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.model.sequence import sequence_factors
from tracetool.replay.host import Launch
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict import predict_table
from tracetool.replay.table_totals import Spread, run_spread


def _spread(shapes: list[int], run_sd: float) -> tuple[Spread, float, float]:
    """Return the spread of products of these sizes, with their time and energy at one clock."""
    n = len(shapes)
    frame = pl.DataFrame(
        {"op": ["gemm"] * n, "dtype": ["bf16"] * n, "m": shapes, "n": [4096] * n, "k": [4096] * n}
    )
    made = predict_rows(read_table(frame).rows, load_gpu("a100-pcie-40gb"), np.array([1000.0]))
    time, energy = made.timing.duration_s.sum(), made.energy_j.sum()
    return run_spread(np.ones(n), made, run_sd), float(time), float(energy)


def test_one_kernel_errs_by_itself_and_with_its_run() -> None:
    made, time, _ = _spread([4096], 0.0)
    alone = np.log1p(made.time_s[1][0] / time)
    together, _, _ = _spread([4096], 0.1)
    wide = np.log1p(together.time_s[1][0] / time)
    assert wide == pytest.approx(np.hypot(alone, Z90 * 0.1), rel=1e-9)


def test_errors_apart_average_out_and_those_in_common_stay() -> None:
    shapes = list(range(4096, 4096 + 64 * 16, 64))
    widths = []
    for run_sd in (0.0, 0.1):
        made, time, _ = _spread(shapes, run_sd)
        widths.append(np.log1p(made.time_s[1][0] / time))
    one, time, _ = _spread(shapes[:1], 0.0)
    assert widths[0] == pytest.approx(np.log1p(one.time_s[1][0] / time) / 4.0, rel=0.2)
    assert widths[1] > Z90 * 0.1


def test_energy_errs_as_power_does_and_less_than_time() -> None:
    made, time, energy = _spread([2048, 4096, 8192], 0.05)
    power = Z90 * power_calibration_of(load_gpu("a100-pcie-40gb")).relative_sd
    for side, sign in ((0, -1.0), (1, 1.0)):
        of_time = abs(np.log1p(sign * made.time_s[side][0] / time))
        of_energy = abs(np.log1p(sign * made.energy_j[side][0] / energy))
        # Between a run of more work, which costs as its time, and one that waits, which costs the base.
        assert np.hypot(of_time / 2, power) < of_energy < np.hypot(of_time, power)


def test_a_run_of_operators_is_given_its_own_spread() -> None:
    layer = pl.DataFrame(
        {
            "op": ["attention", "gemm"],
            "dtype": ["bf16", "bf16"],
            "batch": [8, None],
            "q_len": [1024, None],
            "heads": [32, None],
            "head_dim": [128, None],
            "m": [None, 8192],
            "n": [None, 4096],
            "k": [None, 4096],
        }
    )
    total = predict_table(layer, "a100-pcie-40gb", [1000], launch="eager", fused_attention=False).totals[0]
    for stem, unit in (("makespan", "ms"), ("kernel_time", "ms"), ("energy", "j")):
        low, middle, high = (total[f"{stem}{end}_{unit}"] for end in ("_low", "", "_high"))
        assert low < middle < high
    power = Z90 * power_calibration_of(load_gpu("a100-pcie-40gb")).relative_sd
    assert np.log(total["energy_high_j"] / total["energy_j"]) > power


def test_on_the_board_of_the_factors_a_kernel_keeps_a_share_of_its_own_error() -> None:
    factors = sequence_factors()
    fitted, other = load_gpu(factors.fitted_on), load_gpu("h100-sxm")
    assert 0.0 <= factors.own_share_on(fitted) < 1.0
    assert factors.own_share_on(other) == 1.0


def _products(*rows: int) -> pl.DataFrame:
    n = len(rows)
    return pl.DataFrame(
        {"op": ["gemm"] * n, "dtype": ["bf16"] * n, "m": rows, "n": [8192] * n, "k": [8192] * n}
    )


@pytest.mark.parametrize(
    ("rows", "launch"), [((4096, 1, 8192), "graph"), ((1 << 15, 1 << 15), "eager"), ((8192,) * 10, "eager")]
)
def test_a_host_that_is_hidden_leaves_no_gaps(rows: tuple[int, ...], launch: Launch) -> None:
    total = predict_table(_products(*rows), "h100-sxm", [1500], launch=launch).totals[0]
    assert total["gap_ms"] == total["gap_energy_j"] == total["energy_parts_j"]["gaps"] == 0.0
    assert total["makespan_ms"] == pytest.approx(total["kernel_time_ms"], rel=1e-12)


def test_kernels_one_after_another_have_no_gaps_however_long_they_take() -> None:
    kernels = pl.DataFrame({"kernel": ["a", "b"], "duration_us": [100.0, 50.0], "clock_mhz": [1500.0] * 2})
    total = predict_table(kernels, "h100-sxm", [1200]).totals[0]
    assert total["kernel_time_high_ms"] > total["kernel_time_ms"]
    assert total["gap_high_ms"] == total["gap_energy_high_j"] == 0.0


def test_gaps_are_no_wider_where_kernels_may_take_longer() -> None:
    """The host hides behind the kernels: were they slower, it would the more."""
    total = predict_table(_products(8192, 8192), "h100-sxm", [1500], launch="eager").totals[0]
    kernels_longer_ms = total["kernel_time_high_ms"] - total["kernel_time_ms"]
    assert total["gap_low_ms"] <= total["gap_ms"] <= total["gap_high_ms"]
    assert total["gap_high_ms"] < total["gap_ms"] + 0.5 * kernels_longer_ms
