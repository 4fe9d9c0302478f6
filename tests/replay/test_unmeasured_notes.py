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
    words = ("was fitted", "not measured", "not stated: kernels")
    return [note for note in predicted.notes if any(word in note for word in words)]


def test_an_unknown_kernel_is_named_with_the_one_taken() -> None:
    cublas = {**_PRODUCT, "dtype": "bf16", "implementation": "bogus-impl"}
    (note,) = _notes({**cublas, "stack": "vllm 0.22.0"})
    assert note.startswith("gemm of vllm: no kernel 'bogus-impl' was fitted: cublas taken; known: ")
    (note,) = _notes(cublas)
    assert note.startswith("gemm: no kernel 'bogus-impl' was fitted: cublas taken; known: ")
    (note,) = _notes({**cublas, "stack": "vllm 0.24.0", "implementation": "vllm_defalt"})
    assert note.endswith("did you mean vllm_default?")


def test_a_known_kernel_that_was_not_measured_in_this_format_is_named_with_those_taken() -> None:
    (note,) = _notes({**_PRODUCT, "implementation": "deepgemm"})
    assert note.startswith("gemm_fp8: kernel 'deepgemm' was not measured: ")
    assert note.endswith(" taken, with wider intervals")
    assert not _notes({**_PRODUCT, "dtype": "fp8_block", "implementation": "deepgemm"})


def test_a_version_nobody_measured_is_named_with_the_nearest() -> None:
    taken = "was not measured on hopper: kernels of vllm 0.24.0 taken; measured: vllm 0.24.0"
    assert _notes({**_PRODUCT, "stack": "vllm 99"}) == [f"version of 'vllm 99' {taken}"]
    both = taken.replace("vllm 0.24.0", "vllm 0.22.0, vllm 0.24.0")  # decode was measured in another, too
    assert _notes(_PRODUCT, _DECODE, assumed="vLLM 0.9") == [f"version of 'vLLM 0.9' {both}"]


def test_a_version_that_was_measured_of_other_operators_is_missed_in_those_that_lack_it() -> None:
    """On Hopper vLLM's latent attention was measured in 0.14, all else in 0.24: the note was of all."""
    latent = {"op": "mla", "phase": "decode", "dtype": "bf16", "batch": 64, "q_len": 1, "kv_len": 4096,
              "heads": 16, "kv_lora_rank": 512}  # fmt: skip
    (note,) = _notes(_PRODUCT, latent, assumed="vllm 0.24.0")
    assert note.startswith(
        "mla_decode: version of 'vllm 0.24.0' was not measured on hopper: kernels of vllm 0.14.0"
    )


@pytest.mark.parametrize(("dtype", "noted"), [("int4_wo", True), ("bf16", False), ("fp8", False)])
def test_a_format_none_of_a_librarys_kernels_was_fitted_to_is_named(dtype: str, noted: bool) -> None:
    """Products of weights in 4 bits under vLLM had bounds a factor of 22 apart, and no word of it."""
    rows = pl.DataFrame([{**_PRODUCT, "dtype": dtype, "stack": "vllm 0.24.0"}])
    notes = [note for note in predict_table(rows, "h100-sxm").notes if "no kernels of" in note]
    said = "gemm_weight_only: no kernels of vllm were fitted (only of trtllm): intervals are wider"
    assert notes == ([said] if noted else [])


def test_a_gpu_that_no_library_was_fitted_to_says_that_it_heeds_none() -> None:
    """Bounds of latent decode on an MI300X are 37 apart under every library, and no note said why."""
    rows = pl.DataFrame([{**_PRODUCT, "stack": stack} for stack in ("vllm 0.24.0", "sglang 0.5.14")])
    predicted = predict_table(rows, "mi300x")
    assert predicted.frame["duration_us"].n_unique() == 1
    (note,) = [note for note in predicted.notes if "fitted" in note]
    assert note.startswith("no library's kernels were fitted to GPUs such as mi300x: a stated library")


def test_a_library_without_a_version_is_named_with_the_one_taken() -> None:
    taken = "version of 'vllm' is not stated: kernels of vllm 0.24.0 taken, intervals hold other versions"
    assert _notes(_PRODUCT, assumed="vllm") == [f"{taken}; a stated one narrows them"]


def test_a_library_without_a_version_is_no_surer_than_one_nobody_measured() -> None:
    def log_width(stack: str, **row: object) -> tuple[float, float]:
        table = pl.DataFrame([{**_PRODUCT, "m": 4096, **row}])
        predicted = predict_table(table, "b200-sxm", assumed=Assumptions(stack=stack)).frame
        low, time, high = (predicted[f"duration_{end}us"][0] for end in ("low_", "", "high_"))
        return time, high / low

    for dtype in ("fp8", "fp8_block"):
        bare, unmeasured, measured = (
            log_width(stack, dtype=dtype) for stack in ("trtllm", "trtllm 1.3.0rc21", "trtllm 1.3.0rc20")
        )
        assert bare[0] == measured[0]
        assert bare[1] == pytest.approx(unmeasured[1], rel=0.02)
        assert bare[1] > 1.3 * measured[1]


def _predicted(gpu: str, **row: object) -> tuple[str, float, float]:
    """Return the basis of a row, and how far its bounds are below and above its time."""
    frame = predict_table(pl.DataFrame([row]), gpu).frame
    low, time, high = (frame[f"duration_{end}us"][0] for end in ("low_", "", "high_"))
    return frame["basis"][0], low / time, high / time


def test_a_word_that_tells_the_kernel_leaves_no_other_of_the_library() -> None:
    """Experts asked for as Triton's are these, whatever version of the library was left out."""
    experts = {
        "op": "moe", "dtype": "bf16", "tokens": 64, "hidden": 4096, "intermediate": 1536, "top_k": 8,
        "experts": 128, "tp": 8, "ep": 1, "distribution": "power_law_1.2",
    }  # fmt: skip
    basis, _, high = _predicted("h100-sxm", **experts, stack="vllm", implementation="triton")
    measured = _predicted("h100-sxm", **experts, stack="vllm 0.24.0", implementation="triton")
    assert basis == measured[0] == "calibrated: vllm-triton"
    assert high == pytest.approx(measured[2], rel=0.1)
    assert _predicted("h100-sxm", **experts, stack="vllm")[2] > 1.5 * high  # nobody named a kernel


@pytest.mark.parametrize(("phase", "q_len"), [("decode", 1), ("prefill", 1024)])
@pytest.mark.parametrize("stack", ["vllm", "sglang", "trtllm", None])
def test_a_cache_format_nobody_measured_is_no_calibration(phase: str, q_len: int, stack: str | None) -> None:
    """Nobody measured a cache of 8 bits on an A100, but on an H100."""
    row = {
        "op": "attention", "dtype": "bf16", "phase": phase, "batch": 8, "q_len": q_len, "kv_len": 1024,
        "heads": 32, "kv_heads": 8, "head_dim": 128, "stack": stack,
    }  # fmt: skip
    known, of_eight_bits = (_predicted("a100-sxm", **row, kv_dtype=kv) for kv in ("bf16", "fp8"))
    assert known[0].startswith("calibrated")
    assert of_eight_bits[0].startswith("transferred from")
    assert of_eight_bits[0].endswith("another format")
    assert of_eight_bits[1] < 0.9 * known[1]
    assert of_eight_bits[2] > 1.6
    if stack == "vllm":
        assert _predicted("h100-sxm", **row, kv_dtype="fp8")[0] == "calibrated: vllm-flash-attn-fa3"


def test_the_format_of_a_cache_tells_the_kernel() -> None:
    """FlashAttention 2 reads no cache of 8 bits: on an L40S vLLM takes FlashInfer or Triton for it."""
    row = {
        "op": "attention", "dtype": "bf16", "phase": "decode", "batch": 8, "q_len": 1, "kv_len": 1024,
        "heads": 32, "kv_heads": 8, "head_dim": 128, "stack": "vllm",
    }  # fmt: skip
    assert _predicted("l40s", **row, kv_dtype="bf16")[0] == "calibrated: vllm-flash-attn-fa2"
    assert "fa2" not in _predicted("l40s", **row, kv_dtype="fp8")[0]


def test_what_was_measured_gets_no_note() -> None:
    assert not _notes(
        _PRODUCT, {**_DECODE, "stack": "vllm 0.24"}, {**_PRODUCT, "stack": "vLLM v0.24.0+cu128"}
    )
    assert not _notes({**_PRODUCT, "dtype": "bf16", "stack": "vllm 99"})  # cuBLAS, whatever the version
    assert not _notes({**_DECODE, "implementation": "flash_attention_4"})


def test_a_note_on_a_library_of_which_nothing_was_fitted_is_printed_once() -> None:
    predicted = predict_table(pl.DataFrame([_PRODUCT]), "b200-sxm", assumed=Assumptions(stack="foo"))
    assert len([note for note in predicted.notes if "no kernels of 'foo'" in note]) == 1


def test_another_kernel_without_a_causal_mask_is_noted() -> None:
    row = {"op": "attention", "dtype": "bf16", "phase": "prefill", "batch": 4, "q_len": 4096, "kv_len": 4096,
           "heads": 32, "kv_heads": 8, "head_dim": 128}  # fmt: skip

    def notes(stack: str, *, causal: bool) -> list[str]:
        table = read_table(pl.DataFrame([{**row, "causal": causal, "stack": stack}]))
        return unmeasured_notes(table.rows, load_gpu("l40s"))

    (note,) = notes("sglang 0.5.14", causal=False)
    assert note == "encoder: sglang runs sglang-triton without a causal mask, not sglang-flashinfer"
    assert not notes("sglang 0.5.14", causal=True)
    assert not notes("vllm 0.24.0", causal=False)  # FlashAttention 2 either way


@pytest.mark.data
def test_no_measured_row_gets_a_note(data: Path) -> None:
    for path in sorted((data / "stacks").glob("*.parquet")):
        table = pl.read_parquet(path)
        stated = ["gpu", "op", "dtype", "kv_dtype", "phase", "kind", "stack", "implementation", "backend"]
        stated = [column for column in stated if column in table.columns]
        samples = table.group_by(stated, maintain_order=True).head(1).select(table.columns)
        for (gpu,), sample in samples.group_by("gpu", maintain_order=True):
            assert unmeasured_notes(read_table(sample).rows, load_gpu(str(gpu))) == [], (path.name, gpu)
