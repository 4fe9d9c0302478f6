"""Operator tables of libraries: every table of measured operators is read and predicted."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracetool.core.dtype import ACTIVATIONS, BYTES
from tracetool.families.spec import LIBRARY_COLUMNS
from tracetool.hardware.coefficient_files import own_calibration
from tracetool.hardware.load import load_gpu
from tracetool.replay.assumptions import Assumptions
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict import predict_table
from tracetool.replay.table_checks import OPERATORS


@pytest.mark.data
def test_every_table_of_a_library_is_predicted(data: Path) -> None:
    paths = sorted((data / "stacks").glob("*.parquet"))
    assert len(paths) > 100
    for path in paths:
        table = pl.read_parquet(path)
        words = [c for c in ("dtype", "kv_dtype", "phase", "kind", *LIBRARY_COLUMNS) if c in table.columns]
        sample = table.group_by(words, maintain_order=True).head(10).select(table.columns)
        frame = predict_table(sample, table["gpu"][0]).frame
        assert frame.height == sample.height, path.name
        for column in ("duration_us", "duration_low_us", "duration_high_us", "energy_mj"):
            assert (frame[column].is_finite() & (frame[column] > 0)).all(), f"{path.name}: {column}"


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_every_operator_may_name_its_library(op: str) -> None:
    row: dict[str, object] = {"op": op, "dtype": "bf16", **dict.fromkeys(OPERATORS[op].needs, 16)}
    row |= {"kind": "all_reduce"} if "kind" in OPERATORS[op].needs else {}
    rows = read_table(pl.DataFrame([{**row, "stack": "vllm 0.24.0", "implementation": "one"}, row])).rows
    assert rows.text("stack").tolist() == ["vllm 0.24.0", ""]
    assert rows.text("implementation").tolist() == ["one", ""]


@pytest.mark.parametrize("dtype", sorted(BYTES))
def test_every_format_is_predicted(dtype: str) -> None:
    rows = [
        {"op": "gemm", "dtype": dtype, "m": 64, "n": 4096, "k": 4096},
        {"op": "gemm", "dtype": dtype, "m": 8192, "n": 4096, "k": 4096},
    ]
    for gpu in ("v100-pcie", "a100-sxm", "h100-sxm", "b200-sxm", "mi300x"):
        few, many = predict_table(pl.DataFrame(rows), gpu).frame["duration_us"].to_list()
        assert 0 < few < many


@pytest.mark.parametrize("dtype", sorted(set(ACTIVATIONS) - {"sq"}))
def test_narrow_weights_are_worth_their_bytes_while_memory_binds(dtype: str) -> None:
    row = {"op": "gemm", "m": 1, "n": 16384, "k": 16384}
    frame = predict_table(pl.DataFrame([{**row, "dtype": d} for d in ("bf16", dtype)]), "h100-sxm").frame
    wide, narrow = frame["dram_bytes"].to_list()
    assert narrow / wide == pytest.approx(BYTES[dtype] / BYTES["bf16"], rel=0.01)
    assert frame["duration_us"][1] < frame["duration_us"][0]


def test_a_library_that_nobody_states_is_named_as_what_widens_the_interval() -> None:
    rows = pl.DataFrame({
        "op": ["attention", "attention", "gemm"], "dtype": "bf16", "phase": ["prefill", "decode", None],
        "batch": [4, 64, None],
        "q_len": [1024, 1, None], "kv_len": [1024, 4096, None], "heads": [32, 32, None],
        "kv_heads": [8, 8, None], "head_dim": [128, 128, None], "causal": [1, 1, None],
        "m": [None, None, 4096], "n": [None, None, 4096], "k": [None, None, 4096],
    })  # fmt: skip
    open_rows = predict_table(rows, "h100-sxm", clocks_mhz=[1755])
    (note,) = [text for text in open_rows.notes if "library" in text]
    # one implementation of BF16 products is measured, cuBLAS, whatever the library: that row is not open
    assert note.startswith("library not stated for 2 rows: intervals hold any of ")
    stated = predict_table(rows.with_columns(stack=pl.lit("vllm 0.24.0")), "h100-sxm", clocks_mhz=[1755])
    assert not any("library" in text for text in stated.notes)
    width = pl.col("duration_high_us") / pl.col("duration_low_us")
    wide, narrow = (
        p.frame.filter(pl.col("op") == "attention").select(width).to_series() for p in (open_rows, stated)
    )
    assert (wide > narrow).all()


def test_a_library_that_decides_nothing_is_named_only_where_it_would() -> None:
    """Kernels of products are a library's, those of an element-wise row are anyone's."""
    rows = pl.DataFrame(
        {
            "op": ["gemm", "gemm", "elementwise", "gemm"],
            "dtype": "fp8",
            "m": [64, 64, None, 64],
            "n": [4096, 4096, None, 4096],
            "k": [4096, 4096, None, 4096],
            "elements": [None, None, 1 << 20, None],
            "stack": ["vLLM v0.19.0", "vlm 0.19", "inductor 2.9", "TensorRT-LLM 1.3.0rc20"],
        }
    )
    notes = [n for n in predict_table(rows, "h100-sxm").notes if n.startswith("no kernels of")]
    only = "only of sglang, trtllm, vllm"
    assert notes == [
        f"no kernels of 'vlm 0.19' were fitted ({only}): intervals are wider; did you mean vllm?"
    ]
    stated = predict_table(rows[:1].drop("stack"), "h100-sxm", assumed=Assumptions(stack="vlm 0.19")).notes
    assert notes[0] in stated


def test_a_rate_beyond_memorys_is_said_to_come_of_shared_pages() -> None:
    row = {"op": "attention", "dtype": "bf16", "phase": "decode", "batch": 64, "q_len": 1, "kv_len": 8192,
           "heads": 32, "kv_heads": 8, "head_dim": 128, "causal": True}  # fmt: skip
    cache_bytes, gpu = 2 * 64 * 8192 * 8 * 128 * 2, load_gpu("b200-sxm")
    unstated = predict_table(pl.DataFrame([row]), gpu.name)
    assert cache_bytes / unstated.frame["duration_us"][0] * 1e6 > gpu.dram_bytes_per_s
    (note,) = [text for text in unstated.notes if "shared pages" in text]
    own = own_calibration(gpu.name, "time")
    assert own is not None
    shared = own.section("decode")["repeat_hit"].value
    assert shared > 0.3
    assert f"{100 * shared:.0f} % of caches from L2" in note
    assert f"{1 / (1 - shared):.1f} times as long: --stack" in note
    stated = predict_table(pl.DataFrame([{**row, "stack": "vllm"}]), gpu.name)
    assert cache_bytes / stated.frame["duration_us"][0] * 1e6 < gpu.dram_bytes_per_s
    assert not [text for text in stated.notes if "shared pages" in text]
    for other in ("h100-sxm", "gb200"):  # of the latter no loop was measured
        unstated = predict_table(pl.DataFrame([row]), other)
        assert cache_bytes / unstated.frame["duration_us"][0] * 1e6 < load_gpu(other).dram_bytes_per_s
        assert not [text for text in unstated.notes if "shared pages" in text]


def test_long_messages_through_the_host_are_said_to_rest_on_slow_hosts() -> None:
    """nccl-tests on eight RTX 5090 reaches 28 GB/s on the bus: a tenth of the predicted time."""

    def notes(gpu: str, ranks: int, size: int = 1 << 30) -> list[str]:
        row = {"op": "collective", "kind": "all_reduce", "bytes": size, "ranks": ranks}
        predicted = predict_table(pl.DataFrame([row]), gpu)
        fastest = 2 * (ranks - 1) / ranks * size / 28e9 * 1e6
        said = [text for text in predicted.notes if text.startswith("collective_host")]
        if said:
            assert predicted.frame["duration_us"][0] < 25 * fastest
            assert predicted.frame["duration_low_us"][0] > 2 * fastest
        return said

    (note,) = notes("rtx-5090", 8)
    assert "1 row of 3 senders or more" in note
    assert "10 times as fast, beyond the interval" in note
    # two senders have the host to themselves, also two groups of four; short messages wait for it instead
    assert not [*notes("rtx-5090", 2), *notes("h200-nvl", 8), *notes("rtx-5090", 8, 1 << 16)]
    assert not notes("h100-sxm", 8)
