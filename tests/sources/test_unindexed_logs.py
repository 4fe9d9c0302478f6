"""Logs of nvidia-smi without a column that names the GPU: whose readings are these?"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tests.sources.makers import EPOCH_NS, kineto_document, kineto_events

HEADER = "timestamp, power.draw [W]\n"


def _line(poll: int, gpu: int) -> str:
    seconds, ms = divmod(20 * poll, 1000)
    stamp = pl.from_epoch(pl.Series([EPOCH_NS // 10**9 + seconds]), "s").dt.strftime("%Y/%m/%d %H:%M:%S")[0]
    return f"{stamp}.{ms:03d}, {100 + poll % 7 + 200 * gpu}.50 W\n"


def _run(folder: Path, log: str) -> tt.Run:
    trace = folder / "trace.json"
    trace.write_text(json.dumps(kineto_document(kineto_events())))
    (folder / "power.csv").write_text(log)
    return tt.ingest(trace, folder / "power.csv", tz="+00:00", out=folder / "run.tracetool")


def test_rows_dealt_in_turn_are_of_the_gpus_by_their_index(tmp_path: Path) -> None:
    run = _run(tmp_path, HEADER + "".join(_line(p, g) for p in range(60) for g in (0, 1)))
    assert run.telemetry["device"].unique().sort().to_list() == [0, 1]
    assert run.kernels["device"].unique().to_list() == [0]
    means = run.telemetry.group_by("device").agg(pl.col("power_w").mean()).sort("device")["power_w"]
    assert means.to_list() == pytest.approx([103.5, 303.5], abs=1.0)
    assert any("taken for GPU 0 to 1 in turn" in w for w in run.info["warnings"])


def test_a_log_of_lines_written_twice_is_of_one_gpu(tmp_path: Path) -> None:
    run = _run(tmp_path, HEADER + "".join(2 * _line(p, 0) for p in range(60)))
    assert run.telemetry["device"].to_list() == [0] * 60
    assert run.devices.height == 1
    assert any("60 duplicate readings" in w for w in run.info["warnings"])


@pytest.mark.parametrize("window", ["", "5"])
def test_a_gpu_that_only_the_log_names_is_not_asked_for(
    window: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACETOOL_WINDOW", window)
    run = _run(tmp_path, HEADER + "".join(_line(p, g) for p in range(60) for g in (0, 1)))
    assert run.devices["gpu"].to_list() == ["a100-sxm", None]
    assert not any("is not known" in w for w in run.info["warnings"])
