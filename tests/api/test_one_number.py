"""One word, one number: every command gives the same figure for the same scope of one run at one clock."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Tool
from tracetool.api.ingest import ingest
from tracetool.compare.diff_run import accuracy_of, diff_run
from tracetool.compare.run_options import RunOptions
from tracetool.compare.run_side import load_run
from tracetool.core.errors import TracetoolError
from tracetool.core.prediction import FROM
from tracetool.hardware.load import load_gpu
from tracetool.measure.attribute import attribute_run
from tracetool.replay.breakdown import breakdown
from tracetool.replay.group_energy import RunEnergies, predicted_costs
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.recording_conditions import recorded_gpu
from tracetool.replay.sweep import choose, sweep, with_reference
from tracetool.replay.time_budget import time_budget
from tracetool.replay.unnamed_gpu import trace_vendor
from tracetool.report.run_report import page_of, report_run
from tracetool.tables.run import Run

SAME = 1e-6
SAMPLES = {
    "h100_training.sqlite": (["h100_training_power.csv"], None),
    "a100_generation.pt.trace.json.gz": (["a100_generation_power.csv"], None),
    "mi300x_kernel_trace.csv": ([], "mi300x"),
}
#: Measured traces read in a moment, every fourth of them; ``make fuzz`` takes all, of any size. [bytes]
MOST_BYTES = int(os.environ.get("TRACETOOL_TRACE_BYTES", "20000"))
EVERY = 1 if "TRACETOOL_TRACE_BYTES" in os.environ else 4
#: What a trace that names no GPU is taken for, by its maker: its numbers must agree on any.
ANY_GPU = {"nvidia": "a100-sxm", "amd": "mi300x", None: "a100-sxm"}
#: Of a real run, power logs are left aside: what is measured is not the question.
ENERGIES = ("kernel_energy_j", "copy_energy_j", "gap_energy_j")


def same(value: float) -> Any:
    return pytest.approx(value, rel=SAME, abs=1e-9)


def check_sums(made: PredictedRun) -> None:
    """The scopes add up to the run, and every breakdown to its scope."""
    for total in made.totals:
        assert sum(total[key] for key in ENERGIES) == same(total["energy_j"])
        assert sum(total["energy_parts_j"].values()) == same(total["energy_j"])
        rows = made.signatures.filter(pl.col("clock_mhz") == total["clock_mhz"])
        families = breakdown(made, "family").filter(pl.col("clock_mhz") == total["clock_mhz"])
        for stem, kernels in (("kernel", True), ("copy", False)):
            own = rows.filter((pl.col("kind") == "kernel") == kernels)
            assert (own["energy_mj"] * own["launches"]).sum() / 1e3 == same(total[f"{stem}_energy_j"])
            assert (own["duration_us"] * own["launches"]).sum() / 1e3 == same(total[f"{stem}_time_ms"])
            part = families.filter((pl.col("scope") == "kernels") == kernels)
            assert part["energy_j"].sum() == same(total[f"{stem}_energy_j"])
            assert part["device_time_ms"].sum() == same(total[f"{stem}_time_ms"])
        for name in ("energy{}_j", "kernel_energy{}_j", "kernel_time{}_ms", "mean_power{}_w", "gap{}_ms"):
            low, value, high = (total[name.format(end)] for end in ("_low", "", "_high"))
            assert low <= value * (1 + SAME)
            assert value <= high * (1 + SAME)


def check_one_number(path: Path, gpu: str | None) -> None:
    """Every command's figures of a run, anchored and not, against those of ``predict``."""
    run = Run.open(path)
    anchored, alone = predict_run(run, gpu), predict_run(run, gpu, anchor=False)
    total, bare = anchored.totals[0], alone.totals[0]
    assert (total["anchored"], bare["anchored"]) == (True, False)
    check_sums(anchored)
    check_sums(alone)
    clock = total["clock_mhz"]

    # what was measured ran under its cap already: at its own clock nothing takes longer
    kernels = run.kernels.filter(pl.col("kind") == "kernel")
    assert total["kernel_time_ms"] == same(kernels["duration_ns"].sum() * 1e-6)
    assert anchored.replays is not None
    if not anchored.replays.pauses.count:
        energies = RunEnergies(run, None, predicted_costs(run, gpu, anchored))
        assert time_budget(run, energies=energies).together()["energy_j"][-1] == same(total["energy_j"])

    swept = predict_run(run, gpu, with_reference([0.6 * clock, 0.8 * clock], clock))
    points = choose(swept, clock).points.filter(pl.col("clock_mhz") == clock).row(0, named=True)
    for key in (*ENERGIES, "energy_j", "kernel_time_ms", "copy_time_ms", "gap_ms", "makespan_ms"):
        assert points[key] == same(total[key]), key

    # against a run the prediction is unanchored, and the whole of its kernels is what predict says
    bare_run = Run(run.path, run.info)
    bare_run.__dict__["telemetry"] = run.telemetry.clear()
    found = accuracy_of(bare_run, alone)
    kernels, copies = found.scope("kernels"), found.scope("copies")
    for row, stem in ((kernels, "kernel"), (copies, "copy")):
        if row is not None:
            assert row["energy_predicted_j"] == same(bare[f"{stem}_energy_j"])
            assert row["time_predicted_ms"] == same(bare[f"{stem}_time_ms"])
    signatures = found.table.filter(pl.col("level") == "signature")
    assert signatures["energy_predicted_j"].sum() == same(bare["kernel_energy_j"])
    compared = signatures.filter(pl.col("compared_pct") > 0)
    assert compared["predicted_from"].is_in([FROM[0]]).all()
    assert (found.total()["time_ms"] or 0.0) == same(compared["time_ms"].sum())
    assert found.coverage == alone.info["coverage"]
    assert sum(found.coverage.values()) == same(100.0)

    page = page_of(bare_run, swept, found, load_gpu(anchored.gpu), {})
    assert page.total["energy_j"] == same(total["energy_j"])
    assert page.energy_j(pl.col("kind") == "kernel") == same(total["kernel_energy_j"])
    assert page.energy_j(pl.col("kind") != "kernel") == same(total["copy_energy_j"])
    assert page.best["clock_mhz"] == choose(swept, clock).best["clock_mhz"][0]

    for basis, whole in (("anchored", total), ("predicted", bare)):
        side = load_run(path, basis, RunOptions(gpu=gpu)).classes  # type: ignore[arg-type]
        assert side.classes["energy_j"].sum() + side.gap_j == same(whole["energy_j"])
        assert side.gap_j == same(whole["gap_energy_j"])


@pytest.fixture(scope="module")
def runs(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("samples")
    return {
        name: ingest([samples / name], [samples / log for log in logs], tz="-05:00", gpu=gpu,
                     out=folder / f"{name.split('.')[0]}.tracetool").path
        for name, (logs, gpu) in SAMPLES.items()
    }  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_every_command_gives_one_number_for_a_sample(name: str, runs: dict[str, Path]) -> None:
    check_one_number(runs[name], SAMPLES[name][1])


def small_traces(data: Path) -> Iterator[Path]:
    for kind in ("kineto", "nsys", "rocm"):
        for path in sorted((data / "traces" / kind).iterdir()):
            if path.is_file() and path.stat().st_size <= MOST_BYTES and path.suffix != ".nsys-rep":
                yield path


@pytest.mark.data
def test_every_command_gives_one_number_for_real_traces(data: Path, tmp_path: Path) -> None:
    checked = 0
    for i, path in enumerate(islice(small_traces(data), 0, None, EVERY)):
        try:
            run = ingest([path], out=tmp_path / f"{i}.tracetool").path
            opened = Run.open(run)
            if not opened.signatures.filter(pl.col("kind") == "kernel").height:
                continue
            gpu = recorded_gpu(opened)
            if gpu is not None:
                gpu.require_model()
        except TracetoolError:
            continue
        check_one_number(run, None if gpu else ANY_GPU[trace_vendor(opened)])
        checked += 1
    print(f"{checked} traces checked")
    assert checked >= 20 // EVERY


def test_the_command_lines_agree(runs: dict[str, Path], command: Tool, tmp_path: Path) -> None:
    run = runs["h100_training.sqlite"]

    def document(*arguments: str | Path) -> dict[str, Any]:
        done = command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    total = document("predict", run)["totals"][0]
    swept = document("sweep", run, "--clock", "1200,1500")
    report = document("report", run, "-o", tmp_path / "report.html")
    assert report["totals"][0]["energy_j"] == same(total["energy_j"])
    assert swept["reference_mhz"] == total["clock_mhz"]
    recorded = [p for p in swept["points"] if p["clock_mhz"] == total["clock_mhz"]]
    assert [p["energy_j"] for p in recorded] == [same(total["energy_j"])]
    bare = document("predict", run, "--anchor", "none")["totals"][0]
    diff = document("diff", run)
    kernels = next(row for row in diff["scopes"] if row["level"] == "kernels")
    for end in ("", "_low", "_high"):
        assert kernels[f"energy_predicted{end}_j"] == same(bare[f"kernel_energy{end}_j"])
        assert kernels[f"time_predicted{end}_ms"] == same(bare[f"kernel_time{end}_ms"])
    assert not diff["anchored"]
    # the log goes on after the trace; its gaps are still those of the run's window
    gap = next(row for row in diff["scopes"] if row["level"] == "gap")
    assert gap["time_ms"] == pytest.approx(total["gap_ms"], rel=1e-3)


def test_report_and_sweep_name_one_best_clock_against_the_recorded_one(
    runs: dict[str, Path], command: Tool, tmp_path: Path
) -> None:
    run = runs["a100_generation.pt.trace.json.gz"]
    swept = json.loads(command("sweep", run, "--json").stdout)
    report = json.loads(command("report", run, "-o", tmp_path / "r.html", "--json").stdout)
    assert report["best"] == swept["best"][0]
    assert swept["reference_mhz"] == predict_run(run).totals[0]["clock_mhz"]


def test_savings_are_against_the_clock_that_is_named(runs: dict[str, Path]) -> None:
    run = runs["h100_training.sqlite"]
    clocks = [1200.0, 1500.0]
    usual, other = sweep(run, clocks_mhz=clocks), sweep(run, clocks_mhz=clocks, against_mhz=1500.0)
    assert usual.points["clock_mhz"].to_list() == [1200.0, 1500.0, 1755.0]
    assert other.points["clock_mhz"].to_list() == clocks
    for made, reference in ((usual, 1755.0), (other, 1500.0)):
        joules = dict(made.points.select("clock_mhz", "energy_j").iter_rows())
        best = made.best.row(0, named=True)
        saved = 1 - joules[best["clock_mhz"]] / joules[reference]
        assert best["energy_saved"] == pytest.approx(saved)
        rows = made.families.filter(pl.col("best_clock_mhz") == reference)
        assert np.allclose(rows["energy_saved"], 0.0)
    with pytest.raises(TracetoolError, match="above the highest clock"):
        sweep(run, clocks_mhz=clocks, against_mhz=9000.0)


def test_attribute_diff_and_report_measure_the_same_scopes(sample_run: Path) -> None:
    run = Run.open(sample_run)
    attributed = attribute_run(run)
    scopes = attributed.scopes
    assert set(scopes) == {"kernels", "copies", "gaps", "run"}
    parts = sum(scopes[s]["energy_j"] for s in ("kernels", "copies", "gaps"))
    assert scopes["run"]["energy_j"] == pytest.approx(parts, rel=1e-12)
    window = run.kernels.select((pl.col("start_ns") + pl.col("duration_ns")).max() - pl.col("start_ns").min())
    assert scopes["run"]["time_ms"] == pytest.approx(window.item() * 1e-6, rel=1e-12)
    accuracy = diff_run(run)
    for level, scope in (("kernels", "kernels"), ("copies", "copies"), ("gap", "gaps")):
        row = accuracy.scope(level)
        assert row is not None
        for key in ("time_ms", "energy_j", "energy_low_j", "energy_high_j"):
            assert row[key] == pytest.approx(scopes[scope][key], rel=1e-6), (scope, key)
    total = accuracy.total()  # every kernel was compared: the sum over them is the scope, its ends nearly
    assert total["compared_pct"] == pytest.approx(100.0)
    for key in ("time_predicted_{}_ms", "energy_predicted_{}_j"):
        for end in ("low", "high"):
            kernels = accuracy.scope("kernels")
            assert kernels is not None
            assert total[key.format(end)] == pytest.approx(kernels[key.format(end)], rel=3e-3)
    # all the log's joules are those of its classes: what is no gap of the run lies outside its window
    logged = float(attributed.energy["energy_j"].sum())
    assert scopes["run"]["energy_j"] < logged
    page = report_run(run)
    for kind, scope in ((pl.col("kind") == "kernel", "kernels"), (pl.col("kind") != "kernel", "copies")):
        assert page.energy_j(kind) == pytest.approx(scopes[scope]["energy_j"], rel=1e-6), scope
    assert set(page.rows["source"]) == {"measured"}
    (measured,) = [f for f in page.facts if f.label == "Energy of the run, measured"]
    assert float(measured.value.split()[0].replace(",", "")) == pytest.approx(parts, rel=1e-3)
    low, high = (scopes["run"][f"energy_{end}_j"] for end in ("low", "high"))
    spread = [float(x.replace(",", "")) for x in re.findall(r"[\d,.]+", measured.note)[:2]]
    assert spread == pytest.approx([low, high], rel=6e-3)  # three digits
    budget = time_budget(run, energies=RunEnergies(run, attributed, None)).together()
    by_part = {row["part"]: row for row in budget.iter_rows(named=True)}
    for part, scope in (("copies", "copies"), ("run", "run")):
        for key in ("energy_j", "energy_low_j", "energy_high_j"):
            assert by_part[part][key] == pytest.approx(scopes[scope][key], rel=1e-6), (part, key)
    # classes that the log cannot separate err against each other: their sum is known better than its ends
    kernels = accuracy.table.filter(pl.col("level") == "signature")
    assert high - low < float((kernels["energy_high_j"] - kernels["energy_low_j"]).sum())
