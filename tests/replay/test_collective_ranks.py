"""Sizes and ranks of collectives, as a profiler states them, as names and runs tell; and waits that stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracetool as tt
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows
from tracetool.replay.gpu_transfer import on_gpu
from tracetool.replay.run_rows import run_rows

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
CUSTOM = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*, vllm::RankSignals)"
MULTIMEM = "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)"


def _event(name: str, start: float, device: int = 0, **stated: Any) -> dict[str, Any]:
    arguments = {"device": device, "stream": 7, "context": 1, "correlation": int(start)}
    arguments |= {"grid": [8, 1, 1], "block": [512, 1, 1], **stated}
    place = {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": 7}
    return {**place, "ts": start, "dur": 50.0, "args": arguments}


def _nccl(sent: int, received: int, dtype: str, ranks: str, **more: Any) -> dict[str, Any]:
    return {
        "In msg nelems": sent,
        "Out msg nelems": received,
        "dtype": dtype,
        "Process Group Ranks": ranks,
        **more,
    }


def read(folder: Path, *events: dict[str, Any], **header: Any) -> OperatorColumns:
    """Return the rows of a run of these events."""
    devices = [{"id": i, "name": "NVIDIA H100 80GB HBM3", "numSms": 132} for i in range(2)]
    document = {"deviceProperties": devices, "traceEvents": events, **header}
    (folder / "trace.json").write_text(json.dumps(document))
    return run_rows(tt.ingest(folder / "trace.json", out=folder / "run.tracetool"))[1]


def one(folder: Path, event: dict[str, Any]) -> dict[str, float]:
    rows = read(folder, event)
    return {name: float(rows.number(name)[0]) for name in ("bytes", "ranks", "rank_stride", "keeps_waits")}


@pytest.mark.parametrize(
    ("name", "stated", "expected"),
    [
        (ALL_REDUCE, _nccl(1000, 1000, "BFloat16", "[0, 1, 2, 3]"), (2000, 4, 1)),
        (GATHER, _nccl(1000, 8000, "Float", "[0, 8, 16, 24, 32, 40, 48, 56]"), (32000, 8, 8)),
        (ALL_REDUCE, _nccl(1000, 1000, "Byte", "[0, 1, ..., 63]", **{"Group size": 64}), (1000, 64, 1)),
        (ALL_REDUCE, _nccl(1000, 1000, "Half", "[0, 1, 5]"), (2000, 3, np.nan)),
        (ALL_REDUCE, _nccl(1000, 1000, "Mystery", "[]", **{"Group size": 2}), (np.nan, 2, np.nan)),
        (ALL_REDUCE, _nccl(-5, 0, "Half", "[7, 3]", **{"Group size": "x"}), (np.nan, 2, np.nan)),
        (CUSTOM, {}, (np.nan, 4, np.nan)),
        (MULTIMEM, {}, (np.nan, np.nan, np.nan)),
    ],
)
def test_what_a_profiler_or_a_name_states_is_taken(
    tmp_path: Path, name: str, stated: dict[str, Any], expected: tuple[float, ...]
) -> None:
    got = one(tmp_path, _event(name, 100.0, **stated))
    assert [got[c] for c in ("bytes", "ranks", "rank_stride")] == pytest.approx(expected, nan_ok=True)
    assert got["keeps_waits"] == 1.0  # the others are in no trace


def test_launches_of_other_messages_are_other_signatures(tmp_path: Path) -> None:
    groups = ("[0, 1]", "[0, 8]", "[0, 1, 2, 3]")
    events = [_event(ALL_REDUCE, 100.0 * i, **_nccl(9, 9, "Half", g)) for i, g in enumerate(groups, 1)]
    events.append(_event(ALL_REDUCE, 900.0, **_nccl(10, 10, "Half", "[0, 1]")))
    rows = read(tmp_path, *events)
    found = zip(*(rows.number(c).tolist() for c in ("bytes", "ranks", "rank_stride")), strict=True)
    assert sorted(found) == [(18, 2, 1), (18, 2, 8), (18, 4, 1), (20, 2, 1)]


def test_a_collective_that_states_no_ranks_has_those_of_the_run(tmp_path: Path) -> None:
    """All-reduces beside an all-gather of eight are among the same eight."""
    rows = read(
        tmp_path,
        _event(MULTIMEM, 100.0),
        _event(GATHER, 200.0, **_nccl(10, 80, "Half", "[0, 1, 2, 3, 4, 5, 6, 7]")),
    )
    assert rows.number("ranks").tolist() == [8.0, 8.0]


@pytest.mark.parametrize(("size", "ranks"), [(16, 16.0), (1, np.nan), ("many", np.nan)])
def test_ranks_of_the_job_count_where_nothing_else_does(tmp_path: Path, size: Any, ranks: float) -> None:
    rows = read(tmp_path, _event(ALL_REDUCE, 100.0), distributedInfo={"rank": 0, "world_size": size})
    assert rows.number("ranks").tolist() == pytest.approx([ranks], nan_ok=True)


def test_gpus_of_a_run_count_where_nothing_states_ranks(tmp_path: Path) -> None:
    rows = read(tmp_path, _event(ALL_REDUCE, 100.0), _event(ALL_REDUCE, 110.0, device=1))
    assert set(rows.number("ranks").tolist()) == {2.0}
    assert set(rows.number("keeps_waits").tolist()) == {0.0}


@pytest.mark.parametrize(("waited", "keeps"), [(20.0, 1.0), (20.0, 0.0), (1.0, 1.0)])
def test_a_wait_for_other_ranks_is_not_carried_over_with_the_links(waited: float, keeps: float) -> None:
    a100, l40s = load_gpu("a100-sxm"), load_gpu("l40s")
    numbers = {"bytes": np.array([2.0**25]), "ranks": np.array([2.0]), "keeps_waits": np.array([keeps])}
    texts = {"kind": "all_reduce", "implementation": "NCCL", "shape_source": "bytes"}
    words = {name: np.array([word], dtype=object) for name, word in texts.items()}
    row = OperatorColumns(np.array(["collective"], dtype=object), {**numbers, **words})
    clock = np.array([a100.clock_boost_mhz])
    moves_us = float(time_rows(row, a100, clock).duration_s[0, 0]) * 1e6
    on_l40s_us = float(time_rows(row, l40s, np.array([l40s.clock_boost_mhz])).duration_s[0, 0]) * 1e6
    measured = waited * moves_us
    timed = {**row.columns, "duration_us": np.array([measured]), "recorded_clock_mhz": clock}
    carried = float(on_gpu(OperatorColumns(row.family, timed), a100, l40s).number("duration_us")[0])
    whole = measured * on_l40s_us / moves_us
    if keeps and waited > 1.0:
        most = float(time_rows(row, a100, clock).high[0, 0])
        assert carried == pytest.approx(measured - most * moves_us + most * on_l40s_us, rel=1e-6)
        assert carried < 0.6 * whole
    else:
        assert carried == pytest.approx(whole, rel=1e-6)
