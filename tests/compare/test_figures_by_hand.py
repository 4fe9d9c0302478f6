"""Figures of comparisons from a few numbers: curves, factors, spreads and what could be found at all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tracetool.compare.accuracy_sums import ratio, transfer_ms
from tracetool.compare.baseline_store import _path_segment
from tracetool.compare.changes import DiffRequest, compare_sides
from tracetool.compare.decomposition import Pairs, decompose
from tracetool.compare.diff import _ratios
from tracetool.compare.energy_difference import sentences
from tracetool.compare.energy_difference.pairs import matched_pairs
from tracetool.compare.energy_difference.sentences import LEAST_SHARE
from tracetool.compare.matched import CAUSES, _names
from tracetool.compare.outcome import DEFAULT_LIMIT
from tracetool.compare.run_options import Basis, RunOptions
from tracetool.compare.run_side import _gap_totals, load_run
from tracetool.compare.run_tables.batch_curve import _row, curve_energy, left_out_errors
from tracetool.compare.run_tables.contrasts import leading_factor
from tracetool.compare.run_tables.factors import FACTORS, log_factors
from tracetool.compare.run_tables.findings import idle_statement
from tracetool.compare.run_tables.latent import _peak
from tracetool.compare.significance import Criteria, Effects, detectable
from tracetool.compare.spread import Spread, learned, moderate
from tracetool.compare.thresholds import Threshold
from tracetool.hardware.load import load_gpu

NONE = np.zeros(1)


def test_a_curves_row_says_what_its_parts_give() -> None:
    """8 / B + 2 / sqrt(B) + 1 at batches of 1, 4, 16 and 64: 11, 4, 2 and 1.375 J."""
    batch, parts = np.array([1.0, 4.0, 16.0, 64.0]), np.array([8.0, 2.0, 1.0])
    energy = curve_energy(parts, batch)
    assert energy.tolist() == [11.0, 4.0, 2.0, 1.375]
    left = np.array([0.1, -0.2, 0.02, -0.05])
    row: dict[str, Any] = _row(("t", "m", "g", 1, "p", "q", "token"), batch, energy, parts, left, np.log(1.5))
    assert (row["batches"], row["smallest_batch"], row["largest_batch"]) == (4, 1.0, 64.0)
    assert (row["per_step_j"], row["partly_shared_j"], row["per_unit_j"]) == (8.0, 2.0, 1.0)
    assert row["shared_pct"] == pytest.approx(100.0 * 0.375 / 1.375)
    assert (row["least_batch"], row["least_j"], row["good_batch"], row["fold"]) == (64.0, 1.375, 64.0, 8.0)
    doubled = 8.0 / 128.0 + 2.0 / 128.0**0.5 + 1.0
    ends = (row["next_batch_j"], row["next_batch_j_low"], row["next_batch_j_high"])
    assert ends == pytest.approx((doubled, doubled / 1.5, doubled * 1.5))
    # |1 - e^-x| of the four: 9.52, 22.14, 1.98 and 5.13 %
    assert row["left_out_error_pct"] == pytest.approx((9.516258 + 5.127110) / 2.0)


def test_a_batch_left_out_of_an_exact_curve_is_met() -> None:
    batch = np.array([1.0, 2.0, 8.0, 32.0, 128.0])
    assert left_out_errors(batch, 5.0 / batch + 0.25) == pytest.approx(np.zeros(5), abs=1e-9)


@pytest.mark.parametrize(("idle_pct", "fold"), [(30.0, 1.0 / 0.7), (99.8, 100.0)])
def test_static_power_ranks_by_what_is_left(idle_pct: float, fold: float) -> None:
    rows = {"idle_pct": [10.0, idle_pct], "batch": [4.0, 1.0], "gpus": [1.0, 8.0], "model": ["a", "b"],
            "gpu": ["x", "y"], "row": [3, 7]}  # fmt: skip
    (statement,) = idle_statement(pl.DataFrame(rows))
    assert statement.fold == pytest.approx(fold)
    assert statement.rows == (7,)
    assert statement.figures["idle_pct"] == pytest.approx((10.0 + idle_pct) / 2.0)
    assert "8xy" in statement.text


def test_what_would_be_found_four_times_in_five() -> None:
    """Student's point at 95 % and the normal one at 80 %, times the error; none without freedom."""
    freedom = np.array([4.0, 30.0, 1e9, 0.0])
    error = np.array([0.01, 0.02, 0.02, 0.02])
    found = detectable(
        Effects(
            NONE, np.zeros(4), NONE, NONE, NONE, error, freedom, np.array([1.0, 5.0, 1.0, 1.0]), "measured"
        ),
        0.03,
    )
    points = [stats.t.ppf(0.95, 4.0), stats.t.ppf(0.99, 30.0), 1.644854]
    expected = [1.03 * np.exp((at + 0.841621) * sd) - 1.0 for at, sd in zip(points, error, strict=False)]
    assert found[:3] == pytest.approx(expected, rel=1e-5)
    assert np.isnan(found[3])


def test_families_that_no_run_has_tell_nothing_of_the_spread() -> None:
    """Three runs of one family, 1, 2 and 4: with a family of nothing beside it the same."""
    base, head = np.array([[1.0], [2.0], [4.0]]), np.array([[2.0], [2.0], [2.0]])
    nothing = np.zeros((3, 1))
    known = Spread(0.5, 4.0, "known")
    alone = learned(base, head, known)
    beside = learned(np.hstack([base, nothing]), np.hstack([head, nothing]), known)
    assert (beside.relative, beside.runs) == pytest.approx((alone.relative, alone.runs))
    # logarithms of base spread by ln 2 about ln 2: 2 ln(2)^2 of four degrees of freedom
    variance = np.log(1.5) ** 2
    own = 2.0 * np.log(2.0) ** 2 / 4.0
    assert alone.relative == pytest.approx(np.expm1(((4.0 * variance + 4.0 * own) / 8.0) ** 0.5))
    assert alone.runs == 8.0


def test_names_of_a_group_are_its_weightiest() -> None:
    rows = pl.DataFrame(
        {"name": ["b", "a", "", "c", "a", "d", "e"], "j": [5.0, 9.0, 20.0, 4.0, 1.0, 3.0, 2.0]}
    )
    told = rows.select(
        one=_names("name", "j", 1), two=_names("name", "j", 2), five=_names("name", "j", 5)
    ).row(0)
    assert told == ("a", "a + b + 3 more", "a + b + c + d + e")


def test_the_peak_of_an_a100_is_its_makers() -> None:
    assert _peak(load_gpu("a100-sxm")) == pytest.approx(312e12, rel=1e-3)


def test_factors_of_a_request_without_a_length() -> None:
    """An image of 600 J in 50 steps by GPUs of 300 W each: 2 s of a GPU, 40 ms a step."""
    rows = pl.DataFrame(
        {"units_per_request": [None], "steps": [50.0], "pixels": [None], "active_billions": [None],
         "energy_j": [600.0], "power_w": [600.0], "gpus": [2.0]},
        schema_overrides=dict.fromkeys(("units_per_request", "pixels", "active_billions"), pl.Float64),
    )  # fmt: skip
    for stated in (None, rows):
        factors = log_factors(rows, stated).row(0, named=True)
        assert set(factors) == set(FACTORS)
        assert factors["power per GPU"] == pytest.approx(np.log(300.0))
        assert factors["denoising steps"] == pytest.approx(np.log(50.0))
        assert factors["output length"] == factors["pixels"] == factors["active parameters"] == 0.0
        assert factors["GPU time"] == pytest.approx(np.log(0.04))


def test_a_prior_that_the_runs_refute_is_dropped() -> None:
    """Logarithms that spread by 0.35 where 0.001 was known: what is learned are the runs' own alone."""
    base, head = np.array([[1.0], [2.0], [4.0]]), np.array([[2.0], [2.0], [2.0]])
    found = learned(base, head, Spread(0.001, 4.0, "known"))
    assert found.relative == pytest.approx(np.expm1((2.0 * np.log(2.0) ** 2 / 4.0) ** 0.5))
    assert (found.runs, found.source) == (4.0, "the spread of all families")


def test_work_whose_time_is_not_known_takes_longer_and_draws_no_more() -> None:
    """50 J more without a time on one side; 20 J more of work that only head has."""
    one = np.ones(2)
    pairs = Pairs(
        np.array([1.0, 0.0]), one, np.array([0.0, 0.0]), np.array([2.0, 1.0]), np.array([100.0, 0.0]),
        np.array([150.0, 20.0]), one, one, one,
    )  # fmt: skip
    causes = {name: values.tolist() for name, values in decompose(pairs).items()}
    assert causes.pop("longer duration") == [50.0, 0.0]
    assert causes.pop("more work") == [0.0, 20.0]
    assert all(values == [0.0, 0.0] for values in causes.values())


def test_time_of_collectives_is_without_their_waiting() -> None:
    rows = pl.DataFrame({"time_ms": [10.0, 4.0], "waiting_ms": [3.0, None]})
    assert rows.select(transfer_ms()).to_series().to_list() == [7.0, 4.0]


def test_a_run_without_gaps_has_none() -> None:
    predicted: Any = SimpleNamespace(totals=[{"makespan_ms": 5.0}], info={"recorded_makespan_ms": 7.0})
    assert _gap_totals(predicted, recorded=False) == (0.0, 0.0, 0.005)
    assert _gap_totals(predicted, recorded=True) == (0.0, 0.0, 0.007)
    predicted.totals[0] |= {"gap_ms": 2.0, "gap_energy_j": 0.3}
    assert _gap_totals(predicted, recorded=True) == (0.002, 0.3, 0.007)


def test_names_of_branches_are_parts_of_a_path() -> None:
    assert [_path_segment(text) for text in (".", "..", "a/b", "v1.0", "")] == [
        "%2E",
        "%2E%2E",
        "a%2Fb",
        "v1.0",
        "none",
    ]


def test_causes_of_a_change_are_those_that_take_a_share_of_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "_cause", lambda _, row: row["cause"])
    least = 200.0 * LEAST_SHARE
    change = [3.0 * least, -1.1 * least, 0.9 * least, 5.0 * least]
    totals = pl.DataFrame({"cause": ["work", "power", "idle", "run"], "change_j": change})
    of: Any = SimpleNamespace(base=SimpleNamespace(energy_j=200.0), totals=totals)
    assert sentences.causes_of_change(of) == ["work", "power"]


def test_a_pair_adds_up_what_is_known_of_all_its_classes() -> None:
    """Two classes of one call in the base: 3 GFLOP are not the pair's where the other's are not known."""
    texts = {c: ["x"] * 2 for c in ("operator", "shapes", "name", "geometry", "module", "family")}
    numbers = {c: [1.0, 2.0] for c in ("launches", "calls", "time_s", "roof_s", "roof_there_s")}
    base = pl.DataFrame(
        {
            **texts,
            **numbers,
            "energy_j": [6.0, 2.0],
            "sd": [0.1, 0.3],
            "flops": [3e9, None],
            "dram_bytes": [1e6, 3e6],
        }
    )
    sides: Any = [SimpleNamespace(classes=base), SimpleNamespace(classes=base.head(1))]
    (row,) = matched_pairs(sides, foreign=True)[0].to_dicts()
    assert (row["flops_base"], row["flops_head"]) == (None, 3e9)
    assert (row["dram_bytes_base"], row["dram_bytes_head"]) == (4e6, 1e6)
    assert (row["energy_j_base"], row["launches_base"]) == (8.0, 3.0)
    assert row["sd_base"] == pytest.approx(0.15)


def test_a_clock_asked_for_is_that_of_predicted_energies_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Measured and anchored energies are of the clock that was recorded."""
    asked: list[Any] = []

    def predicted(_run: Any, _gpu: Any, clocks: Any, **how: Any) -> Any:
        asked.append((clocks, how["anchor"]))
        raise KeyboardInterrupt

    run = SimpleNamespace(kernels=pl.DataFrame({"start_ns": [0]}))
    monkeypatch.setattr("tracetool.compare.requested_runs.Run", SimpleNamespace(open=lambda _: run))
    monkeypatch.setattr("tracetool.compare.run_side.predict_run", predicted)
    bases: tuple[Basis, ...] = ("predicted", "anchored", "measured")
    for basis in bases:
        with pytest.raises(KeyboardInterrupt):
            load_run(tmp_path, basis, RunOptions(clock_mhz=1200.0))
    assert asked == [([1200.0], False), (None, True), (None, True)]


def test_what_a_clock_does_to_a_class_is_told_by_its_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 and 300 us become 200 and 400: 1.5 times the time, at 240 W for 300; 200 us of work on average."""
    rows = pl.DataFrame(
        {"signature": [0, 0, 1, 1], "clock_mhz": [1410.0, 900.0] * 2,
         "duration_us": [100.0, 200.0, 300.0, 400.0], "power_w": [300.0, 240.0] * 2}
    )  # fmt: skip
    monkeypatch.setattr(
        "tracetool.compare.diff.predict_run", lambda *_, **__: SimpleNamespace(signatures=rows)
    )
    loaded: Any = SimpleNamespace(
        run="run", signatures=pl.Series([0, 1]), classes=SimpleNamespace(keys={"GPU": "a100-sxm"})
    )
    side: Any = SimpleNamespace(first_run_classes=pl.Series([4, 4]))
    (row,) = _ratios(loaded, side, [1410.0, 900.0], "base").to_dicts()
    expected = {"class": 4, "clock_time_ratio": 1.5, "clock_power_ratio": 0.8, "work_s": 200e-6}
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_changes_are_judged_by_the_limit_on_the_energy_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of limits on time, on the energy of one family and on that of the run, the last."""
    limits = []

    def judged(_parts: Any, _pairs: Any, _sides: Any, criteria: Criteria) -> Any:
        limits.append(criteria.limit)
        raise KeyboardInterrupt

    pairs = pl.DataFrame({column: [0.0] for column in CAUSES})
    monkeypatch.setattr("tracetool.compare.changes.matched_pairs", lambda *_: pairs)
    monkeypatch.setattr("tracetool.compare.changes.model_error_j", lambda _: 0.0)
    monkeypatch.setattr("tracetool.compare.changes.run_figures", lambda _: {})
    monkeypatch.setattr("tracetool.compare.changes.change_table", judged)
    side: Any = SimpleNamespace(gap_j=NONE, keys={})
    stated = (Threshold("time", 0.05), Threshold("energy", 0.3, "gemm"), Threshold("energy", 0.01))
    for thresholds in (stated, stated[:2]):
        request = DiffRequest("predicted", thresholds)
        with pytest.raises(KeyboardInterrupt):
            compare_sides(side, side, request, parts=pl.DataFrame(), clock_ratios=pl.DataFrame())
    assert limits == [0.01, DEFAULT_LIMIT]


def test_a_part_of_nothing_is_no_number() -> None:
    frame = pl.DataFrame({"part": [3.0, 0.0, 2.0], "whole": [6.0, 0.0, 0.0]})
    assert frame.select(ratio(pl.col("part"), pl.col("whole"))).to_series().to_list() == [0.5, None, None]


def test_the_leading_factor_is_that_of_most_of_each_pairs_base() -> None:
    """GPU time takes 90 and 10 % of 1 and 100 J, power 10 and 30 %: half and a fifth in the middle."""
    pairs = pl.DataFrame({"base_j": [1.0, 100.0], **{name: [0.0, 0.0] for name in FACTORS}}).with_columns(
        pl.Series("GPU time", [-0.9, 10.0]), pl.Series("power per GPU", [0.1, 30.0])
    )
    assert leading_factor(pairs) == ("GPU time", pytest.approx(0.5 / 0.7))


@pytest.mark.parametrize(("variances", "fits"), [(100.0, True), (200.0, False)])
def test_a_spread_of_one_run_is_hardly_ever_too_small(variances: float, fits: bool) -> None:
    """One freedom beside one: a variance of less than 161 times is within the 95 % point of F."""
    apart = np.sqrt(2.0 * variances) * 0.01
    base = np.exp(np.array([[0.0], [apart]]))
    head = np.ones((1, 1))
    assert stats.f.ppf(0.95, 1, 1) == pytest.approx(161.4, abs=0.1)
    assert bool(moderate(base, head, Spread(0.01, 1.0, "x")).fits[0]) == fits
