"""Causes of planted wastes: named first, their joules found, all of them the run's; what-ifs and factors."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.conftest import Tool
from tests.replay import recomputed
from tests.replay.planted_causes import MAKERS, Planted, clean, short
from tests.replay.planted_files import write_planted_cause
from tests.replay.raw_files import WINDOW_MS, Raw, read_raw
from tests.sentences import close, numbers
from tracetool.api.diagnose import Diagnosis
from tracetool.core.errors import BadInput
from tracetool.replay.diagnosis.causes import NAMES, USEFUL, cause
from tracetool.replay.diagnosis.changes import ERRORS, WhatIf
from tracetool.replay.diagnosis.latent import CAUSE_COLUMNS, latent_factors
from tracetool.replay.diagnosis.what_if import what_if
from tracetool.replay.diagnosis.without_cause import CLOCKS
from tracetool.replay.predict_run import predict_run
from tracetool.replay.time_budget import time_budget

#: What takes another timeline away: ranks that arrive together, a GPU given back.
EDITED = ("straggler", "idle")
#: Of the fifteen of ``benchmarks/diagnosis.py`` work, host, a clock and those; ``make planted`` takes all.
QUICK = ("few_rows", "host_bound", "cap", *EDITED)
CASES = tuple(MAKERS) if "TRACETOOL_PLANTED" in os.environ else QUICK
#: Share of their steps from which the log tells the planted joules; of the others a quarter.
SHARES = {"few_rows": 0.5, "misaligned": 1.0, "copies": 1.0, "clock": 1.0}
#: What proves a finding, where it is not the cause taken out.
HOW = {"host-bound": "host", "synchronization": "host", "exposed communication": "overlap"}
CLEAN = 0.03
LINE = 80


class Runs(dict[str, tuple[Planted, Diagnosis, Raw]]):
    """Runs by name, each made when it is first asked for: a test alone takes its own run's time only."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> tuple[Planted, Diagnosis, Raw]:
        planted = short(clean, 0.5) if name == "clean" else short(MAKERS[name], SHARES.get(name, 0.25))
        traces, log = write_planted_cause(planted, self.folder / name)
        run = tt.ingest(traces, [log], tz="+00:00", out=self.folder / name / "run.tracetool")
        self[name] = planted, tt.diagnose(run), read_raw(traces, log)
        return self[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("causes"))


@pytest.mark.parametrize("name", CASES)
def test_the_first_finding_is_what_was_planted(runs: Runs, name: str) -> None:
    planted, diagnosis, _ = runs[name]
    first = diagnosis.findings[0]
    assert first.cause == planted.cause
    assert first.energy_j == pytest.approx(planted.joules, rel=0.1)
    assert first.energy_low_j < planted.joules < first.energy_high_j
    assert first.proof is not None
    if name != "overlap":  # there the joules of moving the data stay
        assert first.proof.saving_low_j < planted.joules < first.proof.saving_high_j


def test_a_clean_run_has_no_finding(runs: Runs) -> None:
    assert all(one.share < CLEAN for one in runs["clean"][1].findings)


@pytest.mark.parametrize("name", (*CASES, "clean"))
def test_causes_sum_to_the_run(runs: Runs, name: str) -> None:
    diagnosis = runs[name][1]
    *parts, whole = diagnosis.causes["energy_j"].to_list()
    assert sum(parts) == pytest.approx(whole, rel=1e-9)
    assert diagnosis.rows["energy_j"].sum() == pytest.approx(whole, rel=1e-9)
    assert set(diagnosis.causes["cause"][:-1]) <= set(NAMES)


@pytest.mark.parametrize("name", CASES)
def test_every_number_of_every_sentence_is_computed_again(runs: Runs, name: str) -> None:
    """Claims from rows and the log's covariance; evidence and proofs from trace events and log lines."""
    _, diagnosis, raw = runs[name]
    source, booked = diagnosis.source, diagnosis.rows
    whole_j = booked["energy_j"].sum()
    for one in diagnosis.findings:
        rows = booked.filter(pl.col("cause") == one.cause)
        claim, shown, proved = one.sentences
        joules, error = rows["energy_j"].sum(), cause(one.cause).model_error
        told = numbers(claim)
        assert [told[0], told[3]] == close([joules, 100 * joules / whole_j], percent=True)
        down, up = recomputed.reach(raw, source, one.cause, error)
        assert told[1:3] == pytest.approx([joules - down, joules + up], abs=max(0.06 * up, 1e-3 * joules))
        kernels = rows.filter(pl.col("signature").is_not_null()).group_by("signature", "name")
        top = kernels.agg(pl.col("energy_j", "launches").sum()).sort("energy_j", descending=True)
        if one.cause in CLOCKS:
            stated = {"power cap": "limit", "thermal throttle": "temperature"}.get(one.cause)
            log = [] if stated is None else [np.median(raw.busy(stated)), 700.0][: 2 - (stated != "limit")]
            best_mhz = numbers(shown)[-1]
            assert numbers(shown) == close([np.median(raw.busy("clock")), *log, best_mhz])
            near = [best_mhz - 90.0, best_mhz, best_mhz + 90.0]
            tried = [
                t["energy_j"] for t in predict_run(source.energies.run, None, near, power_cap_w=700.0).totals
            ]
            # the fastest within 0.5 % of the least
            assert tried[1] < 1.005 * tried[0]
            assert tried[1] < tried[2]
            again = recomputed.at_clock(source, best_mhz, cap_w=700.0 if one.cause == "power cap" else None)
        else:
            again = recomputed.without(
                raw, source, one.cause, max(error, ERRORS[HOW.get(one.cause, "without")])
            )
            if top.height:
                count = raw.launches(one.cause, top["name"][0], top["launches"][0])
                assert numbers(shown, top["name"][0]) == close([top["energy_j"][0], count])
            else:
                assert numbers(shown) == close([raw.gaps(one.cause).sum()])
        proof = one.proof
        assert proof is not None
        told = numbers(proved, one.remedy, proof.how)
        assert told[:3] == pytest.approx([again.makespan_ms, raw.span_ms, again.saving_j], rel=3e-3)
        ends = [again.saving_j - again.half_j, again.saving_j + again.half_j]
        assert told[3:5] == pytest.approx(ends, abs=0.1 * again.half_j)
        if one.cause == "host-bound":
            plain, graphs = (
                predict_run(source.energies.run, launch=launch).totals[0] for launch in ("recorded", "graph")
            )
            assert told[5] == pytest.approx(whole_j * (1.0 - graphs["energy_j"] / plain["energy_j"]), abs=0.1)


@pytest.mark.parametrize("name", CASES)
def test_every_number_of_every_note_is_computed_again(runs: Runs, name: str) -> None:
    _, diagnosis, raw = runs[name]
    stated = [numbers(note, "NVIDIA H100 80GB HBM3 (SXM5)", "yang-sc24") for note in diagnosis.notes]
    expected = recomputed.notes(raw, diagnosis.source)
    assert [len(one) for one in stated] == [len(one) for one in expected]
    for told, again in zip(stated, expected, strict=True):
        window = len(again) in (4, 5) and WINDOW_MS in again[:2]
        assert told == pytest.approx(again, rel=0.1 if window else 1e-3, abs=0.051)


@pytest.mark.parametrize("name", EDITED)
def test_the_command_prints_the_replay_that_proves_a_finding(runs: Runs, name: str, command: Tool) -> None:
    planted, diagnosis, raw = runs[name]
    source = diagnosis.source
    done = command("diagnose", source.energies.run.path, "--without", planted.cause)
    assert (done.returncode, done.stderr) == (0, "")
    printed = " ".join(done.stdout.split())
    again = recomputed.without(raw, source, planted.cause, ERRORS["without"])
    times = rf"without '{planted.cause}'(?:,|:) ([\d,.]+) ms in place of ([\d,.]+),"
    proof, asked = re.findall(rf"{times}(?: ([\d,.]+) J,)? saves ([\d,.]+) J", printed)
    for told in (proof, asked):
        figures = [float(told[i].replace(",", "")) for i in (0, 1, 3)]
        assert figures == pytest.approx([again.makespan_ms, raw.span_ms, again.saving_j], rel=3e-3)
    energy_j = source.rows["energy_j"].sum() - again.saving_j
    assert float(asked[2].replace(",", "")) == pytest.approx(energy_j, rel=3e-3)


def test_a_run_takes_what_its_summary_says(runs: Runs) -> None:
    source = runs["few_rows"][1].source
    attributed = tt.summary(source.energies.run.path).parts["energy_j"][-1]
    assert source.energy_j == pytest.approx(attributed, rel=1e-9)


def test_a_run_of_more_than_fits_is_refused_in_a_line(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    path = runs["few_rows"][1].source.energies.run.path
    monkeypatch.setenv("TRACETOOL_WINDOW", "10")
    with pytest.raises(BadInput, match="too many for a diagnosis"):
        tt.diagnose(path)


def test_useful_work_is_no_finding(runs: Runs) -> None:
    assert all(one.cause != USEFUL for name in (*CASES, "clean") for one in runs[name][1].findings)


def test_a_run_without_a_log_says_so(runs: Runs, tmp_path: Path) -> None:
    trace = runs["few_rows"][1].source.energies.run.path.with_name("rank0.json.gz")
    diagnosis = tt.diagnose(tt.ingest([trace], out=tmp_path / "run.tracetool"))
    last = diagnosis.findings[-1]
    assert last.cause == "telemetry"
    assert numbers(last.sentences[0]) == close([diagnosis.source.energy_j])
    assert numbers(last.sentences[1]) == close([diagnosis.source.clock.recorded_mhz])


def test_sentences_fit_80_columns(
    runs: Runs,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    diagnosis = runs["few_rows"][1]
    answer = what_if(diagnosis.source.energies.run, diagnosis.source, WhatIf(clock_mhz=900.0, batch=4.0))
    Diagnosis(diagnosis.source, diagnosis.findings, answer).show()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("what if 2 together") for line in lines)
    assert max(map(len, lines)) <= LINE


def test_idle_causes_are_those_of_the_time_budget(runs: Runs) -> None:
    diagnosis = runs["host_bound"][1]
    budget = time_budget(diagnosis.source.energies.run, energies=diagnosis.source.energies).together()
    told = budget.row(by_predicate=pl.col("part") == "idle: host-bound", named=True)
    cause = diagnosis.causes.row(by_predicate=pl.col("cause") == "host-bound", named=True)
    for key in ("time_ms", "energy_j", "energy_low_j", "energy_high_j"):
        assert cause[key] == pytest.approx(told[key], rel=1e-6), key


@pytest.mark.parametrize("by", ["kernel", "gpu"])
def test_latent_factors_sum_and_stay_within_their_range(runs: Runs, by: str) -> None:
    source = runs["few_rows"][1].source
    frame = latent_factors(source.energies.run, source, by).frame
    groups, whole = frame[:-1], frame.row(-1, named=True)
    assert whole["energy_j"] == pytest.approx(source.energy_j, rel=1e-9)
    for column in ("energy_j", "time_ms", "idle_ms", "launches", "static_j", *CAUSE_COLUMNS):
        assert groups[column].sum() == pytest.approx(whole[column], rel=1e-9, abs=1e-9)
    assert frame.select(pl.sum_horizontal(CAUSE_COLUMNS) / pl.col("energy_j"))["useful_j"].to_list() == (
        pytest.approx([1.0] * frame.height, rel=1e-9)
    )
    booked = source.rows.filter(pl.col("cause") == "small batch")["energy_j"].sum()
    assert whole["small_batch_j"] == pytest.approx(booked, rel=1e-9)
    told = source.totals.row(-1, named=True)
    for end in ("energy_low_j", "energy_high_j"):
        assert whole[end] == pytest.approx(told[end], rel=1e-6)
    half = (frame["energy_high_j"] - frame["energy_j"]) / frame["energy_j"]
    assert (half > 0).all()
    small = (frame["small_batch_high_j"] - frame["small_batch_j"]) / frame["small_batch_j"]
    expected = (half**2 + cause("small batch").model_error ** 2) ** 0.5
    where = frame["small_batch_j"] > 0
    assert small.filter(where).to_list() == pytest.approx(expected.filter(where).to_list())
    counted = frame.filter(pl.col("useful_flops") > 0)
    for end, against in (("low", "high"), ("high", "low")):
        rate = counted["useful_flops"] * 1e-9 / counted[f"energy_{against}_j"]
        assert counted[f"gflop_per_joule_{end}"].to_list() == pytest.approx(rate.to_list())
    for column in ("padding_share", "roofline_share", "busy_share", "occupancy"):
        values = groups[column].drop_nulls()
        assert values.is_between(0.0, 1.0 + 1e-9).all()
    # a product of 8 rows reads 2 bytes of weights for 16 operations: 8 FLOP/B, less what else is moved
    thin = groups.filter(pl.col("small_batch_j") > 0)
    assert by != "kernel" or thin["flop_per_byte"].to_list() == pytest.approx([8.0], rel=0.05)
