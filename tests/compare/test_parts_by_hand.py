"""Parts of comparisons from a few numbers: limits on groups, waits, idle times, totals and stored steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.compare import frames
from tests.compare.folders import write_folder
from tests.compare.sides import NO_CLOCKS, STEP, make_run, side
from tracetool.compare.accuracy import breaches, compare_signatures
from tracetool.compare.baseline import add_baseline
from tracetool.compare.baseline_checks import check_steps
from tracetool.compare.changes import DiffRequest, _scoped, compare_sides
from tracetool.compare.changes_table import _SUMS, _kernels
from tracetool.compare.diff_run import without_waits
from tracetool.compare.energy_difference.classes import _per_launch, work_classes
from tracetool.compare.energy_difference.difference import _split
from tracetool.compare.energy_difference.factors import CAUSES, MatchedWork
from tracetool.compare.energy_difference.intervals import NamedIntervals, drawn_parts, side_by_side
from tracetool.compare.energy_difference.pairs import _matched_work
from tracetool.compare.idle_groups import idle_groups
from tracetool.compare.matched import CAUSES as DIFF_CAUSES
from tracetool.compare.pairing import pair_sides
from tracetool.compare.run_options import RunOptions
from tracetool.compare.thresholds import Threshold
from tracetool.hardware.load import load_gpu
from tracetool.replay.diagnosis.gpu_pieces import cut_run
from tracetool.replay.time_parts import IdleTimes
from tracetool.tables.run import Run, write_run
from tracetool.tables.schema import load_schema

NONE = np.zeros(0)


def test_a_limit_on_one_group_is_not_broken_by_another() -> None:
    """Of two groups, 40 % and 1 % off, a limit of 5 % is broken where it names the first, or both."""
    table = pl.DataFrame({
        "level": ["total", "group", "group"], "name": ["(compared)", "layer[0]", "layer[1]"],
        "time_error_pct": [20.0, 40.0, 1.0], "compared_pct": [100.0] * 3,
    })  # fmt: skip
    (broken,) = breaches(table, [Threshold("time", 0.05, "layer[0]")])
    assert "of layer[0] is +40.0 % off" in broken
    assert breaches(table, [Threshold("time", 0.05, "layer[1]")]) == ()
    assert breaches(table, [Threshold("time", 0.05, "layer*")]) == (broken.replace("[0]:", "*:"),)


@pytest.mark.parametrize(
    ("steps", "times"),
    [([0, -1], [0.1, 0.2]), ([0.0, 1.0], [0.1, 0.2]), ([0, 1], [1, 2])],
    ids=["a negative step", "half steps", "times that are counts"],
)
def test_a_baseline_whose_steps_have_no_number_or_no_time_is_refused(
    steps: list[float], times: list[float]
) -> None:
    header = {"step_span_s": [0.3, 0.3]}

    def stored(steps: list[float], times: list[float]) -> pl.DataFrame:
        return pl.DataFrame({"step": [steps], "step_time_s": [times], "time_s": [3.0]})

    check_steps(stored([0, 1], [0.1, 0.2]), header)
    with pytest.raises(ValueError, match="steps without a number"):
        check_steps(stored(steps, times), header)


def test_a_collective_launched_once_waited_all_its_wait() -> None:
    """The last rank comes 4 us after this one's only launch: 4 us are waiting, 16 us of the 20 transfer."""
    rows = compare_signatures(
        frames.signatures(launches=(1, 1, 1)), frames.predictions(), frames.energies(launches=(1, 1, 1))
    )
    replays: Any = SimpleNamespace(
        collective=np.array([False, True, False]),
        rows=type("Rows", (), {"family": np.array(["gemm", "collective", "copy"]), "__len__": lambda _: 3})(),
        work=SimpleNamespace(signature=np.array([0, 1, 2]), start_ns=np.array([0, 1_000, 50_000])),
        met=SimpleNamespace(member=np.array([1]), arrived_ns=np.array([5_000])),
    )
    found, notes = without_waits(rows, replays)
    collective = found.filter(pl.col("signature") == 1).row(0, named=True)
    assert collective["waiting_ms"] == pytest.approx(0.004)
    assert collective["compared"]
    # 18 us predicted against 16
    assert collective["time_error_pct"] == pytest.approx(12.5)
    assert [note.split(";")[0] for note in notes] == [
        "collectives: 0.004 ms waiting for other ranks, 0.016 ms transfer"
    ]
    others = found.filter(pl.col("signature") != 1)
    assert others["waiting_ms"].null_count() == 2


def test_idle_energy_is_shared_as_the_time_unless_powers_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second and three, of which one is near an activity: at 80 W near and 20 W later 40 and 120 J."""
    second = 10**9
    times = IdleTimes(
        start_ns=np.array([0, second]), end_ns=np.array([second // 2, 4 * second]),
        before=np.array([1, 2]), after=np.array([0, 1]), whole_index=np.arange(2),
    )  # fmt: skip
    grouped = SimpleNamespace(names=["work", "short", "long"], idle={0: times}, of_idle={0: np.array([1, 2])})
    monkeypatch.setattr("tracetool.compare.idle_groups.groups_of", lambda *_: grouped)
    run: Any = None
    alike, powered = (idle_groups(run, ("gap",), None, watts) for watts in (None, (80.0, 20.0)))
    for found in (alike, powered):
        assert found["name"].to_list() == ["short", "long"]
        assert found["time_s"].to_list() == pytest.approx([0.5 / 3.5, 3.0 / 3.5])
    assert alike["energy_j"].to_list() == pytest.approx([0.5 / 3.5, 3.0 / 3.5])
    assert powered["energy_j"].to_list() == pytest.approx([0.25, 0.75])


def test_idle_times_of_one_run_alone_keep_their_name() -> None:
    base = pl.DataFrame({"name": ["host", "tail"], "time_s": [1.0, 2.0], "energy_j": [80.0, 160.0],
                         "sd": [0.1, 0.2]})  # fmt: skip
    head = pl.DataFrame(
        {"name": ["copy", "host"], "time_s": [3.0, 4.0], "energy_j": [60.0, 70.0], "sd": [0.3, 0.4]}
    )
    found = side_by_side(base, head, "idle")
    assert found.rows["name_base"].to_list() == ["copy", "host", "tail"]
    assert found.rows["time_s_base"].to_list() == [0.0, 1.0, 2.0]
    assert found.rows["time_s_head"].to_list() == [3.0, 4.0, 0.0]
    assert found.base.tolist() == [0.0, 80.0, 160.0]
    assert found.head.tolist() == [60.0, 70.0, 0.0]
    assert [errors.tolist() for errors in found.sd] == [[0.0, 0.1, 0.2], [0.3, 0.4, 0.0]]


def test_a_clock_is_stated_by_a_log_alone(tmp_path: Path) -> None:
    silent = Run.open(write_folder(tmp_path / "silent.tracetool", steps=2))
    reading = {"time_ns": silent.kernels["start_ns"][1], "device": 0, "clock_mhz": 1200.0}
    log = load_schema("telemetry").conform(pl.DataFrame([{**reading, "source": "log.csv", "scope": "gpu"}]))
    tables = {p.stem: silent.table(p.stem) for p in silent.path.glob("*.parquet")}
    info = {"sources": [], "warnings": [], "clock": {"domain": "session"}}
    logged = Run.open(write_run(tmp_path / "logged.tracetool", {**tables, "telemetry": log}, info))
    of_silent, of_logged = (work_classes(cut_run(run), 1.0) for run in (silent, logged))
    assert not of_silent.clock_stated
    assert (of_logged.clock_stated, of_logged.clock_mhz) == (True, 1200.0)


def _table(head: Any, **how: Any) -> pl.DataFrame:
    left, right = side(make_run()), side(head)
    request = DiffRequest("predicted", ())
    return compare_sides(
        left, right, request, parts=pair_sides(left, right), clock_ratios=NO_CLOCKS, setting="", **how
    ).table


def test_a_step_takes_its_kernels_and_its_share_of_the_gaps() -> None:
    """235 us of kernels, and a tenth of 1 ms between them; of head a tenth of 2 ms."""
    total = _table(make_run(gap_s=2e-3)).filter(pl.col("level") == "total").row(0, named=True)
    assert (total["time_base_ms"], total["time_head_ms"]) == pytest.approx((0.335, 0.435))
    assert total["time_change_pct"] == pytest.approx(100.0 * (0.435 / 0.335 - 1.0))
    joules = 180e-6 * 400.0 + 20e-6 * (250.0 + 200.0) + 15e-6 * 220.0
    assert total["energy_base_j"] == pytest.approx(joules + 0.006)
    assert total["power_base_w"] == pytest.approx((joules + 0.006) / 0.335e-3)


def test_work_that_only_head_has_is_stated_without_a_change() -> None:
    """A sort of 50 us at 300 W that base is without: 15 mJ a step, which are no percentage of nothing."""
    added = ("sort_new", "sort", "aten::sort", "[[64]]", 50.0, 300.0)
    table = _table(make_run([*STEP, added])).filter(pl.col("name").is_in(["sort", "sort_new"]))
    assert set(table["level"]) == {"family", "kernel"}
    for row in table.to_dicts():
        assert (row["energy_base_j"], row["energy_head_j"]) == pytest.approx((0.0, 0.015))
        assert (row["energy_change_pct"], row["verdict"]) == (None, None)


@pytest.mark.parametrize("incomparable", [False, True])
def test_a_scope_is_told_by_the_mean_of_its_runs(incomparable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 and 102 J became 130 and 132: 29 % more, far beyond 5 %; other GPUs leave it open."""
    figure = SimpleNamespace(
        metric="energy", scope="gemm", base=np.array([100.0, 102.0]), head=np.array([130.0, 132.0]),
        limit=0.05, within=0.0, open_share=0.0,
    )  # fmt: skip
    monkeypatch.setattr("tracetool.compare.changes.scope_figures", lambda *_: [figure])
    nothing: Any = None
    (judged,) = _scoped(nothing, nothing, DiffRequest("measured"), incomparable)
    assert (judged.name, judged.scope, judged.base, judged.head) == ("energy", "gemm", 101.0, 131.0)
    assert judged.change == pytest.approx((130.0 * 132.0 / (100.0 * 102.0)) ** 0.5 - 1.0)
    assert judged.verdict == ("inconclusive" if incomparable else "regressed")


@pytest.mark.parametrize("foreign", [True, False])
def test_idle_energies_err_apart_on_two_gpus_and_together_on_one(foreign: bool) -> None:
    """10 J each, known to a tenth: their difference to the root of two of it, or exactly."""
    one = np.ones(1)
    figures = {"energy_j": 1.0, "sd": 0.0, "family": "gemm"}
    joined = pl.DataFrame({f"{name}_{s}": [v] for name, v in figures.items() for s in ("base", "head")})
    sides: Any = [SimpleNamespace(cut=SimpleNamespace(measured=False))] * 2
    nothing: Any = None
    idle = NamedIntervals(nothing, 10.0 * one, 10.0 * one, (0.1 * one, 0.1 * one))
    none = NamedIntervals(nothing, np.zeros(0), np.zeros(0), (np.zeros(0), np.zeros(0)))
    drawn = drawn_parts(sides, joined, MatchedWork(*[one] * 9), (idle, none), 1.0, foreign=foreign)
    assert drawn["idle"].std() == pytest.approx(2.0**0.5 if foreign else 0.0, rel=0.15, abs=1e-12)
    assert drawn["difference"] == pytest.approx(drawn["idle"], abs=1e-9)


def test_another_gpu_changes_the_roof_as_it_does_on_the_mean_of_both_runs_work() -> None:
    """The base's work takes 4 ms here and 2 there, the head's 9 there and 6 here."""
    columns: dict[str, Any] = dict.fromkeys(
        (f"{name}_{side}" for name in ("energy_j", "time_s", "flops", "calls") for side in ("base", "head")),
        1.0,
    )
    roofs = {"roof_s_base": 4.0, "roof_there_s_base": 2.0, "roof_s_head": 6.0, "roof_there_s_head": 9.0}
    joined = pl.DataFrame([{"level": "signature"} | columns | roofs])
    abroad, at_home = (_matched_work(joined, foreign=foreign) for foreign in (True, False))
    assert abroad.gpu.tolist() == pytest.approx([(0.5 / 1.5) ** 0.5])
    assert (abroad.roof.tolist(), at_home.roof.tolist()) == ([1.5], [4.5])
    assert (at_home.gpu.tolist(), at_home.clock_time.tolist(), at_home.clock_power.tolist()) == ([1.0],) * 3


@pytest.mark.parametrize("options", [None, RunOptions(gpu="h100-sxm")])
def test_baselines_are_read_as_asked(
    options: RunOptions | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(*given: Any) -> Any:
        asked.append(given[2])
        raise KeyboardInterrupt

    monkeypatch.setattr("tracetool.compare.baseline.expand", lambda runs: [Path(r) for r in runs])
    monkeypatch.setattr("tracetool.compare.baseline.chosen_basis", lambda *_: "measured")
    monkeypatch.setattr("tracetool.compare.baseline.load_run", load)
    with pytest.raises(KeyboardInterrupt):
        add_baseline(tmp_path, ["a"], options=options)
    assert asked == [options or RunOptions()]


def test_a_roof_is_the_longer_of_computing_and_moving_on_either_gpu() -> None:
    """1 TFLOP of BF16 beside 1 MB, and 1 GFLOP beside 10 GB; without a shape there is none."""
    schema = load_schema("signatures")
    needed = {c.name: 1 for c in schema.columns if not c.nullable and c.type != "string"}
    texts = {"name": ["a", "b", "c"], "kind": ["kernel"] * 3, "family": ["gemm"] * 3}
    table = schema.conform(pl.DataFrame({**texts, **needed, "signature": [0, 1, 2]}))
    flops, moved = np.array([1e12, 1e9, 1e12]), np.array([1e6, 1e10, 1e6])
    signatures = pl.DataFrame(
        {"signature": [0, 1, 2], "family": ["gemm"] * 3, "flops": flops, "dram_bytes": moved,
         "predicted_from": ["shapes", "shapes", "trace"]}
    )  # fmt: skip
    replays = SimpleNamespace(rows=SimpleNamespace(text=lambda _: np.full(3, "bf16", dtype=object)))
    cuts: list[Any] = [
        SimpleNamespace(
            run=SimpleNamespace(signatures=table),
            recorded=SimpleNamespace(
                gpu=gpu, totals=[{"clock_mhz": mhz}], signatures=signatures, replays=replays
            ),
        )
        for gpu, mhz in (("a100-sxm", 1200.0), ("h100-sxm", 1500.0))
    ]  # fmt: skip
    found = _per_launch(cuts[0], cuts[1])
    for name, gpu, mhz in (("roof_s", "a100-sxm", 1200.0), ("roof_there_s", "h100-sxm", 1500.0)):
        one = load_gpu(gpu)
        computing = 1e12 / one.peak_flops("tensor_bf16", mhz)
        assert found[name].to_list() == pytest.approx([computing, 1e10 / one.dram_bytes_per_s, None])


def test_a_cause_lies_between_the_twentieths_of_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1001 energies from 0 to 1000 J a twentieth lies below 50 and one above 950."""
    figures = ("launches", "flops", "time_s", "energy_j", "name", "operator", "module", "family")
    joined = pl.DataFrame(
        {"level": ["signature"], **{f"{name}_{s}": [None] for name in figures for s in ("base", "head")}},
        schema_overrides={f"{name}_{s}": pl.Float64 for name in figures[:4] for s in ("base", "head")},
    )  # fmt: skip
    nothing: Any = None
    none = NamedIntervals(joined.clear(), NONE, NONE, (NONE, NONE))
    where = "tracetool.compare.energy_difference.difference"
    parts = {cause: np.array([500.0 if cause == "work" else 0.0]) for cause in CAUSES}
    monkeypatch.setattr(f"{where}.side_by_side", lambda *_: none)
    monkeypatch.setattr(f"{where}.all_parts", lambda *_: parts)
    monkeypatch.setattr(
        f"{where}.drawn_parts", lambda *_, **__: dict.fromkeys((*CAUSES, "difference"), np.arange(1001.0))
    )
    sides: Any = [SimpleNamespace(energy_j=joules, idle=None, waiting=None) for joules in (100.0, 600.0)]
    _, totals = _split(sides, joined, nothing, 1.0, foreign=False)
    assert totals["cause"].to_list() == ["work", "difference"]
    for row in totals.select("change_j", "change_low_j", "change_high_j", "share").iter_rows():
        assert row == pytest.approx((500.0, 50.0, 950.0, 1.0))


def test_a_kernel_matched_with_two_has_its_share_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten launches for 50 J four are the first pair's: 20 and 30 J, and twice that in the next run."""
    parts = pl.DataFrame(
        {
            "side": ["base", "base", "head", "head"],
            "class": [7] * 4,
            "pair": [0, 1] * 2,
            "launches": [4, 6] * 2,
        }
    )
    texts = ("name_base", "name_head", "family", "operator", "range", "relation")
    of_pairs = {name: ["x", "x"] for name in texts} | {cause: [0.0, 0.0] for cause in DIFF_CAUSES}
    told = []

    def verdicts(_: pl.DataFrame, figures: list[Any], *__: Any) -> pl.DataFrame:
        told.extend(one["energy_j"].tolist() for one in figures)
        return pl.DataFrame()

    for what, instead in (
        ("pair_half_width", lambda: pl.lit(0.0)), ("step_sums", lambda *_: None), ("within", lambda *_: None),
        ("_with_means", lambda one, _: one), ("_with_verdicts", verdicts), ("replace", lambda one, **_: one),
        ("readings_error", lambda *_: None),
    ):  # fmt: skip
        monkeypatch.setattr(f"tracetool.compare.changes_table.{what}", instead)
    side: Any = SimpleNamespace(
        classes=pl.DataFrame({"class": [7], "launches": [10]}), runs=[0, 1],
        per_run=pl.DataFrame({"class": [7, 7], "run": [0, 1]} | {name: [50.0, 100.0] for name in _SUMS}),
    )  # fmt: skip
    nothing: Any = None
    _kernels(parts, pl.DataFrame({"pair": [0, 1], **of_pairs}), (side, side), nothing)
    assert told == [[pytest.approx([20.0, 30.0]), pytest.approx([40.0, 60.0])]] * 2
