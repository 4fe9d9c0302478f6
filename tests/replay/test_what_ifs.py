"""What-ifs of a run: each on work it changes, against the invented machine and against other predictions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.replay.planted_causes import (
    BEST_MHZ,
    MAKERS,
    SMALL,
    Cost,
    Job,
    Planted,
    _reduce,
    _relu,
    cost,
    gap_w,
    gaps_j,
    kernels,
    spent,
    timeline,
)
from tests.replay.planted_files import write_planted_cause
from tests.sentences import close, numbers
from tracetool.api.diagnose import Diagnosis
from tracetool.core.errors import BadInput
from tracetool.replay.diagnosis.changes import ERRORS, WhatIf
from tracetool.replay.diagnosis.what_if import WhatIfAnswer, what_if
from tracetool.replay.predict_run import predict_run

STEPS, FAST_MHZ = 60, 1500
WIDE, MOVING_S, COLLECTIVE_W = (4096, 4096, 4096), 0.006, 250.0
HOW: dict[str, Any] = {"plain": {}, "scaled": {"scale": {"gemm": 0.5}}, "clock": {"clocks_mhz": [900.0]}}


def mixed(clock_mhz: int = FAST_MHZ) -> tuple[Job, Planted]:
    """Return two ranks: a product in FP32, a large one, a chain of three, and a reduction after each step.

    A reduction's links draw the same at every clock.
    """
    m, n, k = WIDE
    job = Job(clock_mhz, ranks=2)
    kind = job.price("wide", cost(clock_mhz, 2.0 * m * n * k, 12.0 * m * n, "fp32"))
    wide = kernels.gemm("ampere_sgemm_128x64_tn", m, n, k, (128, 64, 8), 2, size=4, dtype="float", kind=kind)
    chain = [job.elementwise(_relu(), 16 * SMALL, "aten::relu")] * 3
    job.price("collective", Cost(MOVING_S, COLLECTIVE_W - gap_w(FAST_MHZ) + gap_w(clock_mhz)))
    job.price("collective_wait", Cost(0.0, 180.0))
    for step in range(STEPS):
        for rank in job.ranks:
            rank.run([wide, job.usual()[0]], text="products")
            rank.run(chain, text="chain")
        timeline.meet(job.ranks, _reduce(), MOVING_S)
        if step % 20 == 19:
            for rank in job.ranks:
                rank.pause(0.02)
    return job, job.planted("", 0.0)


def ingested(planted: Planted, folder: Path) -> Diagnosis:
    traces, log = write_planted_cause(planted, folder)
    return tt.diagnose(tt.ingest(traces, [log], tz="+00:00", out=folder / "run.tracetool"))


@pytest.fixture(scope="module")
def job() -> Job:
    return mixed()[0]


@pytest.fixture(scope="module")
def of_mixed(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    return ingested(mixed()[1], tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    return ingested(MAKERS["few_rows"](), tmp_path_factory.mktemp("thin"))


def answered(diagnosis: Diagnosis, asked: WhatIf) -> WhatIfAnswer:
    return what_if(diagnosis.source.energies.run, diagnosis.source, asked)


def saved_by_fusing(job: Job) -> float:
    """Two writes and two reads of the six accesses of each chain stay on chip."""
    return sum(4 / 6 * spent(r, f"elementwise {16 * SMALL}") for r in job.ranks)


def saved_by_half(job: Job) -> float:
    m, n, k = WIDE
    half = cost(job.clock_mhz, 2.0 * m * n * k, 6.0 * m * n)
    return sum(spent(r, "wide") for r in job.ranks) * (1.0 - half.joules / job.costs["wide"].joules)


def saved_by_overlap(job: Job) -> float:
    """Base power of the time in which only data moved."""
    moved_s = [(x.end_ns - x.arrived_ns) * 1e-9 for r in job.ranks for x in r.launches if x.arrived_ns]
    return gap_w(job.clock_mhz) * sum(moved_s)


def saved_by_clock(job: Job) -> float:
    """All of it run again at the other clock."""
    other = mixed(BEST_MHZ)[0]
    each = [sum(spent(r, k) for k in one.costs for r in one.ranks) for one in (job, other)]
    return each[0] - each[1] + sum(gaps_j(r) for r in job.ranks) - sum(gaps_j(r) for r in other.ranks)


SAVED: dict[str, tuple[WhatIf, Callable[[Job], float]]] = {
    "drop": (
        WhatIf(drop=("chain",)),
        lambda job: sum(spent(r, f"elementwise {16 * SMALL}") for r in job.ranks),
    ),
    "fuse": (WhatIf(fuse=(("elementwise", "elementwise"),)), saved_by_fusing),
    "precision": (WhatIf(precision="bf16"), saved_by_half),
    "overlap": (WhatIf(overlap=True), saved_by_overlap),
    "clock": (WhatIf(clock_mhz=BEST_MHZ), saved_by_clock),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_what_if_saves_what_the_machine_spends_less(of_mixed: Diagnosis, job: Job, name: str) -> None:
    asked, truth = SAVED[name]
    effect = answered(of_mixed, asked).joint
    assert effect.saving_low_j < truth(job) < effect.saving_high_j
    assert effect.energy_j == pytest.approx(of_mixed.source.energy_j - effect.saving_j)


RECOMPUTED: dict[str, tuple[WhatIf, dict[str, Any]]] = {
    "power cap": (WhatIf(power_cap_w=300.0), {"power_cap_w": 300.0}),
    "together": (
        WhatIf(scale={"gemm": 0.5}, clock_mhz=900.0, drop=("chain",)),
        {"scale": {"gemm": 0.5}, "clocks_mhz": [900.0], "drop": ("chain",)},
    ),
}


@pytest.mark.parametrize("name", RECOMPUTED)
def test_joules_are_the_logs_times_the_ratio_of_two_predictions(of_mixed: Diagnosis, name: str) -> None:
    """Kernel by kernel from the two predictions' tables, idle time by theirs; so is the interval."""
    asked, how = RECOMPUTED[name]
    answer, source = answered(of_mixed, asked), of_mixed.source
    plain, then = (predict_run(source.energies.run, **options) for options in ({}, how))
    each = [p.signatures.sort("signature") for p in (plain, then)]
    joules = [(e["energy_mj"] * e["launches"]).to_numpy() * 1e-3 for e in each]
    gaps = [p.totals[0]["gap_energy_j"] for p in (plain, then)]
    busy = of_mixed.rows.drop_nulls("signature").group_by("signature").agg(pl.col("energy_j").sum())
    idle_j = of_mixed.rows.filter(pl.col("signature").is_null())["energy_j"].sum()
    recorded_j = busy.sort("signature")["energy_j"].to_numpy()
    # what links take beyond the model is the same at every clock
    links = (each[0]["family"] == "collective").to_numpy()
    links_j = np.where(links, np.maximum(recorded_j - joules[0], 0.0), 0.0)
    then_j = (recorded_j - links_j) * joules[1] / joules[0] + links_j
    ratio = then_j / recorded_j
    energy_j = float(then_j.sum()) + idle_j * gaps[1] / gaps[0]
    joint = answer.joint
    # the tables divide moments of several kernels among them, the what-if takes each by itself
    assert joint.energy_j == pytest.approx(energy_j, rel=2e-3)
    assert joint.makespan_ms == pytest.approx(then.totals[0]["makespan_ms"], rel=1e-9)
    saved = source.energy_j - energy_j
    assert joint.saving_j == pytest.approx(source.energy_j - joint.energy_j)
    assert abs(saved) > 0.01 * source.energy_j
    model = [ERRORS[k] * one.saving_j for (k, _, _), one in zip(asked.each(), answer.alone, strict=True)]
    octaves = np.abs(np.log2(each[1]["clock_actual_mhz"].to_numpy() / each[0]["clock_actual_mhz"].to_numpy()))
    spread = 1.645 * np.sqrt((0.042 * octaves) ** 2 + 0.07**2 * octaves)  # docs/power.md
    model.append(float((spread * then_j).sum()))  # 0 where the clock stays
    whole = source.totals.row(-1, named=True)
    log = (whole["energy_high_j"] - whole["energy_low_j"]) / 2 * saved / source.energy_j
    half_j, idle_half_j = source.half_widths()
    split = (ratio - energy_j / source.energy_j) * half_j
    apart = (gaps[1] / gaps[0] - energy_j / source.energy_j) * idle_half_j
    half = float(np.linalg.norm([*model, log, *split, apart]))
    assert joint.saving_high_j - joint.saving_j == pytest.approx(half, rel=0.02)
    assert joint.saving_j - joint.saving_low_j == pytest.approx(half, rel=0.02)


def test_a_larger_batch_saves_what_the_machine_spends_less(thin: Diagnosis) -> None:
    planted = MAKERS["few_rows"]()
    (rank,) = planted.ranks
    kind = "gemm 8 65536 65536"
    then = cost(BEST_MHZ, 2.0 * 32 * 65536**2, 2.0 * (65536**2 + 2 * 32 * 65536))
    now, each = spent(rank, kind), rank.machine.costs[kind].joules
    whole = sum(spent(rank, k) for k in rank.machine.costs) + gaps_j(rank)
    truth = whole - (whole + now * (then.joules / each - 1.0)) / 4  # what does not grow is paid once for four
    effect = answered(thin, WhatIf(batch=4.0)).joint
    assert effect.saving_low_j < truth < effect.saving_high_j
    assert effect.work == 4.0


def test_all_together_save_what_the_machine_spends_less(of_mixed: Diagnosis, job: Job) -> None:
    asked = WhatIf(precision="bf16", fuse=(("elementwise", "elementwise"),), overlap=True)
    answer = answered(of_mixed, asked)
    truth = sum(SAVED[name][1](job) for name in ("precision", "fuse", "overlap"))
    assert answer.joint.saving_low_j < truth < answer.joint.saving_high_j


@pytest.mark.parametrize(
    ("cause", "asked"),
    [
        ("exposed communication", WhatIf(overlap=True)),
        ("synchronization", WhatIf(no_waits=True)),
        ("oversized clock", None),
    ],
)
def test_a_finding_is_proved_by_the_what_if(of_mixed: Diagnosis, cause: str, asked: WhatIf | None) -> None:
    finding = next(one for one in of_mixed.findings if one.cause == cause)
    answer = answered(of_mixed, asked or WhatIf(clock_mhz=of_mixed.source.clock.best_mhz))
    proof, joint = finding.proof, answer.joint
    assert proof is not None
    assert (proof.makespan_ms, proof.without_ms) == (answer.makespan_ms, joint.makespan_ms)
    for end in ("saving_j", "saving_low_j", "saving_high_j"):
        assert getattr(proof, end) == getattr(joint, end)
    figures = numbers(finding.sentences[-1], finding.remedy, proof.how)
    assert figures[2] == pytest.approx(numbers(answer.sentences[-1], joint.name)[3])


def test_what_changes_nothing_says_so(of_mixed: Diagnosis) -> None:
    answer = answered(of_mixed, WhatIf(power_cap_w=690.0))
    assert "no change" in answer.sentences[0]
    figures = numbers(answer.sentences[0], answer.joint.name)
    assert figures == close([answer.makespan_ms, of_mixed.source.energy_j])


def test_a_cap_that_the_gpu_does_not_accept_is_noted(of_mixed: Diagnosis) -> None:
    notes = answered(of_mixed, WhatIf(power_cap_w=150.0)).notes
    assert any("a power cap of 150 W is outside what the GPU accepts" in note for note in notes)


def test_what_ifs_compose_and_every_number_of_theirs_is_told_again(
    thin: Diagnosis,
) -> None:
    source = thin.source
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
    names = [*(one.name for one in answer.alone), ""]
    for sentence, effect, name in zip(answer.sentences, (*answer.alone, answer.joint), names, strict=True):
        told = numbers(sentence.removeprefix(name).removeprefix("4 together"))
        ends = [effect.saving_low_j, effect.saving_high_j]
        crosses, sign = ends[0] < 0 < ends[1], np.sign(effect.saving_j)
        ends = sorted(sign * end if crosses else abs(end) for end in ends)
        work = [] if effect.work == 1.0 else [effect.work]
        assert told == close(
            [
                effect.makespan_ms,
                *work,
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
def test_what_a_run_does_not_hold_is_refused(thin: Diagnosis, asked: WhatIf, reason: str) -> None:
    source = thin.source
    with pytest.raises(BadInput, match=reason):
        what_if(source.energies.run, source, asked)
