"""Two ranks of one job, ingested together: collectives wait for the slower rank at every clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracetool.api.ingest import ingest
from tracetool.compare.accuracy import accuracy_table
from tracetool.compare.diff_run import diff_run, without_waits
from tracetool.replay.predict_run import predict_run
from tracetool.tables.run import Run

LAYERS = 12
MOVES_US = 40.0
#: One rank's product takes 400 us, the other's 250 us.
PRODUCTS_US = (400.0, 250.0)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def _events(rank: int) -> list[dict[str, Any]]:
    """Return what a profiler on one rank writes: a product, then a reduction, layer by layer."""
    made: list[dict[str, Any]] = []
    host, free = 1_000.0, 0.0

    def launch(name: str, start: float, took: float, stream: int) -> None:
        link = len(made)
        common = {"ph": "X", "pid": 100 + rank, "tid": 7}
        made.append(
            {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": host, "dur": 3.0}
            | {"args": {"correlation": link, "cbid": 211}}
        )
        grid = {"grid": [32, 16, 1], "block": [256, 1, 1], "registers per thread": 90, "shared memory": 32768}
        made.append(
            {"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": stream, "ts": start, "dur": took}
            | {"args": {"device": rank, "context": 1, "stream": stream, "correlation": link, **grid}}
        )

    for _ in range(LAYERS):
        begins = host + 10.0 if not free else free + 2.0
        launch(GEMM, begins, PRODUCTS_US[rank], 7)
        host += 8.0
        arrives, last = begins + PRODUCTS_US[rank] + 2.0, begins + max(PRODUCTS_US) + 2.0
        free = last + MOVES_US
        launch(ALL_REDUCE, arrives, free - arrives, 7)
        host += 8.0
    return made


def _trace(path: Path, rank: int) -> Path:
    devices = [{"id": i, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108} for i in range(2)]
    head = {"schemaVersion": 1, "deviceProperties": devices, "baseTimeNanoseconds": 1_750_000_000_000_000_000}
    head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    path.write_text(json.dumps({**head, "traceEvents": _events(rank)}), "utf-8")
    return path


def _run(folder: Path, ranks: tuple[int, ...]) -> Run:
    files = [_trace(folder / f"rank{r}.pt.trace.json", r) for r in ranks]
    return Run.open(ingest(files, [], tz=None, gpu=None, out=folder / f"run{len(ranks)}"))


def test_both_ranks_together(tmp_path: Path) -> None:
    made = predict_run(_run(tmp_path, (0, 1)), clocks_mhz=[700, 1410])
    slow, full = made.totals
    assert any(f"{2 * LAYERS} collectives matched in {LAYERS} groups" in n for n in made.notes), made.notes
    wait = LAYERS * (PRODUCTS_US[0] - PRODUCTS_US[1]) * 1e-3
    assert full["makespan_ms"] == pytest.approx(made.info["recorded_makespan_ms"], rel=0.001)
    assert full["collective_wait_ms"] == pytest.approx(wait, rel=0.01)
    assert full["collective_transfer_ms"] == pytest.approx(2 * LAYERS * MOVES_US * 1e-3, rel=0.01)
    # The products take longer at the lower clock, and so does the wait for the slower of them.
    longer = (slow["makespan_ms"] - slow["collective_transfer_ms"] / 2) / (
        full["makespan_ms"] - full["collective_transfer_ms"] / 2
    )
    assert longer > 1.3
    assert slow["collective_wait_ms"] / full["collective_wait_ms"] == pytest.approx(longer, rel=0.05)
    for total in made.totals:
        assert sum(total["energy_parts_j"].values()) == pytest.approx(total["energy_j"], rel=1e-9)


def test_one_rank_alone_says_that_its_waits_stay(tmp_path: Path) -> None:
    made = predict_run(_run(tmp_path, (1,)), clocks_mhz=[700, 1410])
    assert any("only one rank is in the run" in n for n in made.notes), made.notes
    assert made.totals[0]["collective_wait_ms"] == 0.0


def test_each_gpu_has_totals_that_add_up_to_the_runs(tmp_path: Path) -> None:
    run = _run(tmp_path, (0, 1))
    for total in predict_run(run, None, [900.0, 1410.0]).totals:
        devices = total["devices"]
        assert [d["device"] for d in devices] == [0, 1]
        for key in ("energy_j", "mean_power_w", "kernel_time_ms", "busy_ms"):
            assert sum(d[key] for d in devices) == pytest.approx(total[key], rel=1e-6)
        # mean and peak are of all GPUs together: no mean lies above its peak
        peaks = [d["peak_power_w"] for d in devices]
        assert total["mean_power_w"] <= total["peak_power_w"] <= sum(peaks) * (1 + 1e-12)
        assert total["peak_power_w"] > max(peaks)
        assert all(d["mean_power_w"] <= d["peak_power_w"] for d in devices)


def test_one_gpus_totals_are_the_runs(tmp_path: Path) -> None:
    total = predict_run(_run(tmp_path, (0,))).totals[0]
    (only,) = total["devices"]
    for key in ("energy_j", "mean_power_w", "peak_power_w", "kernel_time_ms", "busy_ms"):
        assert only[key] == pytest.approx(total[key], rel=1e-6)


def test_waiting_for_other_ranks_is_no_error_of_the_transfer(tmp_path: Path) -> None:
    found = diff_run(_run(tmp_path, (0, 1)))
    collective = (pl.col("level") == "signature") & (pl.col("family") == "collective")
    row = found.table.filter(collective).select(pl.col("waiting_ms", "time_ms").sum()).row(0, named=True)
    waited_us = LAYERS * (max(PRODUCTS_US) - min(PRODUCTS_US))
    assert row["waiting_ms"] == pytest.approx(waited_us / 1e3, rel=0.02)
    transfer = row["time_ms"] - row["waiting_ms"]
    assert transfer == pytest.approx(2 * LAYERS * MOVES_US / 1e3, rel=0.02)
    # where the sizes are known, the error compares the transfer alone
    replays = predict_run(_run(tmp_path, (0, 1)), anchor=False).replays
    rows = found.table.filter(pl.col("level") == "signature").with_columns(
        compared=pl.lit(value=True), identified=pl.lit(value=True), all_ms="time_ms", reason=pl.lit("")
    )
    rows, _ = without_waits(rows, replays)
    judged = rows.filter(pl.col("family") == "collective").row(0, named=True)
    expected = 100 * (judged["time_predicted_ms"] / (judged["time_ms"] - judged["waiting_ms"]) - 1)
    assert judged["time_error_pct"] == pytest.approx(expected)
    total = accuracy_table(rows).filter(pl.col("level") == "total").row(0, named=True)
    whole = rows.select(pl.col("time_predicted_ms", "time_ms", "waiting_ms").sum()).row(0, named=True)
    expected = 100 * (whole["time_predicted_ms"] / (whole["time_ms"] - whole["waiting_ms"]) - 1)
    assert total["time_error_pct"] == pytest.approx(expected)
    assert any("waiting for other ranks" in note for note in found.notes)


def test_one_ranks_waits_cannot_be_split_and_are_named(tmp_path: Path) -> None:
    found = diff_run(_run(tmp_path, (1,)))
    collective = found.table.filter((pl.col("level") == "signature") & (pl.col("family") == "collective"))
    assert collective["time_error_pct"].is_null().all()
    rest = found.table.filter((pl.col("level") == "signature") & (pl.col("family") != "collective"))
    gemm = rest.row(0, named=True)
    assert found.total()["time_error_pct"] == gemm["time_error_pct"]
    assert any(note.startswith("collectives without their other ranks") for note in found.notes)
