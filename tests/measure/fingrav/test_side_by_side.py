"""Several kernels side by side: components, who draws most, and neighbors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.documents import check_document
from tracetool.cli.app import run as command
from tracetool.core.errors import BadInput
from tracetool.measure.fingrav.campaign import Profiled, profile_tables
from tracetool.measure.fingrav.kernel_choice import chosen_kernel, chosen_kernels
from tracetool.measure.fingrav.side_by_side import side_by_side
from tracetool.report.pictures.kernel_power import kernel_power

#: Watts of each component; both kernels draw 90 W in the memory.
WATTS = {
    "gemm_8k": {"xcd": 380.0, "iod": 130.0, "hbm": 90.0},
    "gemv_8k": {"xcd": 120.0, "iod": 160.0, "hbm": 90.0},
}
RUNS, EACH, LENGTH_US = 40, 8, 200.0


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A campaign of two kernels, 40 runs of each, sampled every millisecond."""
    folder, random = tmp_path_factory.mktemp("two"), np.random.default_rng(3)
    executions, samples, now = [], [], 0.0
    for number, (kernel, watts) in enumerate(WATTS.items()):
        for run in range(RUNS):
            now += 5000.0 + random.uniform(0.0, 1000.0)
            starts = now + LENGTH_US * np.arange(EACH)
            executions += [(kernel, number * RUNS + run, s, s + LENGTH_US) for s in starts.tolist()]
            for at in np.arange(now + random.uniform(0.0, LENGTH_US), now + EACH * LENGTH_US, 430.0).tolist():
                parts = {f"{c}_w": w * (1.0 + 0.01 * random.standard_normal()) for c, w in watts.items()}
                samples.append({"time_us": at, "power_w": sum(parts.values()), **parts})
            now += EACH * LENGTH_US
    pl.DataFrame(executions, ["kernel", "run", "start_us", "end_us"], orient="row").write_csv(
        folder / "e.csv"
    )
    pl.DataFrame(samples).write_csv(folder / "s.csv")
    return folder / "e.csv", folder / "s.csv"


def test_components_are_those_of_each_kernel(
    tables: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, picture = tmp_path / "o.parquet", tmp_path / "o.html"
    words = ["profile", str(tables[0]), "--power", str(tables[1]), "--kernel", "gemm", "--kernel", "gemv"]
    assert command([*words, "-o", str(out), "--picture", str(picture), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    check_document("profile", said)
    result = tt.profile_kernels(tables[0], power=tables[1], top=2)
    frame = pl.read_parquet(out)
    for kernel, watts in WATTS.items():
        rows = frame.filter((pl.col("kernel") == kernel) & (pl.col("kind") == "ssp"))
        found = dict(rows.select("component", "mean_w").iter_rows())
        assert found == pytest.approx({"total": sum(watts.values()), **watts}, rel=0.01)
        shares = dict(rows.select("component", "of_total").iter_rows())
        assert shares["xcd"] == pytest.approx(watts["xcd"] / sum(watts.values()), rel=0.01)
    of_highest = frame.filter((pl.col("component") == "xcd") & (pl.col("kind") == "ssp"))["of_highest"]
    assert sorted(of_highest) == pytest.approx([120.0 / 380.0, 1.0], rel=0.02)
    assert (frame["energy_mj"] - frame["mean_w"] * frame["duration_us"] * 1e-3).abs().max() < 1e-6
    assert set(result.findings) == set(said["findings"])
    assert [p.kernel for p in result.profiles] == [one["kernel"] for one in said["kernels"]]
    drawn = picture.read_text("utf-8")
    assert "mean iod [W]" in drawn and "gemv_8k" in drawn


def test_two_charts_beside_one_another_have_place_for_their_ticks_and_labels(
    tables: tuple[Path, Path],
) -> None:
    result = tt.profile_kernels(tables[0], power=tables[1], kernels=["gemm", "gemv"])
    model = kernel_power(result.compared).model
    for axis in (axis for row in model.children for chart in row.children for axis in chart.xaxis):
        assert axis.ticker.desired_num_ticks == 3
        assert len(axis.axis_label) <= 20


def test_sentences_say_who_draws_most_and_what_is_alike(tables: tuple[Path, Path]) -> None:
    findings = tt.profile_kernels(tables[0], power=tables[1], kernels=["gemm", "gemv"]).findings
    assert findings[0].startswith("total: most gemm_8k 60")
    assert findings[1].startswith("xcd: most gemm_8k 3") and "(63% of its power)" in findings[1]
    assert findings[2].startswith("iod: most gemv_8k 1")
    assert findings[3].startswith("hbm: alike, ")
    assert findings[4] == (
        "most unlike: gemm_8k puts 63% of its power into xcd and 22% into iod, gemv_8k 32% and 43%"
    )


def test_power_by_what_ran_before_stands_beside_that_of_the_isolated_kernel(tmp_path: Path) -> None:
    """A light kernel that inherits 100 W from a heavy one and, an idle time later, nothing."""
    executions, samples, now, random = [], [], 0.0, np.random.default_rng(1)
    for _ in range(80):
        for kernel, watts in (("heavy", 600.0), ("light", 300.0), ("", 0.0), ("light", 200.0)):
            count = 8 if kernel else 0
            executions += [(kernel, now + 200.0 * i, now + 200.0 * (i + 1)) for i in range(count)]
            at = now + random.uniform(0.0, 200.0) + np.arange(0.0, 200.0 * count - 200.0, 330.0)
            samples += [(t, watts * (1 + 0.005 * random.standard_normal())) for t in at.tolist()]
            now += 200.0 * count if kernel else 20_000.0
        now += 20_000.0
    paths = tmp_path / "e.csv", tmp_path / "s.csv"
    pl.DataFrame(executions, ["kernel", "start_us", "end_us"], orient="row").write_csv(paths[0])
    pl.DataFrame(samples, ["time_us", "power_w"], orient="row").write_csv(paths[1])
    contexts = tt.profile_kernels(paths[0], power=paths[1], top=2).contexts
    assert contexts is not None
    light = {
        c: (w, r)
        for k, c, w, r in contexts.select("kernel", "context", "mean_w", "of_isolated").iter_rows()
        if k == "light"
    }
    assert light["isolated"] == (pytest.approx(200.0, rel=0.02), pytest.approx(1.0))
    assert light["after-heavy"][1] == pytest.approx(1.5, rel=0.03)


def test_names_are_told_apart() -> None:
    times = {"gemm": 1.0, "gemm_split": 3.0, "norm": 2.0}
    assert chosen_kernel(times) == "gemm_split"
    assert chosen_kernels(times, ["gemm"], 2) == ["gemm", "gemm_split"]  # a whole name before a part of one
    assert chosen_kernels(times, [], 2) == ["gemm_split", "norm"]
    for parts, word in ((["gemm_s", "split"], "both mean gemm_split"), (["copy"], "no kernel called 'copy'")):
        with pytest.raises(BadInput, match=word):
            chosen_kernels(times, parts, None)


def test_one_kernel_is_nothing_to_compare(tables: tuple[Path, Path]) -> None:
    one: Profiled = profile_tables(tables[0], tables[1], kernel="gemm")
    with pytest.raises(BadInput, match="nothing to compare"):
        side_by_side([one])
    with pytest.raises(BadInput, match="nothing to compare"):
        tt.profile_kernels(tables[0], power=tables[1], kernels="gemm")
