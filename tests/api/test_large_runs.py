"""A run read in windows says what it says read at once; a trace read in windows is the run read at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.api.run import Run
from tracetool.tables.windows import Window, activities_of, is_large, windows_of

SAMPLES = Path("sample_traces")
WINDOW = "2000"


@pytest.fixture(scope="module")
def training(sample_run: Path) -> Run:
    return tt.open(sample_run)


@pytest.fixture
def in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETOOL_WINDOW", WINDOW)


def test_windows_hold_every_row_once(training: Run, in_windows: None) -> None:
    assert is_large(training)
    windows = list(windows_of(training))
    assert len(windows) >= 4
    parts = [w.kernels for w in windows]
    assert sum(p.height for p in parts) == activities_of(training) == training.kernels.height
    assert pl.concat(parts)["start_ns"].equals(training.kernels["start_ns"])
    for window, part in zip(windows, parts, strict=True):
        assert part["signature"].max() == window.signatures.height - 1
        assert window.signatures["launches"].sum() == part.height
        for column, table in (("range", "ranges"), ("operator", "operators")):
            assert (part[column].max() or 0) < max(1, window.table(table).height)
    own = pl.concat(
        [w.numbers.gather(p["signature"]).cast(pl.Int32) for w, p in zip(windows, parts, strict=True)]
    )
    assert own.to_list() == training.kernels["signature"].to_list()


def test_a_window_ends_where_no_gpu_works(training: Run, in_windows: None) -> None:
    kernels = training.kernels
    end = (kernels["start_ns"] + kernels["duration_ns"]).cum_max()
    for window in list(windows_of(training))[1:]:
        before = end.filter(kernels["start_ns"] < window.first_ns).max()
        assert window.idle_before_ns == max(0, window.first_ns - before)


def test_windows_add_up_to_the_run(training: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1500.0
    whole = training.predict(clock=clock)
    monkeypatch.setenv("TRACETOOL_WINDOW", WINDOW)
    parts = training.predict(clock=clock)
    assert parts.conditions["windows"] >= 4
    one, other = (p.totals.row(0, named=True) for p in (whole, parts))
    # the host runs ahead of the GPU across a cut, and what is known of a signature differs by window
    for figure, within in {"kernel_time_ms": 0.002, "makespan_ms": 0.01, "energy_j": 0.01}.items():
        assert other[figure] == pytest.approx(one[figure], rel=within)
        stem, unit = figure.rsplit("_", 1)
        assert other[f"{stem}_low_{unit}"] < other[figure] < other[f"{stem}_high_{unit}"]
    assert sum(other["gaps_ms"].values()) == pytest.approx(other["gap_ms"])
    assert sum(other["energy_parts_j"].values()) == pytest.approx(other["energy_j"])
    assert other["mean_power_w"] * other["makespan_ms"] == pytest.approx(1e3 * other["energy_j"])
    rows = parts.frame.sort("signature")
    assert rows["launches"].to_list() == whole.frame.sort("signature")["launches"].to_list()
    busy = (rows["duration_us"] * rows["launches"]).sum() * 1e-3
    assert busy == pytest.approx(other["kernel_time_ms"] + other["copy_time_ms"], rel=1e-6)
    with pytest.raises(tt.BadInput, match="by signature"):
        parts.rows("range")


def test_measured_windows_add_up_to_the_log(training: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = training.attribute().scopes
    whole, whole_gaps = scopes["run"], scopes["gaps"]
    monkeypatch.setenv("TRACETOOL_WINDOW", "4000")
    parts = training.attribute()
    run = parts.scopes["run"]
    assert run["launches"] == whole["launches"]
    assert run["time_ms"] == pytest.approx(whole["time_ms"], rel=1e-6)
    # fifty readings a window tell less than all of them, and what cancels within a window does so in its sums
    assert run["energy_j"] == pytest.approx(whole["energy_j"], rel=0.06)
    assert run["energy_low_j"] < whole["energy_j"] < run["energy_high_j"] < 1.25 * run["energy_j"]
    # readings beyond a cut saw what other windows hold: they are no idle power of this one
    gaps = parts.scopes["gaps"]
    assert gaps["energy_j"] == pytest.approx(whole_gaps["energy_j"], rel=0.05)
    idle_w = parts.energy.filter(pl.col("class") == "(idle)")["power_w"].item()
    assert idle_w < 1.2 * gaps["power_w"]
    by_class = parts.energy["energy_high_j"].sum() - parts.energy["energy_j"].sum()
    assert by_class > 2.0 * (run["energy_high_j"] - run["energy_j"])
    assert parts.energy["launches"].sum() >= training.kernels.height


def test_classify_streams_the_same_rows(
    training: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = training.classify()
    monkeypatch.setenv("TRACETOOL_WINDOW", WINDOW)
    monkeypatch.setattr("tracetool.kernels.classification._SLICE", 101)
    parts = training.classify()
    parts.save(tmp_path / "rows.parquet")
    rows = pl.read_parquet(tmp_path / "rows.parquet")
    assert rows.equals(whole.kernels.cast({c: rows.schema[c] for c in rows.columns}))
    assert parts.families.rows() == whole.families.rows()
    with pytest.raises(tt.BadInput, match="cannot hold as many rows"):
        parts.save(tmp_path / "rows.md")


def test_a_report_of_a_large_run_tells_what_it_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bokeh")
    run = tt.ingest(SAMPLES / "mi300x_kernel_trace.csv", gpu="mi300x", out=tmp_path / "run.tracetool")
    monkeypatch.setenv("TRACETOOL_WINDOW", str(run.kernels.height // 3))
    page = run.report(tmp_path / "page.html").page
    assert "pictures and other clocks are those of window" in page.notes[0]
    assert page.rows["launches"].sum() == run.kernels.height


@pytest.mark.parametrize(
    ("trace", "logs", "window"),
    [
        ("mi300x_kernel_trace.csv", (), "200"),
        ("a100_generation.pt.trace.json.gz", ("a100_generation_power.csv",), "700"),
    ],
)
def test_a_trace_read_in_windows_is_the_run_read_at_once(
    trace: str, logs: tuple[str, ...], window: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = {"power": [SAMPLES / log for log in logs], "tz": "-05:00" if logs else None}
    whole = tt.ingest(SAMPLES / trace, out=tmp_path / "whole.tracetool", **read)
    monkeypatch.setenv("TRACETOOL_WINDOW", window)
    parts = tt.ingest(SAMPLES / trace, out=tmp_path / "parts.tracetool", **read)
    monkeypatch.delenv("TRACETOOL_WINDOW")
    for table in ("kernels", "host_calls", "telemetry", "devices"):
        one, other = whole.table(table), parts.table(table)
        same = [c for c in one.columns if c not in ("operator", "range", "module", "signature")]
        assert other.select(same).equals(one.select(same)), table
    named = [
        r.kernels.with_columns(pl.col("signature").cast(pl.Int64)).join(
            r.signatures, on="signature", how="left", maintain_order="left"
        ).select("operator_name", "input_dims", "family", "launches")
        for r in (whole, parts)
    ]  # fmt: skip
    assert named[1].equals(named[0])
    assert parts.info["sources"] == whole.info["sources"]
    assert set(parts.info["warnings"]) == set(whole.info["warnings"])


def test_windows_are_a_whole_number(training: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETOOL_WINDOW", "many")
    with pytest.raises(tt.BadInput, match="not a number of activities"):
        training.predict()


def test_a_window_is_no_large_run(training: Run, in_windows: None) -> None:
    window = next(iter(windows_of(training)))
    assert isinstance(window, Window)
    assert not is_large(window)


def test_families_loaded_while_a_trace_is_read_are_those_loaded_after_it(
    training: Run, tmp_path: Path
) -> None:
    """In a new process, where nothing is loaded yet: the threads load at the same time."""
    program = (
        "import sys, tracetool as tt, tracetool.api.ingest as ingest\n"
        "ingest._LOADED_BESIDE_BYTES, load, loaded = 0, ingest._load_families, []\n"
        "ingest._load_families = lambda: loaded.append(load())\n"
        "tt.ingest(sys.argv[1], out=sys.argv[2])\n"
        "assert loaded == [None]"
    )
    out = tmp_path / "beside.tracetool"
    words = [sys.executable, "-c", program, str(SAMPLES / "h100_training.sqlite"), str(out)]
    subprocess.run(words, check=True, timeout=120)
    found = tt.open(out).signatures
    assert found["family"].to_list() == training.signatures["family"].to_list()


def test_what_needs_all_activities_at_once_says_so(
    training: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tt.summary(training.path).frame
    monkeypatch.setenv("TRACETOOL_WINDOW", WINDOW)
    parts = tt.summary(training.path)
    assert parts.frame["time_ms"].to_list() == pytest.approx(whole["time_ms"].to_list())
    assert parts.frame["energy_j"].null_count() == parts.frame.height
    assert any("no energies of parts of a run of" in note for note in parts.notes)
    for ask in (
        lambda: tt.roofline(training.path),
        lambda: tt.energy_by(training.path, ["family"]),
        lambda: tt.export(training.path, tmp_path / "e.json"),
        lambda: tt.export(training.path, tmp_path / "e.prom"),
        lambda: tt.diagnose(training.path),
    ):
        with pytest.raises(tt.BadInput, match="too many for"):
            ask()
    assert not list(tmp_path.iterdir())
