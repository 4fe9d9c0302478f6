"""The prefill law holds the coefficients its page explains, and no more than the ablation left."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from tracetool.families.attention.prefill import PREFILL
from tracetool.families.attention.problem import attention_scores, least_cycles
from tracetool.families.attention.tile_sizes import (
    FLASH_3,
    FLASHINFER,
    SGLANG_ENCODER,
    SGLANG_TRITON,
    TRTLLM_WARPS,
    VLLM_TRITON,
    tile_sizes,
)
from tracetool.families.pieces import Pieces
from tracetool.hardware.load import load_gpu
from tracetool.hardware.names import gpu_names
from tracetool.replay.operator_tables import read_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "families" / "prefill.md"
#: Coefficients left by ``benchmarks/ablate_law.py``, and those several libraries showed: ``l2_hit``, worth 5
#: points on an L40S; ``token_clk`` and ``cache_passes``, 2 of FlashAttention 3; ``outside`` and ``dim512``, 7
#: of Triton; steps of fp8 by head, 2 on an L40S; ``uneven_dim``, 8 of encoders
#: on a B200; ``odd_dim_us``, 10 of Triton on a B200; ``fp8_launch_us``, 3 of SGLang's and ``kv8_pass``, 1.7
#: of vLLM's calls of TensorRT-LLM's kernels; ``wait_clk``, 1 of Triton on an L40S, and 4 with that left out.
#: One more must be worth its place on shapes left out.
MOST = 36


def test_the_law_has_no_more_coefficients_than_the_ablation_left() -> None:
    # what source tells of measuring loops, of caches and of formats is fitted to nothing
    told = {"loop_us", "kv8_casts", "kv8_products", "q_casts"}
    # the rates at which SMs pass bytes came since, and stand for passes more of memory
    assert len(set(PREFILL.priors) - told - {"pass_clk", "cache_clk"}) <= MOST


def test_the_page_explains_every_coefficient() -> None:
    table = PAGE.read_text("utf-8").split("\n| coefficient |", 1)[1].split("\n\n", 1)[0]
    explained = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(explained) == sorted(PREFILL.priors)


def _core(dim: int, queries: int, **given: float) -> float:
    """Core clocks of one layer of a vision encoder: no mask, every query sees every key."""
    row = {"op": "attention", "phase": "prefill", "dtype": "bf16", "batch": 32, "q_len": queries}
    row |= {"heads": 16, "head_dim": dim, "causal": False}
    rows = read_table(pl.DataFrame([row])).rows
    return float(PREFILL.pieces(rows, load_gpu("h100-sxm"), given).core_cycles[0])


@pytest.mark.parametrize("queries", [13, 197, 577, 4096])
def test_heads_of_72_cost_what_those_of_80_do(queries: int) -> None:
    assert _core(72, queries) == pytest.approx(_core(80, queries), rel=0.05)  # what L2 gives is not padded
    assert _core(72, queries) > _core(64, queries)


def test_lengths_between_tiles_cost_a_whole_tile() -> None:
    tile = {"query_tile": 64.0, "tail_share": 1.0}
    assert _core(64, 577, **tile) == pytest.approx(_core(64, 640, **tile), rel=1e-6)
    assert _core(64, 641, **tile) > 1.05 * _core(64, 640, **tile)


@pytest.mark.parametrize("dim", [64, 72, 96])
def test_flash_attention_3_takes_192_queries_up_to_heads_of_96(dim: int) -> None:
    sized = {"by_head": 1.0, "spare_share": 1.0}
    assert _core(dim, 192, **sized) < 0.7 * _core(dim, 256, **sized)
    assert _core(128, 192, **sized) == pytest.approx(_core(128, 256, **sized), rel=0.02)


def test_without_a_mask_twice_the_tiles_of_a_causal_prefill_are_visited() -> None:
    row = {"op": "attention", "phase": "prefill", "dtype": "bf16", "batch": 4, "q_len": 8192, "heads": 16}
    frame = pl.DataFrame([{**row, "head_dim": 64, "causal": causal} for causal in (True, False)])
    causal, whole = PREFILL.pieces(read_table(frame).rows, load_gpu("h100-sxm"), {}).core_cycles
    assert 1.8 < whole / causal < 2.0


def _layer(gpu: str = "h100-sxm", given: dict[str, float] | None = None, **columns: float) -> Pieces:
    row: dict[str, object] = {
        "op": "attention",
        "phase": "prefill",
        "dtype": "bf16",
        "batch": 8,
        "q_len": 512,
    }
    row |= {"heads": 8, "kv_heads": 8, "head_dim": 128, **columns}
    return PREFILL.pieces(read_table(pl.DataFrame([row])).rows, load_gpu(gpu), given or {})


def test_a_token_is_written_to_the_cache_by_a_block_however_few_its_heads() -> None:
    free, block = {"token_clk": 1e-9}, {"token_clk": 100.0}
    for heads in (1, 8):
        shape = {"heads": heads, "kv_heads": heads}
        more = _layer(given=block, **shape).serial_cycles - _layer(given=free, **shape).serial_cycles
        assert more[0] == pytest.approx(100.0 * 8 * 512 / load_gpu("h100-sxm").sm_count)


def test_without_its_write_the_cache_costs_no_block_no_pass_and_a_kernel_less() -> None:
    given = {"token_clk": 100.0, "cache_passes": 4.0, "launch_us": 8.0, "pass_factor": 0.5}
    bare = {**given, "token_clk": 1e-9, "cache_passes": 0.0, "cache_clk": 0.0}
    written, apart = (_layer(given=given, cache_write=flag) for flag in (True, False))
    none = _layer(given=bare)
    assert (written.fixed_s - apart.fixed_s)[0] == pytest.approx(2e-6)
    assert apart.serial_cycles[0] == pytest.approx(none.serial_cycles[0], rel=1e-6)
    assert apart.stream_s[0] == pytest.approx(none.stream_s[0])
    assert apart.stream_s[0] < written.stream_s[0]


def test_no_less_than_one_kernel_is_launched_where_no_cache_is_written() -> None:
    written, apart = (_layer(given={"launch_us": 1.5}, cache_write=flag) for flag in (True, False))
    assert apart.fixed_s[0] == written.fixed_s[0]


def test_one_wave_takes_as_long_as_its_longest_block() -> None:
    given = {"query_tile": 128.0, "tail_norm": 1.2, "l2_efficiency": 5.0}
    one, two = (_layer(given=given, batch=1, heads=n, kv_heads=n).core_cycles[0] for n in (1, 2))
    assert one == pytest.approx(two, rel=0.01)


def test_keys_outside_of_a_window_take_their_clocks_whatever_the_head() -> None:
    """A tile of 64 queries of 8192, with a window of 128: 62 of 128 tiles of keys before it, in the mean."""
    for dim in (64, 128):
        times = [
            _layer(
                given={"skip_clk": clocks, "query_tile": 64.0, "tail_share": 0.0, "tail_norm": 12.0},
                q_len=8192, window=128.0, head_dim=dim,
            ).core_cycles[0]
            for clocks in (0.5, 1000.5, 2000.5)
        ]  # fmt: skip
        assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=0.05)
        lanes = 8 * 8
        skipped = sum(max(i + 1 - 3, 0) for i in range(128))
        assert times[2] - times[1] == pytest.approx(1000 * lanes * skipped / 132, rel=0.05)


def test_launches_scale_with_the_boost_clock() -> None:
    fixed = {gpu: _layer(gpu).fixed_s[0] * load_gpu(gpu).clock_boost_mhz for gpu in ("l40s", "a100-sxm")}
    assert fixed["l40s"] == pytest.approx(fixed["a100-sxm"])


@pytest.mark.parametrize(
    ("gpu", "sizes"),
    [
        ("h100-sxm", [(128, 64), (64, 64), (32, 64)]),
        ("b200-sxm", [(64, 64), (64, 64), (16, 64)]),
        ("a100-sxm", [(128, 128), (64, 64), (32, 64)]),
        ("l40s", [(64, 128), (64, 64), (32, 32)]),
        ("rtx-5090", [(64, 128), (64, 64), (32, 32)]),
        ("t4", [(64, 64), (32, 32), (32, 32)]),
        ("mi300x", [(64, 64), (64, 64), (64, 64)]),
    ],
)
def test_tiles_of_triton_in_sglang_are_those_of_its_source(gpu: str, sizes: list[tuple[int, int]]) -> None:
    assert _tiles(gpu, SGLANG_TRITON, head_dim=[128, 256, 512]) == sizes


def test_tiles_of_triton_in_vllm_hold_16_rows_of_packed_heads() -> None:
    assert _tiles("h100-sxm", VLLM_TRITON, heads=[8, 32, 24], kv_heads=[8, 1, 1]) == [
        (16, 32),
        (32, 32),
        (32, 32),
    ]


@pytest.mark.parametrize(
    ("gpu", "keys", "dtype", "expected"),
    [
        ("a100-sxm", 4096, "bf16", [(128, 128), (64, 128), (64, 128)]),  # heads are taken in parts
        ("a100-sxm", 64, "bf16", [(64, 32), (64, 32), (64, 16)]),  # few keys: they are not
        ("l40s", 4096, "bf16", [(64, 32), (64, 32), (64, 128)]),  # little shared memory: long ones are
        ("l40s", 64, "bf16", [(64, 32), (64, 32), (64, 16)]),
        ("l40s", 4096, "fp8", [(128, 128), (64, 32), (64, 32)]),
    ],
)
def test_tiles_of_tensorrt_llm_before_hopper(
    gpu: str, keys: int, dtype: str, expected: list[tuple[int, int]]
) -> None:
    columns = {"head_dim": [64, 128, 256], "q_len": [keys] * 3}
    assert _tiles(gpu, TRTLLM_WARPS, dtype=dtype, **columns) == expected


def test_tiles_of_flashinfer_by_packed_rows_heads_and_shared_memory() -> None:
    # 16 rows: four warps take keys apart; two blocks an SM leave 16 keys of heads of 256 in 100 KiB
    few = _tiles("l40s", FLASHINFER, q_len=[2, 2, 16], heads=[8, 8, 8], kv_heads=[1, 2, 1])
    assert few == [(16, 64), (16, 64), (128, 32)]
    assert _tiles("l40s", FLASHINFER, q_len=[512] * 3, head_dim=[64, 128, 256])[1:] == [(128, 32), (64, 16)]
    assert _tiles("a100-sxm", FLASHINFER, q_len=[512] * 3, head_dim=[64, 128, 256])[2] == (64, 32)


def test_new_keys_of_tensorrt_llm_are_multiplied_in_16_bits_whatever_the_cache() -> None:
    slower = {"kv8_step": 2.0, "kv8_tile": 2.0}
    core = {
        (whose, given): _layer("l40s", given={"by_head": whose, **(slower if given else {})}, kv_dtype="fp8")
        .core_cycles[0]
        for whose in (0.0, TRTLLM_WARPS)
        for given in (False, True)
    }  # fmt: skip
    assert core[0.0, True] > 1.5 * core[0.0, False]
    assert core[TRTLLM_WARPS, True] == core[TRTLLM_WARPS, False]


def test_a_cache_of_8_bits_halves_the_keys_read_and_takes_two_casts_where_told() -> None:
    wide, narrow = (_layer("l40s", given={}, kv_dtype=kind, heads=1, kv_heads=1) for kind in ("bf16", "fp8"))
    assert narrow.memory_s[0] == pytest.approx(0.75 * wide.memory_s[0], rel=0.02)  # Q and O stay
    cast = _layer("l40s", given={"kv8_casts": 2.0}, kv_dtype="fp8", heads=1, kv_heads=1)
    assert (cast.fixed_s - narrow.fixed_s)[0] == pytest.approx(2 * 1.1e-6 * 1980.0 / 2520.0, rel=1e-6)
    same = _layer("l40s", given={"kv8_casts": 2.0}, heads=1, kv_heads=1)
    assert same.fixed_s[0] == wide.fixed_s[0]


def _tiles(gpu: str, whose: float, dtype: str = "bf16", **columns: list[int]) -> list[tuple[int, int]]:
    rows = {"op": ["attention"] * 3, "phase": ["prefill"] * 3, "dtype": [dtype] * 3, "batch": [1] * 3}
    rows |= {"q_len": [64] * 3, "heads": [8] * 3, "head_dim": [128] * 3, **columns}
    sheet = load_gpu(gpu)
    scores = attention_scores(read_table(pl.DataFrame(rows)).rows, sheet)
    queries, keys = tile_sizes(scores, sheet, {"by_head": whose, "query_tile": 64.0})
    return [(int(q), int(k)) for q, k in zip(queries, keys, strict=True)]


@pytest.mark.parametrize(
    ("gpu", "rows"), [("l40s", 64), ("a100-sxm", 64), ("rtx-5090", 128), ("b200-sxm", 128), ("mi300x", 64)]
)
def test_triton_for_encoders_in_sglang_takes_larger_tiles_beyond_ada(gpu: str, rows: int) -> None:
    assert _tiles(gpu, SGLANG_ENCODER, head_dim=[64, 80, 128]) == [(rows, rows)] * 3


def test_triton_in_sglang_pads_heads_but_those_it_takes_in_parts() -> None:
    """Scores of 192 numbers take 128 and 64 of them, values 256: half of both are 224 of products."""
    core = [
        _layer(given={"by_head": SGLANG_TRITON, "mix_norm": 8.0, "tensor_efficiency": 1e-3, "dim192": 1.0,
                      "dim256": 1.0, "tail_norm": 12.0}, head_dim=dim).core_cycles[0]
        for dim in (192, 256)
    ]  # fmt: skip
    assert core[0] / core[1] == pytest.approx(224 / 256, rel=0.01)


def test_products_of_triton_in_sglang_run_on_instructions_that_newer_chips_still_have() -> None:
    given = {"mix_norm": 8.0, "tensor_efficiency": 1e-3, "tail_norm": 12.0, "query_tile": 64.0}
    for gpu, share in (("b200-sxm", 0.25), ("l40s", 1.0)):
        own, older = (
            _layer(gpu, given={**given, "by_head": whose}, head_dim=256, q_len=4096).core_cycles[0]
            for whose in (0.0, SGLANG_TRITON)
        )
        assert own / older == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize("gpu_name", gpu_names())
def test_no_library_multiplies_faster_than_the_chip(gpu_name: str) -> None:
    gpu, dtypes = load_gpu(gpu_name), ("fp32", "fp16", "bf16")
    row = {"op": "attention", "phase": "prefill", "batch": 1, "q_len": 8192, "heads": 32, "head_dim": 128}
    rows = read_table(pl.DataFrame([{**row, "dtype": dtype} for dtype in dtypes])).rows
    scores = attention_scores(rows, gpu)
    least = least_cycles(scores, scores.rate, gpu)
    for kernel in (0.0, FLASH_3, SGLANG_TRITON, VLLM_TRITON, TRTLLM_WARPS, FLASHINFER):
        assert (PREFILL.pieces(rows, gpu, {"by_head": kernel}).core_cycles >= 0.999 * least).all(), kernel


def test_a_kernel_of_one_stage_loads_waits_and_multiplies_in_turn() -> None:
    """What SGLang's Triton kernel draws adds to its products, and each step waits for keys and for values."""
    row = {"op": "attention", "phase": "prefill", "dtype": "bf16", "batch": 8, "q_len": 4096}
    rows = read_table(pl.DataFrame([row | {"heads": 16, "head_dim": 128}])).rows
    gpu = load_gpu("h100-sxm")

    def core(**given: float) -> float:
        return float(PREFILL.pieces(rows, gpu, given).core_cycles[0])

    def drawn(whose: float, share: float) -> float:
        return core(by_head=whose, l2_efficiency=share) - core(by_head=whose, l2_efficiency=1e9)

    assert drawn(SGLANG_TRITON, 0.25) == pytest.approx(2.0 * drawn(SGLANG_TRITON, 0.5), rel=1e-6)
    assert drawn(FLASH_3, 0.5) < 0.2 * drawn(SGLANG_TRITON, 0.5)
    waits = core(by_head=SGLANG_TRITON, wait_clk=2000.0) - core(by_head=SGLANG_TRITON, wait_clk=1000.0)
    steps = 8 * 16 * sum(2 * (i + 1) for i in range(32)) / gpu.sm_count  # tiles of 128 queries by 64 keys
    assert waits == pytest.approx(1000.0 * steps, rel=0.05)
    assert core(by_head=FLASH_3, wait_clk=2000.0) == core(by_head=FLASH_3, wait_clk=1000.0)
