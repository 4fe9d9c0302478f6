"""Causes of planted wastes: named first, their joules found, and all of them the run's."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tests.replay.planted_causes import MAKERS, Planted, clean, write_planted_cause
from tracetool.api.diagnose import Diagnosis
from tracetool.replay.diagnosis.causes import NAMES, USEFUL

#: Of the fifteen of ``benchmarks/diagnosis.py`` those that take least to make.
QUICK = ("padding", "host_bound", "few_rows", "misaligned")
CLEAN = 0.03


def diagnosed(planted: Planted, folder: Path) -> Diagnosis:
    traces, log = write_planted_cause(planted, folder)
    return tt.diagnose(tt.ingest(traces, [log], tz="+00:00", out=folder / "run.tracetool"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Planted, Diagnosis]]:
    folder = tmp_path_factory.mktemp("causes")
    made = {name: MAKERS[name]() for name in QUICK} | {"clean": clean()}
    return {name: (planted, diagnosed(planted, folder / name)) for name, planted in made.items()}


@pytest.mark.parametrize("name", QUICK)
def test_the_first_finding_is_what_was_planted(runs: dict[str, tuple[Planted, Diagnosis]], name: str) -> None:
    planted, found = runs[name]
    first = found.findings[0]
    assert first.cause == planted.cause
    assert first.energy_j == pytest.approx(planted.joules, rel=0.1)
    assert first.energy_low_j < planted.joules < first.energy_high_j


def test_a_clean_run_has_no_finding(runs: dict[str, tuple[Planted, Diagnosis]]) -> None:
    assert all(one.share < CLEAN for one in runs["clean"][1].findings)


@pytest.mark.parametrize("name", (*QUICK, "clean"))
def test_causes_sum_to_the_run(runs: dict[str, tuple[Planted, Diagnosis]], name: str) -> None:
    found = runs[name][1]
    *parts, whole = found.causes["energy_j"].to_list()
    assert sum(parts) == pytest.approx(whole, rel=1e-9)
    assert found.rows["energy_j"].sum() == pytest.approx(whole, rel=1e-9)
    assert set(found.causes["cause"][:-1]) <= set(NAMES)
    attributed = tt.summary(found.source.energies.run.path).parts["energy_j"][-1]
    assert whole == pytest.approx(attributed, rel=1e-9)


@pytest.mark.parametrize("name", QUICK)
def test_every_sentence_has_a_figure_of_the_tables(
    runs: dict[str, tuple[Planted, Diagnosis]], name: str
) -> None:
    found = runs[name][1]
    for one in found.findings:
        claim, shown, proved = (_numbers(s) for s in one.sentences)
        rows = found.rows.filter(pl.col("cause") == one.cause)
        assert claim[0] == pytest.approx(rows["energy_j"].sum(), rel=1e-3)
        assert claim[-1] == pytest.approx(100 * rows["energy_j"].sum() / found.source.energy_j, abs=0.06)
        sums = rows.group_by("signature").agg(pl.col("energy_j", "time_ms").sum())
        top = sums.sort("energy_j", descending=True)
        expected = top["energy_j" if rows["signature"].null_count() == 0 else "time_ms"][0]
        assert shown[0] == pytest.approx(expected, rel=1e-3)
        assert one.proof is not None
        assert one.proof.without_ms <= one.proof.makespan_ms * 1.0001
        assert proved[-3] == pytest.approx(one.proof.saving_j, rel=1e-3) or one.cause in shown


def _numbers(sentence: str) -> list[float]:
    text = sentence.partition("(90 %")[0] if "saves" not in sentence else sentence
    tail = re.findall(r"([\d.]+) % of the run", sentence)
    found = [float(n.replace(",", "")) for n in re.findall(r"(?<![\w.])\d[\d,]*\.?\d*", text)]
    found = [n for n in found if not (n == 90 and "saves" in sentence)]
    return [*found, *map(float, tail)]


def test_useful_work_is_no_finding(runs: dict[str, tuple[Planted, Diagnosis]]) -> None:
    assert all(one.cause != USEFUL for _, found in runs.values() for one in found.findings)


def test_a_run_without_a_log_says_so(tmp_path: Path) -> None:
    planted = MAKERS["few_rows"]()
    traces, _ = write_planted_cause(planted, tmp_path)
    found = tt.diagnose(tt.ingest(traces, out=tmp_path / "run.tracetool"))
    assert found.findings[-1].cause == "telemetry"
    assert _numbers(found.findings[-1].sentences[0])[0] == pytest.approx(found.source.energy_j, rel=1e-3)
