"""Fine-grain profiles from files."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.documents import check_document
from tracetool.api.profile import profile
from tracetool.cli.app import run as command
from tracetool.core.errors import BadInput
from tracetool.measure.fingrav.campaign import profile_runs, profile_tables

from ..invented_gpu import campaign, gpu_log


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("campaign")
    made = campaign(seed=11, runs=120, executions=30)
    log = gpu_log(made.steps, seed=12)
    pl.DataFrame(
        {"kernel": "gemm_4k", "run": made.run, "start_us": made.start_s * 1e6, "end_us": made.end_s * 1e6}
    ).write_csv(folder / "executions.csv")
    parts = {f"{k}_w": v for k, v in log.power_w.items() if k != "total"}
    pl.DataFrame({"gpu_us": log.gpu_s * 1e6, "power_w": log.power_w["total"], **parts}).write_csv(
        folder / "samples.csv"
    )
    sync = {f"{p}_us": getattr(log, f"sync_{p}_s") * 1e6 for p in ("host", "gpu", "delay")}
    pl.DataFrame(sync).write_csv(folder / "sync.csv")
    return {p.stem: p for p in folder.iterdir()} | {"folder": folder}


def test_a_campaign_in_tables(tables: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    out, picture = tables["folder"] / "profile.parquet", tables["folder"] / "profile.html"
    code = command(
        ["profile", str(tables["executions"]), "--power", str(tables["samples"]),
         "--sync", str(tables["sync"]),
         "-o", str(out), "--picture", str(picture), "--json"]
    )  # fmt: skip
    assert code == 0
    told = json.loads(capsys.readouterr().out)
    check_document("profile", told)
    assert told["kernel"] == "gemm_4k"
    assert told["sse_execution"] == 4
    means = {(p["kind"], p["component"]): p["mean_w"] for p in told["profiles"]}
    assert means["ssp", "total"] == pytest.approx(600.0, rel=0.02)
    assert means["sse", "total"] == pytest.approx(528.0, rel=0.025)
    assert means["ssp", "iod"] == pytest.approx(120.0, rel=0.03)
    frame = pl.read_parquet(out)
    assert set(frame["component"]) == {"total", "xcd", "iod", "hbm"}
    assert (frame["power_low_w"] <= frame["power_high_w"]).all()
    over_run = frame.filter((pl.col("kind") == "run") & (pl.col("component") == "xcd"))
    assert over_run["time_us"][-1] == pytest.approx(1e3 * told["run"][0]["length_ms"])
    assert over_run["power_w"][-1] == pytest.approx(0.62 * 600.0, rel=0.08)  # the last one's tail
    assert [r["component"] for r in told["run"]] == ["total", "xcd", "iod", "hbm"]
    assert told["run"][0]["first_w"] > 1.05 * told["run"][0]["last_w"]  # warming up overshoots
    drawn = picture.read_text("utf-8")
    assert drawn.startswith("<!doctype html>")
    assert "steady power (SSP) from here" in drawn


def test_samples_of_interest_are_those_behind_the_curves(tables: dict[str, Path]) -> None:
    found = profile(tables["executions"], power=tables["samples"], sync=tables["sync"])
    counts = {(p["kind"], p["component"]): p["samples"] for p in found.summary.to_dicts()}
    steady = found.samples.filter((pl.col("kind") == "ssp") & (pl.col("component") == "total"))
    assert steady.height == counts["ssp", "total"]
    assert steady["time_us"].is_between(0.0, 100.0).all()
    assert steady["power_w"].mean() == pytest.approx(600.0, rel=0.1)
    assert set(found.samples["kind"]) >= {"sse", "ssp", "run"}


def test_samples_on_the_gpus_clock_need_sync_points(tables: dict[str, Path]) -> None:
    with pytest.raises(BadInput, match="GPU's clock"):
        profile_tables(tables["executions"], tables["samples"])


def test_samples_in_milliwatts_are_refused(tables: dict[str, Path]) -> None:
    scaled = tables["folder"] / "milliwatts.csv"
    pl.read_csv(tables["samples"]).with_columns(pl.col("^.*_w$") * 1000.0).write_csv(scaled)
    with pytest.raises(BadInput, match="no GPU draws more") as fault:
        profile_tables(tables["executions"], scaled, sync=tables["sync"])
    assert "milliwatts" in str(fault.value.fix)


def test_executions_without_samples_ask_for_them(tables: dict[str, Path]) -> None:
    with pytest.raises(BadInput, match="is a table of executions") as fault:
        profile(tables["executions"])
    assert "--power" in str(fault.value.fix)


@pytest.mark.parametrize(
    ("text", "said"),
    [("start_us,end_us\n", "no rows"), ("start_us\n1\n", "missing column end_us"),
     ("start_us,end_us\n5,4\n", "ends before"), ("start_us,end_us\n5,x\n", "not a number")],
)  # fmt: skip
def test_bad_executions_are_one_line(tables: dict[str, Path], tmp_path: Path, text: str, said: str) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(text)
    with pytest.raises(BadInput, match=said):
        profile_tables(bad, tables["samples"], sync=tables["sync"])


def test_no_run_is_said() -> None:
    with pytest.raises(BadInput, match="no run"):
        profile_runs([])
