"""What the steps of runs leave unsure in their means, and what of it is no noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.compare.folders import write_folder
from tracetool.compare.baseline_store import Store
from tracetool.compare.run_options import RunOptions
from tracetool.compare.run_side import load_run
from tracetool.compare.scopes import FIGURES
from tracetool.compare.spread import PRIOR, Spread, learned, moderate
from tracetool.compare.steps import mean_variance, step_times, within


def test_the_variance_of_a_mean_is_the_one_many_runs_show() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.03, (400, 31))
    alike = noise.copy()  # each step half of the one before it
    for j in range(1, 31):
        alike[:, j] = 0.5 * alike[:, j - 1] + np.sqrt(0.75) * noise[:, j]
    for values, least in ((1 + noise, 0.9), (1 + alike, 0.6)):
        told = np.mean([mean_variance(v[1:, None])[0] for v in values])
        shown = values[:, 1:].mean(axis=1).var()
        assert least < told / shown < 1.1


def test_what_recurs_in_every_run_is_no_noise() -> None:
    rng = np.random.default_rng(3)
    pattern = np.where(np.arange(24) % 11 == 0, 3.0, 1.0)[:, None]
    runs = [pattern * (1 + rng.normal(0, 0.01, (24, 1))) for _ in range(6)]
    many = within([(r, r) for r in runs], FIGURES["energy"], 1)[0]
    one = within([(runs[0], runs[0])], FIGURES["energy"], 1)[0]
    assert many < 3 * 0.01**2 / 24 * 1.5
    assert one > 10 * many


def test_no_steps_leave_nothing_unsure() -> None:
    assert within([], FIGURES["time"], 3).tolist() == [0, 0, 0]
    assert mean_variance(np.ones((1, 2))).tolist() == [0, 0]
    assert mean_variance(np.zeros((9, 1))).tolist() == [0]


def test_unsteady_steps_widen_what_is_expected_and_keep_the_prior() -> None:
    rng = np.random.default_rng(4)
    base, head = np.exp(rng.normal(0, 0.04, (2, 3, 1)))
    assert not moderate(base, head, PRIOR).fits[0]
    found = moderate(base, head, PRIOR, np.array([0.04**2]))
    assert found.fits[0]
    assert 0.02**2 < found.variance[0] < 0.06**2


@pytest.mark.parametrize("true", [0.003, 0.01, 0.03])
def test_families_together_teach_the_spread(true: float) -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(200):
        shared = rng.normal(0, true * np.sqrt(0.7), (2, 4, 1))
        base, head = np.exp(shared + rng.normal(0, true * np.sqrt(0.3), (2, 4, 8)))
        found.append(learned(base, head, PRIOR).relative)
    middle = float(np.median(found))
    assert 0.95 * min(true, 0.01) <= middle <= 1.1 * max(true, 0.01)
    if true > 0.01:
        assert middle > 0.02  # the prior gives way


def test_single_runs_teach_nothing() -> None:
    one = np.array([[100.0, 50.0]])
    stated = Spread(0.004, 30.0, "stated")
    assert learned(one, 1.1 * one, stated) is stated
    assert learned(one[:, :0], one[:, :0], PRIOR) is PRIOR


def test_copies_of_one_run_teach_nothing() -> None:
    same = np.array([[100.0, 50.0]] * 3)
    assert learned(same, same, PRIOR) is PRIOR


def test_a_baseline_keeps_its_steps(tmp_path: Path) -> None:
    run = load_run(write_folder(tmp_path / "r.tracetool", steps=8), "anchored", RunOptions())
    steps = run.classes.steps_taken
    assert steps is not None
    assert len(steps.span_s) == 8
    store = Store(tmp_path / "kept")
    store.add(run, branch="main", commit="abc")
    back = store.read(store.entries()[0]).classes
    assert back.steps_taken is not None
    assert back.steps_taken.times.sort("step", "row").equals(steps.times.sort("step", "row"))
    assert back.steps_taken.span_s.tolist() == steps.span_s.tolist()
    assert back.classes.equals(run.classes.classes)
    times = steps.times.group_by("row").agg(pl.col("time_s").sum()).sort("row")["time_s"]
    np.testing.assert_allclose(times, run.classes.classes["time_s"])


@pytest.mark.parametrize(
    ("launches", "kept"), [([10, 19, 20, 30, 40], [0, 1, 2, 3, 4]), ([10, 19, 20, 21, 40], [1, 2, 3])]
)
def test_steps_of_other_work_are_left_out_where_most_are_alike(launches: list[int], kept: list[int]) -> None:
    """Within a tenth of the median of 20 launches: two of five steps are no rule, three are."""
    number = np.repeat(np.arange(5), launches)
    kernels = pl.DataFrame(
        {"signature": 7, "range": None, "start_ns": 1000 * np.arange(len(number)), "duration_ns": 600},
        schema_overrides={"range": pl.Int64},
    )  # fmt: skip
    ranges = pl.DataFrame({"range": [0], "name": ["x"]})
    classes = pl.DataFrame({"range": [""], "group": [""], "signature": [7]})
    found = step_times(kernels, pl.Series(number), ranges, classes)
    assert found.times["step"].to_list() == kept
    assert found.times["time_s"].to_list() == pytest.approx([6e-7 * launches[i] for i in kept])
    spans = [1e-6 * n for n in launches[:-1]] + [1e-6 * launches[-1] - 4e-7]
    assert found.span_s.tolist() == pytest.approx([spans[i] for i in kept])
