"""Causes of planted wastes: named first, their joules found, all of them the run's; what-ifs and factors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tests.replay.planted_causes import MAKERS, Planted, clean
from tests.replay.planted_files import write_planted_cause
from tracetool.api.diagnose import Diagnosis
from tracetool.core.errors import BadInput
from tracetool.replay.diagnosis.asked import ERRORS, WhatIf
from tracetool.replay.diagnosis.causes import NAMES, USEFUL
from tracetool.replay.diagnosis.latent import CAUSE_COLUMNS, latent_factors
from tracetool.replay.diagnosis.what_if import what_if
from tracetool.replay.predict_run import predict_run
from tracetool.replay.time_budget import time_budget

#: Of the fifteen of ``benchmarks/diagnosis.py`` those that take least to make: work, and idle time.
QUICK = ("few_rows", "host_bound")
CLEAN = 0.03
LINE = 80
HOW: dict[str, Any] = {"plain": {}, "scaled": {"scale": {"gemm": 0.5}}, "clock": {"clocks_mhz": [900.0]}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Planted, Diagnosis]]:
    folder = tmp_path_factory.mktemp("causes")
    runs = {}
    for name, planted in [*((name, MAKERS[name]()) for name in QUICK), ("clean", clean())]:
        traces, log = write_planted_cause(planted, folder / name)
        run = tt.ingest(traces, [log], tz="+00:00", out=folder / name / "run.tracetool")
        runs[name] = planted, tt.diagnose(run)
    return runs


@pytest.mark.parametrize("name", QUICK)
def test_the_first_finding_is_what_was_planted(runs: dict[str, tuple[Planted, Diagnosis]], name: str) -> None:
    planted, diagnosis = runs[name]
    first = diagnosis.findings[0]
    assert first.cause == planted.cause
    assert first.energy_j == pytest.approx(planted.joules, rel=0.1)
    assert first.energy_low_j < planted.joules < first.energy_high_j


def test_a_clean_run_has_no_finding(runs: dict[str, tuple[Planted, Diagnosis]]) -> None:
    assert all(one.share < CLEAN for one in runs["clean"][1].findings)


@pytest.mark.parametrize("name", (*QUICK, "clean"))
def test_causes_sum_to_the_run(runs: dict[str, tuple[Planted, Diagnosis]], name: str) -> None:
    diagnosis = runs[name][1]
    *parts, whole = diagnosis.causes["energy_j"].to_list()
    assert sum(parts) == pytest.approx(whole, rel=1e-9)
    assert diagnosis.rows["energy_j"].sum() == pytest.approx(whole, rel=1e-9)
    assert set(diagnosis.causes["cause"][:-1]) <= set(NAMES)


@pytest.mark.parametrize("name", QUICK)
def test_every_number_of_every_sentence_is_one_of_the_tables(
    runs: dict[str, tuple[Planted, Diagnosis]], name: str
) -> None:
    diagnosis = runs[name][1]
    source, booked = diagnosis.source, diagnosis.rows
    whole_j = booked["energy_j"].sum()
    for one in diagnosis.findings:
        rows = booked.filter(pl.col("cause") == one.cause)
        total = source.totals.row(by_predicate=pl.col("cause") == one.cause, named=True)
        claim, shown, proved = one.sentences
        joules = rows["energy_j"].sum()
        assert numbers(claim) == close(
            [joules, total["energy_low_j"], total["energy_high_j"], 100 * joules / whole_j], percent=True
        )
        kernels = rows.filter(pl.col("signature").is_not_null()).group_by("signature", "name")
        top = kernels.agg(pl.col("energy_j", "launches").sum()).sort("energy_j", descending=True)
        if one.cause in ("oversized clock", "low clock"):
            assert numbers(shown) == close([source.clock.recorded_mhz, source.clock.best_mhz])
        elif top.height:
            named = shown.replace(top["name"][0], "")
            assert numbers(named) == close([top["energy_j"][0], round(top["launches"][0])])
        else:
            assert numbers(shown) == close([rows["time_ms"].sum()])
        proof = one.proof
        assert proof is not None
        assert numbers(proved) == close(
            [proof.without_ms, proof.makespan_ms, proof.saving_j, proof.saving_low_j, proof.saving_high_j]
        )
        if one.cause == "host-bound":
            recorded, graphs = (
                predict_run(source.energies.run, launch=launch).totals[0] for launch in ("recorded", "graph")
            )
            assert proof.without_ms == pytest.approx(graphs["makespan_ms"])
            saved = 1.0 - graphs["energy_j"] / recorded["energy_j"]
            assert proof.saving_j == pytest.approx(whole_j * saved)


def numbers(sentence: str) -> list[float]:
    """Return the numbers of a sentence, the level of its intervals left out."""
    text = re.sub(r"\(90 %: ", "(", sentence)
    return [float(n.replace(",", "")) for n in re.findall(r"(?<![\w.])[-+]?\d[\d,]*\.?\d*(?:e-?\d+)?", text)]


def close(values: list[float], percent: bool = False) -> list[Any]:
    """Return what numbers of a sentence must be; a percentage, the last of them, has one decimal."""
    each = [pytest.approx(v, rel=1e-3) for v in values]
    return [*each[:-1], pytest.approx(values[-1], abs=0.051)] if percent else each


def test_a_run_takes_what_its_summary_says(runs: dict[str, tuple[Planted, Diagnosis]]) -> None:
    source = runs["few_rows"][1].source
    attributed = tt.summary(source.energies.run.path).parts["energy_j"][-1]
    assert source.energy_j == pytest.approx(attributed, rel=1e-9)


def test_useful_work_is_no_finding(runs: dict[str, tuple[Planted, Diagnosis]]) -> None:
    assert all(one.cause != USEFUL for _, diagnosis in runs.values() for one in diagnosis.findings)


def test_a_run_without_a_log_says_so(runs: dict[str, tuple[Planted, Diagnosis]], tmp_path: Path) -> None:
    trace = runs["few_rows"][1].source.energies.run.path.with_name("rank0.json.gz")
    diagnosis = tt.diagnose(tt.ingest([trace], out=tmp_path / "run.tracetool"))
    last = diagnosis.findings[-1]
    assert last.cause == "telemetry"
    assert numbers(last.sentences[0]) == close([diagnosis.source.energy_j])
    assert numbers(last.sentences[1]) == close([diagnosis.source.clock.recorded_mhz])


def test_sentences_fit_80_columns(
    runs: dict[str, tuple[Planted, Diagnosis]],
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


def test_what_ifs_compose_and_every_number_of_theirs_is_told_again(
    runs: dict[str, tuple[Planted, Diagnosis]],
) -> None:
    diagnosis = runs["few_rows"][1]
    source = diagnosis.source
    asked = WhatIf(scale={"gemm": 0.5}, clock_mhz=900.0, batch=4.0, precision="fp8")
    answer = what_if(source.energies.run, source, asked)
    scaled, clocked, converted, batched = answer.alone
    totals = {key: predict_run(source.energies.run, None, **how).totals[0] for key, how in HOW.items()}
    for effect, key in ((scaled, "scaled"), (clocked, "clock")):
        assert effect.makespan_ms == pytest.approx(totals[key]["makespan_ms"], rel=1e-6)
        # the log's joules times the model's ratio, kernel by kernel: near the model's ratio of the run
        ratio = totals[key]["energy_j"] / totals["plain"]["energy_j"]
        assert effect.energy_j / source.energy_j == pytest.approx(ratio, abs=0.05)
    # weights read once for four times the rows: the planted cause is what a batch saves
    assert 0.5 * source.energy_j < batched.saving_j < source.energy_j
    assert converted.saving_j > 0
    assert answer.joint.saving_j < sum(one.saving_j for one in answer.alone)
    assert answer.joint.energy_j < min(one.energy_j for one in answer.alone)
    parts = [
        ERRORS[kind] * one.saving_j for (kind, _, _), one in zip(asked.each(), answer.alone, strict=True)
    ]
    whole = source.totals.row(-1, named=True)
    own = (whole["energy_high_j"] - whole["energy_low_j"]) / 2 / whole["energy_j"] * answer.joint.saving_j
    half = sum(part**2 for part in (*parts, own)) ** 0.5
    assert answer.joint.saving_high_j - answer.joint.saving_j == pytest.approx(half)
    names = [*(one.name for one in answer.alone), ""]
    for sentence, effect, name in zip(answer.sentences, (*answer.alone, answer.joint), names, strict=True):
        told = numbers(sentence.removeprefix(name).removeprefix("4 together"))
        ends = sorted(abs(end) for end in (effect.saving_low_j, effect.saving_high_j))
        assert told == close(
            [
                effect.makespan_ms,
                answer.makespan_ms,
                effect.energy_j,
                abs(effect.saving_j),
                *ends,
                100 * abs(effect.share),
            ],
            percent=True,
        )
    rows = source.recorded.replays.rows.number("m")  # type: ignore[union-attr]
    step = re.search(r"a step has ([\d,]+) rows", " ".join(answer.notes))
    assert step is not None
    assert float(step[1].replace(",", "")) in rows


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (WhatIf(precision="fp3"), "is not known"),
        (WhatIf(precision="fp32"), "is not known"),
        (WhatIf(batch=0.0), "between"),
        (WhatIf(fuse=(("norm", "softmax"),)), "no softmax after norm"),
        (WhatIf(overlap=True), "no exposed communication"),
        (WhatIf(drop=("nowhere",)), "no range"),
        (WhatIf(), "nothing"),
    ],
)
def test_what_a_run_does_not_hold_is_refused(
    runs: dict[str, tuple[Planted, Diagnosis]], asked: WhatIf, reason: str
) -> None:
    source = runs["few_rows"][1].source
    with pytest.raises(BadInput, match=reason):
        what_if(source.energies.run, source, asked)


def test_fusing_takes_what_is_handed_over(runs: dict[str, tuple[Planted, Diagnosis]]) -> None:
    source = runs["clean"][1].source
    answer = what_if(source.energies.run, source, WhatIf(fuse=(("gemm", "elementwise"),)))
    rows = source.rows.filter(pl.col("family") == "elementwise")
    # one read of two accesses stays on chip, and the product need not write it
    elementwise_j = rows["energy_j"].sum()
    assert 0.5 * elementwise_j <= answer.joint.saving_j <= elementwise_j


def test_idle_causes_are_those_of_the_time_budget(runs: dict[str, tuple[Planted, Diagnosis]]) -> None:
    diagnosis = runs["host_bound"][1]
    budget = time_budget(diagnosis.source.energies.run, energies=diagnosis.source.energies).together()
    told = budget.row(by_predicate=pl.col("part") == "idle: host-bound", named=True)
    cause = diagnosis.causes.row(by_predicate=pl.col("cause") == "host-bound", named=True)
    for key in ("time_ms", "energy_j", "energy_low_j", "energy_high_j"):
        assert cause[key] == pytest.approx(told[key], rel=1e-6), key


@pytest.mark.parametrize("by", ["kernel", "gpu"])
def test_latent_factors_sum_and_stay_within_their_range(
    runs: dict[str, tuple[Planted, Diagnosis]], by: str
) -> None:
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
    for column in ("padding_share", "roofline_share", "busy_share", "occupancy"):
        values = groups[column].drop_nulls()
        assert values.is_between(0.0, 1.0 + 1e-9).all()
    # a product of 8 rows reads 2 bytes of weights for 16 operations: 8 FLOP/B, less what else is moved
    thin = groups.filter(pl.col("small_batch_j") > 0)
    assert by != "kernel" or thin["flop_per_byte"].to_list() == pytest.approx([8.0], rel=0.05)
