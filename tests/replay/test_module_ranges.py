"""Modules from ranges: paths of NVTX and roctx marks, numbers folded, steps left out."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tests.sources.makers import nsys_tables, write_tables
from tracetool.replay.module_paths import _folded, range_modules
from tracetool.replay.range_tree import STEP


def _ranges(*rows: tuple[int, int | None, str]) -> pl.DataFrame:
    schema = {"range": pl.Int64, "parent": pl.Int64, "name": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def _named(ranges: pl.DataFrame, *inner: int | None, depth: int | None = None) -> list[str]:
    return range_modules(ranges, pl.Series(inner, dtype=pl.Int64), depth).to_list()


def test_hooks_of_serving_engines_name_modules_by_whole_paths() -> None:
    def mark(name: str) -> str:
        return f"{{'Module': '{name}', 'TrainableParams': {{'weight': [4, 4]}}, 'Inputs': [[1, 4]]}}"

    ranges = _ranges(
        (0, None, mark("model")), (1, 0, mark("model.layers.0")), (2, 1, mark("model.layers.0.mlp")),
        (3, 0, mark("model.layers.17")), (4, 3, mark("model.layers.17.mlp")),
    )  # fmt: skip
    assert _named(ranges, 2, 4, 3, None) == [
        "model.layers.*.mlp", "model.layers.*.mlp", "model.layers.*", "(no module)",
    ]  # fmt: skip
    assert _named(ranges, 2, depth=1) == ["model"]


def test_plain_ranges_nest_and_steps_do_not_count() -> None:
    ranges = _ranges(
        (0, None, "training_step_3"), (1, 0, "forward"), (2, 1, "layer 0"), (3, 2, "self_attention"),
        (4, None, "training_step_4"), (5, 4, "forward"), (6, 5, "layer 1"), (7, 6, "resnet50 conv2d_1x1"),
        (8, None, "iteration 5"),
    )  # fmt: skip
    assert _named(ranges, 3, 6, 7, 4, 8) == [
        "forward.layer *.self_attention", "forward.layer *", "forward.layer *.resnet50 conv2d_1x1",
        "(no module)", "(no module)",
    ]  # fmt: skip
    assert _named(ranges, 3, depth=2) == ["forward.layer *"]
    assert pl.Series(["training_step_12", "ProfilerStep#4", "layer_3"]).str.contains(STEP).to_list() == [
        True, True, False,
    ]  # fmt: skip


def test_marks_in_an_export_group_its_kernels(tmp_path: Path) -> None:
    tables = nsys_tables()
    columns, rows = tables["NVTX_EVENTS"]
    who = rows[0][-1]
    rows = [
        *rows,
        [970_000, 1_299_000, 59, "decoder.layers.0.mlp", None, who],
        [1_380_000, 1_399_000, 59, "decoder.layers.1.mlp", None, who],
    ]
    path = write_tables(tmp_path / "t.sqlite", {**tables, "NVTX_EVENTS": (columns, rows)})
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute("select count(*) from NVTX_EVENTS").fetchone()[0] == len(rows)
    run = tt.ingest(path, out=tmp_path / "run.tracetool")
    groups = tt.energy_by(run, ["module"]).groups
    launches = dict(groups.select("name", "launches").iter_rows())
    assert launches["decoder.layers.*.mlp"] >= 2
    assert sum(n for name, n in launches.items() if name != "run") == launches["run"]
    assert groups["energy_j"][:-1].sum() == pytest.approx(groups["energy_j"][-1], rel=1e-9)


def test_instances_beside_each_other_are_counted_from_zero() -> None:
    """Two layers of a query and a value each: both layers are one name, the two in them stay apart."""
    nodes = pl.DataFrame(
        {"node": range(7), "above": [-1, 0, 1, 1, 0, 4, 4],
         "name": ["Model_0", "Layer_0", "Linear_0", "Linear_1", "Layer_1", "Linear_2", "Linear_3"]}
    )  # fmt: skip
    assert _folded(nodes)["label"].to_list() == [
        "Model_0", "Layer_*", "Linear_*[0]", "Linear_*[1]", "Layer_*", "Linear_*[0]", "Linear_*[1]",
    ]  # fmt: skip
