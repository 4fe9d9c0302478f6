"""What a fit is made of, from numbers written down here: columns of power, priors, rows left out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.model.operators import rows_of
from tracetool.calibrate.joint import GpuRows, _differs, _floors
from tracetool.calibrate.law_fit import LawRows, fit_law
from tracetool.calibrate.measured_times import Timed, _usable
from tracetool.calibrate.power_file import _plain
from tracetool.calibrate.power_fit import PRIOR_SD, prior_sd
from tracetool.calibrate.power_rows import COEFFICIENTS, PowerRows, rows_of_sum
from tracetool.calibrate.power_sweep import SweepRows, fit_sweep, take
from tracetool.calibrate.tables import _idle
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import CORE_COUNTS
from tracetool.model.power_priors import prior_calibration
from tracetool.model.timing import time_rows

GPU = load_gpu("a100-sxm")
CURVE = VoltageCurve(0.8, 1000.0, 0.5, 0.0, 1.2, True)


def test_power_is_the_columns_of_a_row_times_their_coefficients() -> None:
    """At 1400 MHz 1 V: V^2 f is 1.4, and leakage has grown by e^(2 x 0.2)."""
    rates = np.zeros((1, len(CORE_COUNTS)))
    rates[0, 0] = 3e12
    rows = PowerRows(
        np.array([300.0]), np.array([1400.0]), rates, np.array([50.0]), np.array([1e12]), np.array([2e11]),
        np.array([0.9]), np.array(["k"], dtype=object),
    )  # fmt: skip
    column = dict(zip(COEFFICIENTS, rows.design(CURVE, 2.0)[0], strict=True))
    assert column["board_w"] == 1.0
    assert column["memory_w"] == 0.9
    assert column["leakage_w_per_v"] == pytest.approx(np.exp(0.4))
    assert column["clock_w_per_v2_ghz"] == pytest.approx(1.4)
    assert column[f"{CORE_COUNTS[0]}_pj"] == pytest.approx(3.0)
    assert column["active_pj_per_clock_sm"] == pytest.approx(50.0 * 1.4e9 * 1e-12)
    assert (column["dram_pj_per_byte"], column["link_pj_per_byte"]) == pytest.approx((1.0, 0.2))


def test_a_sequence_keeps_no_more_sms_busy_than_there_are() -> None:
    """Measured in twice the time that is predicted half are busy, in half of it all of them."""
    rows = rows_of("gemm", m=[4096], n=4096, k=4096)
    timing = time_rows(rows, GPU, np.array([1410.0, 1410.0]))
    took = 3.0 * timing.duration_s[0]
    seconds = took * np.array([2.0, 0.5])
    told = rows_of_sum(
        replace(timing, sm_active=np.ones_like(timing.sm_active)), rows, GPU, np.full(2, 1410.0),
        counts=np.array([3.0]), seconds=seconds,
    )  # fmt: skip
    assert told.active_sm == pytest.approx(np.array([0.5, 1.0]) * GPU.sm_count)
    assert told.dram_bytes_per_s[1] == pytest.approx(4.0 * told.dram_bytes_per_s[0])


def test_priors_of_the_base_are_a_tenth_of_idle_or_what_a_curve_left() -> None:
    values = np.full(len(COEFFICIENTS), 10.0)
    values[0] = 0.0
    spread = dict(zip(COEFFICIENTS, prior_sd(values, 80.0), strict=True))
    assert spread["board_w"] == pytest.approx(8.0)
    assert spread["memory_w"] == pytest.approx(max(8.0, 10.0 * PRIOR_SD["memory_w"]))
    assert spread["clock_w_per_v2_ghz"] == pytest.approx(10.0 * PRIOR_SD["clock_w_per_v2_ghz"])
    known = dict(zip(COEFFICIENTS, prior_sd(values, 80.0, known_base=True), strict=True))
    assert (known["board_w"], known["memory_w"]) == pytest.approx((0.05, 0.1))
    assert known["dram_pj_per_byte"] == spread["dram_pj_per_byte"]


def test_rows_of_a_sweep_are_taken_with_and_without_a_memory_clock() -> None:
    rows = SweepRows(
        np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0]), np.array(["a", "b"], object)
    )
    chosen = np.array([False, True])
    assert take(rows, chosen).memory_share is None
    one = take(replace(rows, memory_share=np.array([0.5, 0.75])), chosen)
    assert one.memory_share is not None
    assert (one.power_w.tolist(), one.group.tolist(), one.memory_share.tolist()) == ([2.0], ["b"], [0.75])


@pytest.mark.parametrize("nothing", [None, 0.0, float("nan")])
def test_an_idle_reading_far_above_later_ones_is_left_out(nothing: float | None) -> None:
    """75 W at 600 MHz above 52 W at 900; a clock without a reading says nothing of the others."""
    frame = pl.DataFrame(
        {"clock_mhz": [300.0, 600.0, 900.0, 1200.0, 1500.0], "idle_w": [50.0, 75.0, 52.0, nothing, 60.0]}
    )
    told = _idle("t", frame)
    assert told.sweep is not None
    assert told.sweep.clock_mhz.tolist() == [300.0, 900.0, 1500.0]
    assert told.rejected["clock_mhz"].to_list() == [600.0, 1200.0]


def test_text_in_a_calibration_file_is_plain() -> None:
    assert _plain('a "b"\\c\nd') == '"a  b  c d"'
    assert _plain(0.1) == "0.1"


def test_a_fitted_coefficient_differs_by_its_logarithm_another_by_its_value() -> None:
    law = laws()["decode"]
    fitted = next(name for name, one in law.priors.items() if one.fitted)
    assert not _differs(law, fitted, 1.0, 1.04, 0.05)
    assert _differs(law, fitted, 1.0, 1.06, 0.05)
    assert _differs(law, fitted, 0.0, 1.0, 0.05)
    assert not _differs(law, fitted, 0.0, 0.0, 0.05)


def test_the_host_s_floor_is_that_of_rows_that_hardly_take_longer() -> None:
    """The 2 % quantile of each GPU's times, the median over GPUs."""
    law: Any = next(one for one in laws().values() if any(name.startswith("floor") for name in one.priors))
    name = next(name for name in law.priors if name.startswith("floor"))
    low, high = law.priors[name].low, law.priors[name].high
    least = [low + share * (high - low) for share in (0.3, 0.5, 0.9)]
    hertz, one_row = np.ones((101, 1)), rows_of("gemm", m=[1])
    parts = [
        GpuRows(GPU, LawRows(one_row, us * 1e-6 * np.linspace(0.98, 1.98, 101), hertz, hertz[:, 0]))
        for us in least
    ]
    center = {key: one.value for key, one in law.priors.items()} | {name: low}
    assert _floors(law, parts, center)[name] == pytest.approx(least[1])
    assert _floors(law, parts, {**center, name: 0.99 * high})[name] == pytest.approx(0.99 * high)


def test_a_row_without_a_time_or_a_shape_is_not_fitted_to() -> None:
    rows = rows_of("gemm", m=[64, 64, np.nan, 64], n=64, k=64)
    timed = _usable(Timed(rows, np.array([0.0, 2e-3, 3e-3, np.nan]), np.full(4, 1410.0)))
    assert timed is not None
    assert timed.seconds.tolist() == [2e-3]
    assert _usable(Timed(rows, np.zeros(4), np.full(4, 1410.0))) is None


def test_a_sweep_with_idle_rows_beside_work_is_of_a_warm_chip() -> None:
    """Idle power grows with V^2 f; a kernel draws 100 W more at every clock."""
    clock = np.tile([600.0, 1000.0, 1400.0], 2)
    volt = CURVE.at(clock)
    power = 40.0 + 20.0 * volt**2 * clock / 1e3 + np.repeat([0.0, 100.0], 3)
    seconds = np.repeat([np.nan, 1e-3], 3)
    group = np.repeat(np.array(["(idle)", "k"], dtype=object), 3)
    prior = prior_calibration(GPU)
    told = fit_sweep(SweepRows(power, clock, seconds, group), prior, CURVE, fit_voltage=False)
    assert (told.loaded, told.kernels) == (True, 1)
    idle = fit_sweep(SweepRows(power[:3], clock[:3], seconds[:3], group[:3]), prior, CURVE, fit_voltage=False)
    assert (idle.loaded, idle.kernels) == (False, 0)


def test_errors_of_a_law_are_those_of_rows_its_fit_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three groups of two rows: each fit sees two of them, the last all three."""
    seen: list[set[int]] = []

    def fitted(_law: Any, data: LawRows, *_: Any) -> tuple[dict[str, float], dict[str, float]]:
        seen.append(set(data.group.tolist()))
        return {"seen": float(sum(2**g for g in seen[-1]))}, {}

    def missed(_law: Any, data: LawRows, _gpu: Any, values: dict[str, float]) -> Any:
        assert not any(int(values["seen"]) >> int(g) & 1 for g in data.group)
        return np.full(len(data.group), np.log(1.1))

    for name, replacement in (
        ("fit_coefficients", fitted),
        ("residuals", missed),
        ("choose", lambda *a: a[-1]),
    ):
        monkeypatch.setitem(fit_law.__globals__, name, replacement)
    law: Any = SimpleNamespace(priors={}, kinds=(), kind=lambda rows: np.zeros(len(rows), np.int64))
    rows = LawRows(rows_of("gemm", m=[64.0] * 6), np.ones(6), np.full((6, 1), 1e9), np.repeat([0, 1, 2], 2))
    fit = fit_law(law, rows, GPU, {})
    assert sorted(map(sorted, seen)) == [[0, 1], [0, 1, 2], [0, 2], [1, 2]]
    assert fit.mape_percent == pytest.approx(10.0)
