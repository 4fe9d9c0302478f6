"""Energy of requests: phases as planted, tokens as counted, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.api.request_energy import request_energy
from tracetool.core.errors import BadInput
from tracetool.measure.served_load import phase_spans
from tracetool.sources.detect import detect
from tracetool.sources.request_log import is_request_log, read_requests

START_NS = 1_767_589_200 * 10**9
S = 10**9


def _record(
    start_s: float, first_s: float, end_s: float, phase: str = "profiling", error: str | None = None
) -> str:
    return json.dumps(
        {
            "metadata": {
                "request_start_ns": START_NS + round(start_s * S),
                "request_end_ns": START_NS + round(end_s * S),
                "benchmark_phase": phase, "was_cancelled": False,
            },
            "metrics": {
                "time_to_first_token": {"value": (first_s - start_s) * 1e3, "unit": "ms"},
                "input_sequence_length": {"value": 500, "unit": "tokens"},
                "output_sequence_length": {"value": 100, "unit": "tokens"},
            },
            "error": error,
        }
    )  # fmt: skip


def _load(tmp_path: Path) -> tuple[Path, Path, float, float]:
    """Ten requests one by one, 4 s of prefill at 600 W and 6 s of decode at 300 W, 5 s of 100 W between."""
    requests = [(20.0 + 15.0 * i, 24.0 + 15.0 * i, 30.0 + 15.0 * i) for i in range(10)]
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join(_record(*r) for r in requests) + "\n{torn")
    time = np.arange(0.0, 190.0, 0.05)
    power = np.full(len(time), 100.0)
    for start, first, end in requests:
        power[(time >= start) & (time < first)] = 600.0
        power[(time >= first) & (time < end)] = 300.0
    log = tmp_path / "power.csv"
    rows = [f"{START_NS // S + t:.3f},{p}" for t, p in zip(time, power, strict=True)]
    log.write_text("time,power_w\n" + "\n".join(rows) + "\n")
    return path, log, 600.0 * 4 * 10, 300.0 * 6 * 10


#: The columns of ``trace_replay/detailed_results.csv`` in SemiAnalysisAI/InferenceX (April 2026), and of its
#: ``metrics_client_metrics.csv`` (February 2026).
REPLAYED = (
    "user_id,request_idx,trace_id,timestamp,request_type,input_tokens,output_tokens_expected,output_tokens_actual,"
    "cache_hit_blocks,cache_miss_blocks,ttft,ttlt,itl,delay_expected,delay_actual,success,error_message,"
    "theoretical_cache_hit_blocks,request_start_time,prefill_complete_time,request_complete_time,token_timestamps,"
    "tokens_per_chunk"
)
CLIENT = (
    "start_time_ms,relative_time_sec,ttft_ms,tpot_ms,latency_ms,input_num_turns,input_num_tokens,output_num_tokens,"
    "output_num_chunks,output_num_first_chunk_tokens,approx_cached_percent,conversation_id,client_id,"
    "interactivity_tok_per_sec"
)


def _replayed(start_s: float, first_s: float, end_s: float, success: bool = True) -> str:
    start, first, end = (START_NS / S + t for t in (start_s, first_s, end_s))
    times = f'{start!r},{first!r},{end!r},"[{first!r}, {end!r}]","[3, 1]"'
    waits = f"{first - start!r},{end - start!r},0.06,612.0,0"
    return f"User-008,12,trace_0110,{end!r},streaming,500,259,100,1527,9,{waits},{success},,0,{times}"


def _client(start_ms: float, first_s: float, latency_s: float) -> str:
    waits = f"{first_s * 1e3:.3f},205.335,{latency_s * 1e3:.3f}"
    return f"{start_ms:.3f},0.000,{waits},1,500,100,11,1,0.00,60fe,3,4.87"


def test_tables_of_inferencex_cost_what_was_planted_in_their_requests(tmp_path: Path) -> None:
    lines, log, prefill, _ = _load(tmp_path)
    planted, _ = read_requests(lines)
    seconds = [[(t - START_NS) / S for t in row] for row in planted.select(pl.col("^.*_ns$")).iter_rows()]
    for name, header, rows in (
        ("detailed_results.csv", REPLAYED, [_replayed(*r) for r in seconds]),
        (
            "metrics_client_metrics.csv", CLIENT,
            [_client(START_NS / 1e6 + s * 1e3, first - s, end - s) for s, first, end in seconds],
        ),
    ):  # fmt: skip
        path = tmp_path / name
        path.write_text("\n".join([header, *reversed(rows), "User-009,torn"]) + "\n")
        assert is_request_log(path)
        requests, notes = read_requests(path)
        assert notes == [f"left out 1 line of {name}: no request"]
        apart = requests.select(pl.col("^.*_ns$")) - planted.select(pl.col("^.*_ns$"))
        assert max(abs(t) for row in apart.iter_rows() for t in row) < 1000  # [ns]
        assert requests.select(pl.col("^.*_tokens$").sum()).row(0) == (5000.0, 1000.0)
    phases = {r["phase"]: r for r in request_energy(path, power=log).phases.iter_rows(named=True)}
    assert phases["prefill"]["energy_j"] == pytest.approx(prefill, rel=0.03)


def test_a_request_that_failed_in_a_table_has_no_tokens(tmp_path: Path) -> None:
    path = tmp_path / "detailed_results.csv"
    path.write_text(
        "\r\n".join([REPLAYED, _replayed(0.0, 1.0, 2.0), _replayed(3.0, 4.0, 5.0, success=False)])
    )
    table, _ = read_requests(path)
    assert table["output_tokens"].to_list() == [100.0, 0.0]
    assert table["finished"].to_list() == [True, False]


def test_prefill_and_decode_cost_what_was_planted(tmp_path: Path) -> None:
    path, log, prefill, decode = _load(tmp_path)
    assert is_request_log(path)
    table = request_energy(path, power=log)
    phases = {r["phase"]: r for r in table.phases.iter_rows(named=True)}
    assert phases["prefill"]["energy_j"] == pytest.approx(prefill, rel=0.03)
    assert phases["decode"]["energy_j"] == pytest.approx(decode, rel=0.03)
    assert phases["all"]["energy_j"] == pytest.approx(prefill + decode, rel=0.03)
    assert phases["prefill"]["energy_low_j"] <= prefill <= phases["prefill"]["energy_high_j"]
    assert phases["decode"]["energy_per_token_j"] == pytest.approx(phases["decode"]["energy_j"] / 1000)
    assert phases["prefill"]["energy_per_token_j"] == pytest.approx(phases["prefill"]["energy_j"] / 5000)
    assert phases["all"]["energy_per_request_j"] == pytest.approx(phases["all"]["energy_j"] / 10)
    assert any("1 line of" in n for n in table.notes)


def test_spans_of_both_phases_are_shared_by_the_requests_in_each(tmp_path: Path) -> None:
    """One request decodes for 8 s; in 4 s of them two others prefill: two thirds of those are theirs."""
    rounds = [20.0 + 20.0 * i for i in range(8)]
    both = [(t + 2.0, t + 6.0) for t in rounds]
    path = tmp_path / "profile_export.jsonl"
    lines = [_record(t - 4.0, t, t + 8.0) for t in rounds]
    lines += [_record(first, end, end + 0.02) for first, end in both for _ in range(2)]
    path.write_text("\n".join(lines) + "\n")
    time = np.arange(0.0, 190.0, 0.05)
    power = np.full(len(time), 100.0)
    for t in rounds:
        power[(time >= t - 4.0) & (time < t)] = 600.0
        power[(time >= t) & (time < t + 8.0)] = 300.0
        power[(time >= t + 2.0) & (time < t + 6.0)] = 500.0
    log = tmp_path / "power.csv"
    cells = [f"{START_NS // S + t:.3f},{p}" for t, p in zip(time, power, strict=True)]
    log.write_text("time,power_w\n" + "\n".join(cells) + "\n")
    phases = {row["phase"]: row for row in request_energy(path, power=log, gpu="h100-sxm").frame.to_dicts()}
    mixed_j, alone_j = 8 * 4.0 * 500.0, 8 * 4.0 * 600.0
    assert phases["prefill"]["energy_j"] == pytest.approx(alone_j + mixed_j * 2 / 3, rel=0.05)
    assert phases["decode"]["energy_j"] == pytest.approx(8 * 4.0 * 300.0 + mixed_j / 3, rel=0.05)
    # the ends give all of what both drew to either
    assert phases["prefill"]["energy_low_j"] <= alone_j * 1.01
    assert phases["prefill"]["energy_high_j"] >= (alone_j + mixed_j) * 0.99


def test_requests_of_the_first_releases_are_read_as_those_of_today(tmp_path: Path) -> None:
    """Fields as ``examples/artifacts/run1/profile_export.jsonl`` of ai-dynamo/aiperf (2025) has them."""
    metadata = {
        "x_request_id": "c087",
        "conversation_id": "82c5",
        "turn_index": 0,
        "credit_phase": "profiling",
    }
    metrics = {
        "ttft": {"value": 1680.5, "unit": "ms"}, "request_latency": {"value": 7936.75, "unit": "ms"},
        "input_sequence_length": {"value": 550, "unit": "tokens"},
        "output_token_count": {"value": 61, "unit": "tokens"},
        "output_sequence_length": {"value": 193, "unit": "tokens"},
    }  # fmt: skip
    canceled = {"error_request_count": {"value": 1, "unit": "requests"}}
    lines = [
        {"metadata": {**metadata, "timestamp_ns": START_NS}, "metrics": canceled, "error": {"code": 499}},
        {"metadata": {**metadata, "timestamp_ns": START_NS + 5}, "metrics": metrics, "error": None},
    ]
    path = tmp_path / "profile_export.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert is_request_log(path)
    requests, notes = read_requests(path)
    assert requests.select("start_ns", "first_token_ns", "end_ns").row(0) == (
        START_NS + 5, START_NS + 5 + 1_680_500_000, START_NS + 5 + 7_936_750_000
    )  # fmt: skip
    assert requests.select("input_tokens", "output_tokens", "phase").row(0) == (550.0, 193.0, "profiling")
    assert notes == ["left out 1 line of profile_export.jsonl: no request"]


def test_spans_hold_all_time_with_a_request_once() -> None:
    rng = np.random.default_rng(1)
    start = rng.integers(0, 10**6, 200)
    first = start + rng.integers(1, 10**4, 200)
    end = first + rng.integers(1, 10**5, 200)
    spans = phase_spans(pl.DataFrame({"start_ns": start, "first_token_ns": first, "end_ns": end}))
    length = spans["end_ns"] - spans["start_ns"]
    assert int((length * spans["prefills"]).sum()) == int((first - start).sum())
    assert int((length * spans["decodes"]).sum()) == int((end - first).sum())


def test_failed_requests_have_no_tokens(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(_record(0.0, 1.0, 2.0) + "\n" + _record(3.0, 4.0, 5.0, error="timeout") + "\n")
    table, _ = read_requests(path)
    assert table["output_tokens"].to_list() == [100.0, 0.0]
    assert table["finished"].sum() == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"metadata": {"request_start_ns": 5}}\n', "holds no request"),
        ('{"metadata": {"request_start_ns":\n', "holds no request"),
        (REPLAYED + "\n" + _replayed(0.0, 1.0, 2.0)[:90], "holds no request"),
        (CLIENT + "\n" + _client(3224160747.359, 0.4, 2.7) + "\n", "do not count from 1970"),
    ],
)
def test_a_log_without_a_request_is_refused_in_one_line(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(BadInput, match=fault) as refused:
        request_energy(path, power=path)
    assert "\n" not in refused.value.line()
    if is_request_log(path):
        with pytest.raises(BadInput, match="holds requests"):
            detect(path)
