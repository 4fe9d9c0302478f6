"""Predictions of runs: a sample trace at other clocks, on another GPU, with what-ifs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.api.ingest import ingest
from tracetool.compare.diff_run import accuracy_of
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.replay.breakdown import BREAKDOWNS, breakdown
from tracetool.replay.governor import Governor
from tracetool.replay.power_over_time import power_over_time
from tracetool.replay.predict import predict_table
from tracetool.replay.predict_run import predict_run
from tracetool.replay.run_rows import run_rows
from tracetool.replay.sweep import sweep
from tracetool.report.pictures.pareto import swept_chart
from tracetool.tables.run import Run


@pytest.fixture(scope="module")
def run(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the sample generation trace as a run."""
    out = tmp_path_factory.mktemp("run") / "a100.tracetool"
    return Run.open(ingest([samples / "a100_generation.pt.trace.json.gz"], [], tz=None, gpu=None, out=out))


def test_at_its_own_clock_the_run_takes_what_it_took(run: Run) -> None:
    made = predict_run(run)
    assert made.totals[0]["makespan_ms"] == pytest.approx(made.info["recorded_makespan_ms"], rel=0.01)
    assert made.gpu.startswith("a100")


def test_parts_gaps_and_breakdowns_add_up_at_every_clock(run: Run) -> None:
    made = predict_run(run, clocks_mhz=[700, 1000, 1410])
    by = {name: breakdown(made, name) for name in (*BREAKDOWNS, "gap,gpu", "operator,gap")}
    for total in made.totals:
        assert sum(total["energy_parts_j"].values()) == pytest.approx(total["energy_j"], rel=1e-9)
        assert sum(total["gaps_j"].values()) == pytest.approx(total["gap_energy_j"], rel=1e-9)
        scopes = total["kernel_energy_j"], total["copy_energy_j"], total["gap_energy_j"]
        assert sum(scopes) == pytest.approx(total["energy_j"], rel=1e-9)
        device_j = total["kernel_energy_j"] + total["copy_energy_j"]
        here = {n: t.filter(pl.col("clock_mhz") == total["clock_mhz"]) for n, t in by.items()}
        assert here["family"]["energy_j"].sum() == pytest.approx(device_j, rel=1e-9)
        for nested in ("range", "operator"):
            top = here[nested].filter(pl.col("depth") == 0)
            assert top["energy_j"].sum() == pytest.approx(device_j, rel=1e-9)
            assert here[nested]["self_energy_j"].sum() == pytest.approx(device_j, rel=1e-9)
        for joint in ("gap,gpu", "operator,gap"):  # hold all of the run, idle time too
            assert here[joint]["energy_j"].sum() == pytest.approx(total["energy_j"], rel=1e-6)
            assert here[joint]["idle_ms"].sum() == pytest.approx(total["gap_ms"], rel=1e-4)
        by_cause = here["gap,gpu"].filter(pl.col("name") == "idle: host-bound / GPU 0")
        assert by_cause["energy_j"].sum() == pytest.approx(total["gaps_j"]["host"], rel=1e-4)
        drawn = here["power"]
        step = drawn["time_ms"][1] - drawn["time_ms"][0]
        idle = step * drawn.height - total["makespan_ms"]
        seen = drawn["mean_power_w"].sum() * step * 1e-3 - idle * 1e-3 * total["idle_power_w"]
        assert seen == pytest.approx(total["energy_j"], rel=1e-6)


def test_slower_clocks_never_shorten_a_run(run: Run) -> None:
    spans = [t["makespan_ms"] for t in predict_run(run, clocks_mhz=[600, 900, 1200, 1410]).totals]
    assert spans == sorted(spans, reverse=True)


def test_what_ifs(run: Run) -> None:
    base = predict_run(run).totals[0]
    family = breakdown(predict_run(run), "family")["family"][0]
    faster = predict_run(run, scale={family: 0.5}).totals[0]
    assert faster["kernel_time_ms"] < base["kernel_time_ms"]
    assert predict_run(run, launch="graph").totals[0]["makespan_ms"] <= base["makespan_ms"] * (1 + 1e-9)
    capped = predict_run(run, power_cap_w=base["peak_power_w"] * 0.7).totals[0]
    assert capped["throttled_share"] > 0
    other = predict_run(run, "h100-sxm")
    assert other.gpu == "h100-sxm"
    assert any("carried over" in n for n in other.notes)


def test_a_run_shows_how_well_its_own_kernels_predict_each_other(run: Run) -> None:
    """Measured kernels are scaled, so that none is corrected; from the others alone every one of them is."""
    measured, others = predict_run(run), predict_run(run, anchor=False, from_others=True)
    own = measured.info["own_kernels"]
    assert own["corrected"] == 0
    assert others.info["own_kernels"]["corrected"] >= own["measured"] >= 10
    assert 0.0 < own["leave_one_out_error_pct"] < own["model_error_pct"]
    stated = f"{own['leave_one_out_error_pct']:.3g} % in the median"
    assert any(note.startswith("own kernels: ") and stated in note for note in measured.notes)
    assert any("corrected by" in note and stated in note for note in others.notes)


def test_a_dropped_range_takes_its_kernels_along(run: Run) -> None:
    ranges = run.table("ranges")
    if not ranges.height:
        pytest.skip("the sample holds no ranges")
    inside = run.kernels.drop_nulls("range")
    name = ranges.filter(pl.col("range") == inside["range"][0])["name"][0]
    left = predict_run(run, drop=[name]).totals[0]
    assert left["kernel_time_ms"] < predict_run(run).totals[0]["kernel_time_ms"]


def test_what_is_not_there_is_said(run: Run) -> None:
    with pytest.raises(BadInput, match="no range called"):
        predict_run(run, drop=["nowhere"])
    with pytest.raises(BadInput, match="no kernels of family"):
        predict_run(run, scale={"fft": 2.0})
    with pytest.raises(BadInput, match="--by"):
        breakdown(predict_run(run), "color")


def test_a_sweep_finds_points_on_the_front(run: Run) -> None:
    made = sweep(run.path, clocks_mhz=[700, 900, 1100, 1410], caps_w=[200.0], slowdown=0.1)
    points, best = made.points, made.best
    assert points.height == 5
    cheapest = points.sort("energy_j").row(0, named=True)
    assert best.row(0, named=True)["energy_j"] <= 1.005 * cheapest["energy_j"]
    assert cheapest["pareto"]
    within = best.row(-1, named=True)
    assert within["slowdown"] <= 0.1 + 1e-9
    assert (best["energy_saved_low"] <= best["energy_saved"]).all()
    assert swept_chart(made).caption.startswith("4 clocks")
    assert 0.9 < made.families["share"].sum() < 1.0  # of the run; its gaps belong to no family


def test_each_signature_is_anchored_as_a_kernel_of_its_own(run: Run) -> None:
    signatures, rows = run_rows(run)
    assert signatures["name"].n_unique() < signatures.height, "the sample repeats names with other shapes"
    assert len(set(rows.text("name").tolist())) == signatures.height
    made = predict_run(run)
    np.testing.assert_allclose(
        made.signatures.filter(~pl.col("throttled"))["duration_us"],
        made.signatures.filter(~pl.col("throttled"))["measured_duration_us"],
        rtol=1e-6,
    )


def test_sizes_told_by_the_duration_are_no_evidence_of_it(run: Run) -> None:
    predicted = predict_run(run, anchor=False)
    marked = predicted.signatures.with_columns(
        pl.when(pl.col("signature") == 0)
        .then(pl.lit("anchored only"))
        .otherwise(pl.lit("shapes"))
        .alias("predicted_from")
    )
    made = accuracy_of(run, replace(predicted, signatures=marked))
    rows = made.table.filter(pl.col("level") == "signature")
    assert rows.filter(pl.col("time_error_pct").is_null())["signature"].to_list() == [0]
    rest = rows.filter(pl.col("signature") != 0)
    total = made.table.filter(pl.col("level") == "total").row(0, named=True)
    error = 100 * (float(rest["time_predicted_ms"].sum()) / float(rest["time_ms"].sum()) - 1)
    assert total["time_error_pct"] == pytest.approx(error, rel=1e-9)
    assert total["compared_pct"] == pytest.approx(100 * rest["time_ms"].sum() / rows["time_ms"].sum())


def test_a_cap_holds_the_mean_power_over_its_governors_time_constant(run: Run) -> None:
    cap_w = 260.0
    made = predict_run(run, power_cap_w=cap_w)
    total = made.totals[0]
    assert 0.0 < total["throttled_share"] <= 1.0
    kernels = made.signatures.filter(pl.col("kind") == "kernel")
    time = kernels["duration_us"] * kernels["launches"]
    assert (time * kernels["throttled_share"]).sum() / time.sum() == pytest.approx(
        total["throttled_share"], rel=0.02
    )
    assert made.replays is not None
    curve = made.replays.curves(0)[0]
    governor = Governor.of(load_gpu(made.gpu))
    edges = np.arange(curve.edge_ns[0], curve.edge_ns[-1], 5e9 * governor.time_constant_s)
    means = np.diff(curve.energy_until(edges, total["idle_power_w"])) / np.diff(edges) * 1e9
    # Idle time lets at most one time constant of what is left under the cap go over it.
    room_w = (cap_w - total["idle_power_w"]) / 5.0
    assert means.max() <= (cap_w + room_w) * 1.02
    assert np.median(means) <= cap_w * 1.005
    free = predict_run(run, power_cap_w=400.0).totals[0]
    assert total["kernel_time_ms"] > free["kernel_time_ms"]


def test_power_over_time_is_the_runs_energy_and_keeps_its_words(run: Run) -> None:
    made = predict_run(run, clocks_mhz=[1000, 1410])
    swings = power_over_time(made)
    for record, total in zip(swings.records, made.totals, strict=True):
        steps = swings.frame.filter(pl.col("clock_mhz") == total["clock_mhz"])
        assert (steps["power_w"] * steps["step_ms"]).sum() * 1e-3 == pytest.approx(
            total["energy_j"], rel=1e-6
        )
        assert record["mean_w"] == pytest.approx(total["mean_power_w"], rel=1e-6)
        assert record["windows"][0]["peak_w"] <= steps["highest_w"].max() * (1 + 1e-9)
        assert (steps["highest_w"] >= steps["power_w"] * (1 - 1e-9)).all()
    assert swings.frame["measured_w"].null_count() == swings.frame.height  # the run has no log
    with pytest.raises(BadInput, match="a table has none"):
        power_over_time(predict_table(pl.DataFrame({"op": ["memcpy"], "bytes": [1e9]}), "a100-sxm"))
