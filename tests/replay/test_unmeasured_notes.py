"""Kernels and versions that a table states and nobody measured: a note says what is taken instead."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracetool.hardware.load import load_gpu
from tracetool.replay.assumptions import Assumptions
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict_table import predict_table
from tracetool.replay.unmeasured_notes import unmeasured_notes

#: A product and attention whose kernels are a library's.
_PRODUCT = {"op": "gemm", "dtype": "fp8", "m": 64, "n": 4096, "k": 4096}
_DECODE = {"op": "attention", "dtype": "bf16", "phase": "decode", "batch": 8, "q_len": 1, "kv_len": 4096,
           "heads": 32, "kv_heads": 8, "head_dim": 128}  # fmt: skip


def _notes(*rows: dict[str, object], assumed: str = "") -> list[str]:
    predicted = predict_table(pl.DataFrame(list(rows)), "h100-sxm", assumed=Assumptions(stack=assumed))
    return [note for note in predicted.notes if "was fitted" in note or "not measured" in note]


def test_an_unknown_kernel_is_named_with_the_one_taken() -> None:
    cublas = {**_PRODUCT, "dtype": "bf16", "implementation": "bogus-impl"}
    (note,) = _notes({**cublas, "stack": "vllm 0.22.0"})
    assert note.startswith("gemm of vllm: no kernel 'bogus-impl' was fitted: cublas taken; known: ")
    (note,) = _notes(cublas)
    assert note.startswith("gemm: no kernel 'bogus-impl' was fitted: cublas taken; known: ")
    (note,) = _notes({**cublas, "stack": "vllm", "implementation": "vllm_defalt"})
    assert note.endswith("did you mean vllm_default?")


def test_a_version_nobody_measured_is_named_with_the_nearest() -> None:
    taken = "was not measured on hopper: kernels of vllm 0.24.0 taken; measured: vllm 0.24.0"
    assert _notes({**_PRODUCT, "stack": "vllm 99"}) == [f"version of 'vllm 99' {taken}"]
    both = taken.replace("vllm 0.24.0", "vllm 0.22.0, vllm 0.24.0")  # decode was measured in another, too
    assert _notes(_PRODUCT, _DECODE, assumed="vLLM 0.9") == [f"version of 'vLLM 0.9' {both}"]


def test_what_was_measured_or_states_no_version_gets_no_note() -> None:
    assert not _notes(_PRODUCT, {**_DECODE, "stack": "vllm"}, {**_PRODUCT, "stack": "vLLM v0.24.0+cu128"})
    assert not _notes({**_PRODUCT, "dtype": "bf16", "stack": "vllm 99"})  # cuBLAS, whatever the version
    assert not _notes({**_DECODE, "implementation": "flash_attention_4"})


@pytest.mark.data
def test_no_measured_row_gets_a_note(data: Path) -> None:
    for path in sorted((data / "stacks").glob("*.parquet")):
        table = pl.read_parquet(path)
        stated = ["op", "dtype", "kv_dtype", "phase", "kind", "stack", "implementation", "backend"]
        stated = [column for column in stated if column in table.columns]
        sample = table.group_by(stated, maintain_order=True).head(1).select(table.columns)
        assert unmeasured_notes(read_table(sample).rows, load_gpu(table["gpu"][0])) == [], path.name
