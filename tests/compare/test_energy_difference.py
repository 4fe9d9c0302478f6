"""Why two runs differ: causes sum to the change exactly, and are those that were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracetool as tt
from tests.replay.planted_causes import Job, Planted, clean
from tests.replay.planted_files import write_planted_cause
from tests.sentences import close, numbers
from tracetool.api.diagnose_pair import PairDiagnosis, parse_pair_work
from tracetool.compare.energy_difference.difference import COLUMNS
from tracetool.compare.energy_difference.factors import CAUSES, MatchedWork, split
from tracetool.compare.energy_difference.matching import matched_classes
from tracetool.compare.energy_difference.sentences import causes_of_change, headline, shown_by
from tracetool.core.errors import BadInput

PASSES = 200
FAST_MHZ = 1890


def ingested(planted: Planted, folder: Path, *, log: bool = True) -> tt.Run:
    traces, power = write_planted_cause(planted, folder)
    return tt.ingest(traces, [power] if log else [], tz="+00:00", out=folder / "run.tracetool")


def fast() -> Planted:
    """The clean run's kernels at a higher clock, half as often."""
    job = Job(FAST_MHZ)
    job.steps(PASSES // 2, lambda rank: rank.run(job.usual()))
    return job.planted("", 0.0)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> PairDiagnosis:
    folder = tmp_path_factory.mktemp("pair")
    base, head = ingested(clean(), folder / "base"), ingested(fast(), folder / "head")
    return tt.diagnose_pair(base.path, head.path, work={"passes": (PASSES, PASSES / 2)})


def test_causes_and_rows_sum_to_the_change(pair: PairDiagnosis) -> None:
    *parts, change = pair.causes["change_j"].to_list()
    assert sum(parts) == pytest.approx(change, rel=1e-9)
    rows = pair.rows
    assert rows["change_j"].sum() == pytest.approx(change, rel=1e-9)
    by_row = rows.select(pl.sum_horizontal(COLUMNS.values()) - pl.col("change_j")).to_series()
    assert by_row.abs().max() < 1e-9 * pair.source.base.energy_j  # type: ignore[operator]
    for side, of in (("base", pair.source.base), ("head", pair.source.head)):
        whole = tt.diagnose(of.cut.run).source.energy_j if side == "head" else of.cut.energy_j
        assert rows[f"energy_{side}_j"].sum() * of.units == pytest.approx(whole, rel=1e-9)
        (gpu,) = of.cut.sides
        interval_j = gpu.energy.high_j[-1] - gpu.energy.low_j[-1]
        assert of.half_width_j * of.units == pytest.approx(interval_j / 2.0)


def test_a_higher_clock_is_named(pair: PairDiagnosis) -> None:
    true = []
    for mhz in (1095, FAST_MHZ):
        job = Job(mhz)
        step = job.usual()
        true.append(sum(job.costs[kernel.kind].joules for kernel in step))
    whole = pair.causes.row(-1, named=True)
    assert whole["change_j"] == pytest.approx(true[1] - true[0], rel=0.1)
    assert whole["change_low_j"] < true[1] - true[0] < whole["change_high_j"]
    first = pair.causes.row(0, named=True)
    assert first["cause"] == "clock"
    assert first["change_j"] == pytest.approx(whole["change_j"], rel=0.35)
    assert set(pair.rows["level"]) <= {"signature", "idle"}


def test_every_number_of_every_sentence_is_one_of_the_tables(pair: PairDiagnosis) -> None:
    rows = pair.rows
    base_j, head_j = (rows[f"energy_{s}_j"].sum() for s in ("base", "head"))
    whole = pair.causes.row(-1, named=True)
    ends = [whole["change_low_j"], whole["change_high_j"]]
    assert numbers(headline(pair.source)) == close([abs(head_j - base_j), head_j, base_j, *ends])
    assert causes_of_change(pair.source)
    for one in causes_of_change(pair.source):
        column = COLUMNS[one.cause]
        total = rows[column].sum()
        claim, shown = one.sentences
        told = numbers(claim)
        assert told[:3] == close([total, one.change_low_j, one.change_high_j])
        assert told[3] == pytest.approx(100 * total / (head_j - base_j), abs=0.051)
        top = rows.sort(pl.col(column) * np.sign(total), descending=True).row(0, named=True)
        place = top["operator"] or top["name"]
        pairs = [shown_figures(top, side) for side in ("base", "head")]
        unit = next(u for u in ASKED[one.cause] if pairs[0][u] != pytest.approx(pairs[1][u], rel=1e-6))
        assert numbers(shown, place) == close([top[column], pairs[0][unit], pairs[1][unit]])
        assert f" {unit.removesuffix('es')}" in shown


#: What shows a cause, where it differs; else the joules.
ASKED = {
    "work": ("GFLOP", "launches", "J"), "power": ("W", "J"), "clock": ("J",), "traffic": ("J",),
    "idle": ("ms", "J"), "efficiency": ("ms", "J"),
}  # fmt: skip


def shown_figures(row: dict[str, Any], side: str) -> dict[str, float]:
    time_ms, energy_j = row[f"time_{side}_ms"], row[f"energy_{side}_j"]
    return {
        "GFLOP": (row[f"operations_{side}"] or 0.0) * 1e-9, "launches": row[f"launches_{side}"],
        "ms": time_ms, "J": energy_j, "W": 1e3 * energy_j / time_ms,
    }  # fmt: skip


def test_figures_that_show_a_cause_differ_in_print() -> None:
    """Equal counts show nothing: of one launch in each run its operations are stated, to enough digits."""
    row: dict[str, Any] = {"operator": "mm", "name": "gemm", "family": "gemm", "work_j": 2.0}
    for side, operations in (("base", 2.00001e9), ("head", 2.00002e9)):
        row |= {f"launches_{side}": 1.0, f"operations_{side}": operations}
        row |= {f"time_{side}_ms": 3.0, f"energy_{side}_j": 5.0}
    assert shown_by("work", row, "work_j") == (
        "shown by: +2 J of it in mm, where 2.00001 GFLOP became 2.00002"
    )
    assert numbers(shown_by("power", row | {"power_j": 1.0}, "power_j")) == [1.0, 5.0]
    row |= {"operations_head": None, "launches_head": 2.0}
    assert shown_by("work", row, "work_j").endswith("1 launch became 2")
    row |= {"traffic_j": -1.0, "energy_head_j": 6.0}  # a figure that moved the other way shows no cause
    assert shown_by("traffic", row, "traffic_j").endswith("5 J became 6: what else changed outweighs it")


def test_a_pair_without_logs_says_so(tmp_path: Path) -> None:
    run = ingested(clean(), tmp_path, log=False)
    same = tt.diagnose_pair(run.path, run.path)
    assert same.causes["change_j"].to_list() == [0.0]
    assert same.causes["change_low_j"][-1] == same.causes["change_high_j"][-1] == 0.0
    predicted = [note for note in same.notes if "no power log" in note]
    assert [numbers(note)[0] for note in predicted] == close([same.source.base.cut.energy_j] * 2)
    with pytest.raises(BadInput, match="positive"):
        tt.diagnose_pair(run.path, run.path, work={"passes": (0.0, 1.0)})


POSITIVE = st.floats(1e-6, 1e6)
ANY = st.one_of(st.just(0.0), POSITIVE)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(ANY, ANY, ANY, ANY, ANY, POSITIVE, POSITIVE, POSITIVE, POSITIVE), min_size=1, max_size=8
    )
)
def test_parts_of_any_pair_sum_to_its_change(values: list[tuple[float, ...]]) -> None:
    pairs = MatchedWork(*np.array(values, dtype=np.float64).T)
    parts = split(pairs)
    assert list(parts) == list(CAUSES)
    change = pairs.energy_head - pairs.energy_base
    size = np.maximum(pairs.energy_head + pairs.energy_base, 1e-12)
    np.testing.assert_allclose(np.sum(list(parts.values()), axis=0) / size, change / size, atol=1e-9)


def test_work_is_matched_by_signature_then_operator_then_module() -> None:
    columns = ("operator", "shapes", "name", "geometry", "module", "family")
    base = pl.DataFrame(
        [
            ("mm", "[8, 8]", "gemm_a", "1", "layer", "gemm"),
            ("mm", "[4, 4]", "gemm_b", "1", "layer", "gemm"),
            ("relu", "[8]", "relu", "1", "layer", "elementwise"),
            ("", "", "old", "1", "head", "norm"),
            ("", "", "gone", "1", "", "scan"),
        ],
        schema=columns,
        orient="row",
    )
    head = pl.DataFrame(
        [
            ("mm", "[8, 8]", "gemm_a", "1", "layer", "gemm"),
            ("mm", "[4, 4]", "gemm_c", "2", "layer", "gemm"),
            ("fused", "[8]", "fused", "1", "layer", "norm"),
            ("", "", "new", "1", "head", "norm"),
            ("", "", "more", "1", "", "sort"),
        ],
        schema=columns,
        orient="row",
    )
    placed = [dict(f.select("name", "level").iter_rows()) for f in matched_classes(base, head)]
    assert placed[0] == {
        "gemm_a": "signature", "gemm_b": "operator", "relu": "module", "old": "module", "gone": "base only",
    }  # fmt: skip
    assert placed[1] == {
        "gemm_a": "signature", "gemm_c": "operator", "fused": "module", "new": "module", "more": "head only",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["tokens=", "tokens=a,b", "=3", "to kens=1,2"])
def test_work_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="UNIT=N,M"):
        parse_pair_work(text)
