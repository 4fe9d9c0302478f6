"""Runs compared by what they name: groups sum to the whole, limits name them, as attribute groups them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tests.sources.makers import kineto_document
from tests.sources.test_modules import planted
from tracetool.compare.run_options import RunOptions, compared_by
from tracetool.compare.run_side import load_run
from tracetool.replay.energy_by import energy_by
from tracetool.replay.group_energy import run_energies
from tracetool.replay.groups import KEYS
from tracetool.tables.run import Run

SLOWED = "Model_0.Layer_*.Linear_*[0]"


def _run(folder: Path, name: str, factor: float) -> Path:
    events: list[dict[str, Any]] = planted()
    step = {"name": "ProfilerStep#0", "ts": 50.0, "dur": 1900.0, "pid": 9, "tid": 1}
    events.append({"ph": "X", "cat": "user_annotation", "args": {}, **step})
    for event in events:
        if event["cat"] == "kernel" and event["name"] in ("kernel_1", "kernel_3"):  # the first of each layer
            event["dur"] *= factor
    (folder / f"{name}.json").write_text(json.dumps(kineto_document(events)))
    tt.ingest(folder / f"{name}.json", out=folder / name)
    return folder / name


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("groups")
    return _run(folder, "base.tracetool", 1.0), _run(folder, "head.tracetool", 3.0)


def test_groups_of_a_comparison_sum_to_its_kernels(sides: tuple[Path, Path]) -> None:
    table = tt.diff(*sides, by="module").table
    groups = table.filter(pl.col("level") == "group")
    kernels = table.filter(pl.col("level") == "kernel")
    for column in ("energy_base_j", "energy_head_j", "time_base_ms", "time_head_ms", "energy_change_j"):
        assert groups[column].sum() == pytest.approx(kernels[column].sum(), rel=1e-9)
    changed = groups.filter(pl.col("time_change_pct").abs() > 1e-6)
    assert changed["name"].to_list() == [SLOWED]
    assert changed["time_change_pct"][0] == pytest.approx(200.0)
    causes = groups.select(pl.sum_horizontal("work_j", "duration_j", "power_j", "clock_j"))
    assert causes.to_series().to_list() == pytest.approx(groups["energy_change_j"].to_list(), abs=1e-12)
    names = tt.energy_by(sides[0], ["module"]).groups["name"].to_list()
    assert set(groups["name"]) == set(names) - {"run", "(idle)"}


def test_a_limit_on_a_group_fails_that_group_alone(sides: tuple[Path, Path], tmp_path: Path) -> None:
    limits = [f"{SLOWED}:time=5%", "Model_0:time=5%", "*:time=20%"]
    compared = tt.diff(*sides, by="module", fail_on=limits)
    broken = {m["scope"] for m in json.loads(compared.to_json())["metrics"] if m["verdict"] == "regressed"}
    assert SLOWED in broken
    assert "Model_0" not in broken
    assert compared.failed
    settings = tmp_path / "tracetool.toml"
    settings.write_text('fail-on = ["Model_0:time=5%"]\nby = "module"\n')
    assert not tt.check(sides[1], base=sides[0], config=settings).failed
    settings.write_text(f'fail-on = ["{SLOWED}:time=5%"]\n')
    assert tt.check(sides[1], base=sides[0], config=settings, by="module").failed
    with pytest.raises(tt.BadInput, match="no group"):
        tt.diff(*sides, by="module", fail_on=["Nothing_0:time=5%"])


def test_idle_time_is_compared_by_its_cause(sides: tuple[Path, Path]) -> None:
    limit = "GPU 0 / idle: host-bound"
    compared = tt.diff(*sides, by="gpu,gap", fail_on=[f"{limit}:time=5%"])
    table = compared.table
    groups, whole, gap = (table.filter(pl.col("level") == level) for level in ("group", "total", "gap"))
    idle = groups.filter(pl.col("name").str.contains("idle"))
    for column in ("time_base_ms", "energy_head_j", "gaps_j"):
        assert idle[column].sum() == pytest.approx(gap[column][0], rel=1e-9), column
    assert groups["energy_base_j"].sum() == pytest.approx(whole["energy_base_j"][0], rel=1e-9)
    assert limit in {m["scope"] for m in json.loads(compared.to_json())["metrics"]}


#: Every key of ``--by``, and pairs.
BY = (*KEYS, "gpu,module", "gap,gpu")


def test_commands_take_the_same_keys(sides: tuple[Path, Path], tmp_path: Path) -> None:
    run = Run.open(sides[0])
    recorded, energies = tt.predict(run.path), run_energies(run)
    for by in BY:
        if by == "phase":  # of serving, which this run has none of
            for ask in (recorded.rows, lambda by: tt.diff(run.path, by=by)):
                with pytest.raises(tt.BadInput, match="phase"):
                    ask(by)
            continue
        frame = energy_by(run, by.split(","), energies=energies).frame
        names = {name for name in frame["name"] if name != "run" and not name.endswith("(idle)")}
        assert names, by
        assert recorded.rows(by).height, by
        assert set(load_run(run.path, "anchored", RunOptions(by=compared_by(by))).groups()) == {
            name.partition(" #")[0] if by == "signature" else name for name in names
        }, by
    table = tt.diff(run.path, by=by).table
    assert set(table.filter(pl.col("level") == "group")["name"]) <= names
    assert not tt.check(run.path, base=run.path, by=by).failed
    page = tt.report(run.path, tmp_path / "page.html", by=by).path.read_text("utf-8")
    assert all(name in page for name in names)


def test_without_groups_nothing_is_grouped(sides: tuple[Path, Path]) -> None:
    plain, grouped = (tt.diff(*sides, by=by) for by in (None, "gpu,module"))
    assert not plain.table.filter(pl.col("level") == "group").height
    assert "groups" not in json.loads(plain.to_json())
    total = [d.table.filter(pl.col("level") == "total") for d in (plain, grouped)]
    assert total[0]["energy_head_j"][0] == pytest.approx(total[1]["energy_head_j"][0], rel=1e-12)


def test_one_run_by_group_has_the_sums_of_its_signatures(sides: tuple[Path, Path]) -> None:
    table = tt.diff(sides[0], by="module").table
    compared = table.filter(pl.col("level") == "signature")
    groups = table.filter(pl.col("level") == "group")
    assert groups.height > 3
    shaped = compared.filter(pl.col("compared_pct") > 0)["time_ms"].sum()
    assert groups["time_ms"].sum() == pytest.approx(shaped, abs=1e-9)
