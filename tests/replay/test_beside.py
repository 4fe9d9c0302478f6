"""Collectives and link copies beside a kernel: their share of its launches, and what it waits for them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.model.operators import rows_of
from tests.model.test_profiler_overhead import named
from tracetool.api.ingest import ingest
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.timing import row_pieces, time_rows
from tracetool.replay.run_rows import _shares, run_rows
from tracetool.tables.run import Run

#: Streams and times of a recording: name, stream, start and duration. [us]
ACTIVITIES = (
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 100.0, 100.0),
    ("Memcpy HtoD (Pinned -> Device)", 30, 400.0, 50.0),
    ("Memcpy HtoD (Pinned -> Device)", 30, 440.0, 60.0),
    ("void vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >", 7, 90.0, 20.0),
    ("void vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >", 7, 250.0, 20.0),
    ("void vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >", 7, 430.0, 40.0),
    ("void vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >", 7, 300.0, 40.0),
)


def _event(name: str, stream: int, start: float, duration: float) -> dict[str, object]:
    copy = name.startswith("Memcpy")
    arguments = {"device": 0, "stream": stream, "context": 1, "correlation": int(start)}
    arguments |= {"bytes": 1e6} if copy else {"grid": [8, 1, 1], "block": [128, 1, 1]}
    category = "gpu_memcpy" if copy else "kernel"
    place = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream}
    return {**place, "ts": start, "dur": duration, "args": arguments}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> OperatorColumns:
    """Return the rows of a recording with a collective and copies beside some kernels."""
    folder = tmp_path_factory.mktemp("beside")
    devices = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "numSms": 108}]
    document = {"deviceProperties": devices, "traceEvents": [_event(*a) for a in ACTIVITIES]}
    (folder / "trace.json").write_text(json.dumps(document))
    return run_rows(Run.open(ingest([folder / "trace.json"], out=folder / "run")))[1]


def _of(rows: OperatorColumns, column: str, word: str) -> float:
    names = rows.text("name").astype(str)
    return float(rows.number(column)[np.char.find(names, word) >= 0].max())


def test_the_share_of_launches_beside_a_busy_link_is_counted(rows: OperatorColumns) -> None:
    # half of one of two launches; two overlapping copies over all of one of two
    assert _of(rows, "beside_collective", "Add") == pytest.approx(0.25)
    assert _of(rows, "beside_copy", "Add") == 0.0
    assert _of(rows, "beside_copy", "Mul") == pytest.approx(0.5)
    assert _of(rows, "beside_copy", "Memcpy") == 0.0
    assert _of(rows, "beside_collective", "nccl") == 0.0


def test_ranks_of_a_training_share_the_links_of_their_host(rows: OperatorColumns) -> None:
    assert _of(rows, "link_sharers", "Memcpy") == 2.0
    assert _of(rows, "link_sharers", "Add") == 1.0
    gpu = load_gpu("a100-sxm")
    alone = OperatorColumns(
        np.array(["memcpy"], dtype=object),
        {"bytes": np.array([1e8]), "kind": np.array(["HtoD (Pinned -> Device)"], dtype=object)},
    )
    shared = OperatorColumns(alone.family, {**alone.columns, "link_sharers": np.array([2.0])})
    boost = np.array([gpu.clock_boost_mhz])
    seconds = [time_rows(one, gpu, boost).duration_s[0, 0] for one in (shared, alone)]
    assert seconds[0] == pytest.approx(2.0 * seconds[1], rel=0.01)


def test_a_kernel_beside_a_busy_link_takes_longer_and_errs_more() -> None:
    gpu = load_gpu("a100-sxm")
    alone = named(
        rows_of("elementwise", elements=1e4), "void at::native::vectorized_elementwise_kernel<4, f>"
    )
    boost = np.array([gpu.clock_boost_mhz])
    for column in ("beside_collective", "beside_copy"):
        beside = OperatorColumns(alone.family, {**alone.columns, column: np.array([1.0])})
        assert time_rows(beside, gpu, boost).duration_s[0, 0] > time_rows(alone, gpu, boost).duration_s[0, 0]
        wide, usual = row_pieces(beside, gpu), row_pieces(alone, gpu)
        assert wide.low[0] < usual.low[0] <= usual.high[0] < wide.high[0]
        # engines of their own make the copies of AMD's GPUs
        amd = load_gpu("mi300x")
        assert row_pieces(beside, amd).high[0] == row_pieces(alone, amd).high[0]


def test_what_a_recording_leaves_open_enters_intervals_without_the_measured_times() -> None:
    gpu = load_gpu("a100-sxm")
    boost = np.array([gpu.clock_boost_mhz])
    plain = named(rows_of("gemm", m=4096, n=4096, k=4096), "ampere_bf16_s16816gemm_bf16_128x128")

    def high(rows: OperatorColumns, **columns: float) -> float:
        more = {k: np.array([v]) for k, v in columns.items()}
        timing = predict_rows(OperatorColumns(rows.family, {**rows.columns, **more}), gpu, boost).timing
        return float(timing.high[0, 0])

    assert high(plain, recorded_clock_low_mhz=gpu.clock_base_mhz) > 1.05 * high(plain)
    assert high(plain, recorded_clock_low_mhz=gpu.clock_boost_mhz) == pytest.approx(high(plain))
    copy = rows_of("memcpy", bytes=1e8)
    assert high(copy, recorded_clock_low_mhz=gpu.clock_base_mhz) == pytest.approx(high(copy), rel=1e-3)
    tiny = named(rows_of("elementwise", elements=64), "void at::native::vectorized_elementwise_kernel<4, f>")
    assert high(tiny, duration_sd_us=0.29) > high(tiny)


@pytest.mark.data
def test_a_coarse_timer_widens_what_the_model_alone_predicts(data: Path, tmp_path: Path) -> None:
    from tracetool.replay.predict_run import predict_run

    file = next((data / "traces/kineto").glob("torch-profiling-tutorial*"))
    run = Run.open(ingest([file], out=tmp_path / "run"))
    recorded = predict_run(run, anchor=False).signatures
    stated = predict_run(run, None, [1980.0], anchor=False).signatures
    width = [(f["duration_high_us"] / f["duration_us"]).to_numpy() for f in (recorded, stated)]
    assert (width[0] >= width[1] - 1e-9).all() and (width[0] > width[1] + 0.01).any()


def test_a_kernel_beside_the_last_of_three_collectives_is_beside_that_one_alone() -> None:
    """Collectives of 10, 20 and 30 ns; kernels over half of the second, all of the third, and two of them."""
    start = np.array([0.0, 100.0, 200.0, 110.0, 205.0, 50.0])
    length = np.array([10.0, 20.0, 30.0, 20.0, 10.0, 180.0])
    chosen = np.arange(6) < 3
    share = _shares(start, start + length, np.zeros(6), chosen)
    assert share.tolist() == pytest.approx([1.0, 1.0, 1.0, 0.5, 1.0, 50.0 / 180.0])
