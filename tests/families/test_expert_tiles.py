"""Tiles of experts that a library's source tells: tables, and sizes it has measured tiles of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.moe.law import ACTIVATED_OPS, MOE
from tracetool.families.moe.problem import expert_layers
from tracetool.families.moe.tiles import (
    BY_EXPERTS,
    BY_PAIRS,
    BY_TOKENS,
    EXPERTS_BEFORE,
    FASTEST,
    FIRST_MADE,
    FIRST_MEMORY,
    FIRST_OF_MEMORY,
    FIRST_OF_WARPS,
    FIRST_WARPS,
    FIRST_WARPS_4,
    MIDDLE_MADE,
    TUNED,
    Tile,
    lanes_share,
    launched_tiles,
    offered,
)
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.unmeasured_libraries import host_of

H200 = load_gpu("h200-sxm")
FILE = Path(__file__).resolve().parents[2] / "tracetool" / "families" / "moe" / "tuned.toml"


def _layers(dtype: str = "bf16", tokens: float = 4096.0) -> OperatorColumns:
    """Return two layers of 128 experts, of 768 and 769: vLLM and SGLang hold a file for the first alone."""
    numbers = {"tokens": tokens, "hidden": 2048.0, "top_k": 8.0, "experts": 128.0, "tp": 1.0, "ep": 1.0}
    columns = {k: np.full(2, v) for k, v in numbers.items()} | {"intermediate": np.array([768.0, 769.0])}
    words = {"dtype": np.full(2, dtype, dtype=object)}
    return OperatorColumns(np.full(2, "moe", dtype=object), {**columns, **words})


@pytest.mark.parametrize("way", [BY_TOKENS, BY_EXPERTS, EXPERTS_BEFORE])
def test_sizes_with_measured_tiles_take_the_fastest_of_them(way: int) -> None:
    offers = offered(way, expert_layers(_layers(), H200), H200)
    timed = [one for one in offers if one.timed]
    assert tuple(one.tile for one in timed) == TUNED
    assert all(one.rows is not None and one.rows.tolist() == [True, False] for one in timed)
    by_table = [one.rows.tolist() for one in offers if not one.timed and one.rows is not None]
    assert by_table == [[False, True]]


@pytest.mark.parametrize(("way", "gpu"), [(BY_EXPERTS, "h20"), (BY_TOKENS, "h20"), (BY_EXPERTS, "a800-sxm")])
def test_a_gpu_nobody_measured_takes_the_tiles_its_library_has(way: int, gpu: str) -> None:
    one = load_gpu(gpu)
    [timed, *_] = [o.rows for o in offered(way, expert_layers(_layers(), one), one) if o.timed]
    assert timed is not None
    assert timed.tolist() == [True, False]


@pytest.mark.parametrize(("dtype", "gpu"), [("fp8", "h200-sxm"), ("bf16", "l40s")])
def test_other_formats_and_gpus_keep_the_default(dtype: str, gpu: str) -> None:
    one = load_gpu(gpu)
    assert not any(offer.timed for offer in offered(BY_TOKENS, expert_layers(_layers(dtype), one), one))


def test_all_tiles_are_offered_where_a_library_times_them() -> None:
    assert all(
        one.timed and one.rows is None for one in offered(FASTEST, expert_layers(_layers(), H200), H200)
    )


def test_a_measured_tile_is_quicker_than_a_poor_default() -> None:
    """SGLang's default for many tokens is 64 x 64 in steps of 32."""
    pieces = MOE.pieces(_layers(), H200, {"tile_table": float(BY_EXPERTS), "k_step_cycles": 600.0})
    tuned, default = duration_s(pieces, np.full((2, 1), 1.9e9))[:, 0]
    assert tuned < 0.9 * default


def test_tiles_by_pairs_are_multiplied_by_the_instructions_of_warps() -> None:
    """They reach a share of the rate that data-center GPUs since Hopper state, and all of it elsewhere."""
    law, row = laws()["moe_weight_only"], _layers("int4_wo", 65536.0)
    # so slow that converting weights counts for little beside
    given = {"tile_table": float(BY_PAIRS), "k_step_cycles": 1.0, "fill_norm": 8.0, "tensor_efficiency": 0.05}
    cores = {}
    for name in ("h200-sxm", "b200-sxm", "l40s"):
        gpu = load_gpu(name)
        core = law.pieces(row, gpu, given).core_cycles[0]
        cores[name] = core * gpu.sm_count * expert_layers(row, gpu).rate[0]
    assert cores["h200-sxm"] == pytest.approx(cores["l40s"] / 0.62, rel=0.05)
    assert cores["b200-sxm"] == pytest.approx(cores["l40s"] / 0.25, rel=0.05)


def test_converting_weights_takes_the_same_clocks_on_chips_of_any_matrix_rate() -> None:
    """Two operations a weight, on 128 lanes: as many clocks on an H200 as on a B200 of twice its rate."""
    law = laws()["moe_weight_only"]
    given = {"tile_table": 9.0, "k_step_cycles": 1.0, "fill_norm": 8.0, "tail_share": 0.0}
    given |= {"l2_efficiency": 100.0, "sm_bytes_clk": 1e6}
    more = {}
    for name in ("h200-sxm", "b200-sxm"):
        gpu = load_gpu(name)
        both = [
            law.pieces(_layers(dtype, 65536.0), gpu, given).core_cycles[0] * gpu.sm_count
            for dtype in ("int4_wo", "bf16")
        ]
        more[name] = both[0] - both[1]
    assert more["h200-sxm"] > 0.0
    assert more["h200-sxm"] == pytest.approx(more["b200-sxm"], rel=0.02)


def test_sizes_are_told_once_each() -> None:
    for by_gpu in tomllib.loads(FILE.read_text("utf-8")).values():
        for gpu, sizes in by_gpu.items():
            assert load_gpu(gpu).name == gpu
            assert len(set(sizes)) == len(sizes)
            assert all(all(int(part) > 0 for part in size.split("x")) for size in sizes)


@pytest.mark.parametrize(
    ("dtype", "tokens", "first", "middle"),
    [
        ("bf16", 64.0, 8.0, 8.0),  # 4 pairs of an expert
        ("bf16", 272.0, 16.0, 32.0),  # 17 of them: the next power of two, or the one before
        ("fp8_block", 16384.0, 64.0, 128.0),  # 1024 of them: the longest ladder ends at 128
        ("nvfp4", 16384.0, 128.0, 256.0),
        ("w4a16_mxfp4", 16384.0, 32.0, 64.0),  # beside activations of 16 bits it ends at 64
    ],
)
def test_generated_kernels_go_by_the_pairs_of_an_expert(
    dtype: str, tokens: float, first: float, middle: float
) -> None:
    layers = expert_layers(_layers(dtype, tokens), load_gpu("b200-sxm"))
    for way, expected in ((FIRST_MADE, first), (MIDDLE_MADE, middle)):
        [one] = offered(way, layers, load_gpu("b200-sxm"))
        assert (one.tile.tokens, one.tile.columns, one.timed) == (expected, 128.0, False)
        assert one.rows is not None and one.rows.all()


@pytest.mark.parametrize(
    ("tokens", "launched"),
    [
        (8.0, 64.0),  # 64 pairs: each may be the only one of an expert
        (16.0, 128.0),  # 128 of them, of as many experts
        (17.0, 128.0),  # eight more fill no tile of 16
        (272.0, 256.0),  # 2048 beside those of 128 experts
    ],
)
def test_generated_kernels_launch_blocks_for_the_most_uneven_choice(tokens: float, launched: float) -> None:
    layers = expert_layers(_layers(tokens=tokens), load_gpu("b200-sxm"))
    assert launched_tiles(layers, Tile(16.0, 128.0, 128.0)).tolist() == [launched, launched]


@pytest.mark.parametrize(
    ("law", "library", "name", "table"),
    [
        ("moe_fp4", "vllm", "vllm_mxfp4moe_flashinfer_trtllm", MIDDLE_MADE),
        ("moe_fp4", "trtllm", "moe_torch_flow", MIDDLE_MADE),
        ("moe_fp8_block", "sglang", "sglang_flashinfer_trtllm_moe", FIRST_MADE),
        ("moe_weight_only", "vllm", "vllm_flashinfer_trtllm", FIRST_MADE),
        ("moe_fp8", "trtllm", "moe_torch_flow", FASTEST),
    ],
)
def test_source_tells_which_libraries_time_generated_kernels(
    law: str, library: str, name: str, table: int
) -> None:
    host = host_of(laws()[law], library, name, "blackwell")
    assert host["tile_table"] == (0.0, table)
    # who times tiles takes none of which many blocks find no pairs
    assert host.get("leaves") == ((0.0, float(table == FIRST_MADE)) if table != FASTEST else None)
    activates = law == "moe_fp8_block" and table == FIRST_MADE
    assert host.get("activated_ops") == ((0.0, ACTIVATED_OPS) if activates else None)


@pytest.mark.parametrize(
    ("dtype", "tile"), [("bf16", FIRST_WARPS), ("fp8", FIRST_WARPS), ("nvfp4", FIRST_WARPS_4)]
)
def test_untimed_experts_of_warps_take_the_first_tile_of_their_format(dtype: str, tile: Tile) -> None:
    rtx = load_gpu("rtx-pro-6000-bw-server")
    chosen = [
        one for one in offered(FIRST_OF_WARPS, expert_layers(_layers(dtype), rtx), rtx)
        if one.rows is not None and one.rows.all()
    ]  # fmt: skip
    assert [(one.tile, one.timed) for one in chosen] == [(tile, False)]


def test_source_tells_which_libraries_time_experts_where_instructions_are_of_warps() -> None:
    name, first = "x_flashinfer_cutlass_x", (0.0, FIRST_OF_WARPS)
    for law in ("moe", "moe_fp8"):
        for library in ("vllm", "sglang"):
            assert host_of(laws()[law], library, name, "blackwell-gb20x")["tile_table"] == first
            assert host_of(laws()[law], library, name, "hopper")["tile_table"] != first
        assert host_of(laws()[law], "trtllm", "moe_torch_flow_cutlass", "ada")["tile_table"] == (0.0, FASTEST)
    four = laws()["moe_fp4"]
    assert host_of(four, "vllm", name, "blackwell-gb20x", elsewhere=True)["tile_table"] == first
    assert host_of(four, "vllm", name, "blackwell", elsewhere=True)["tile_table"] != first


@pytest.mark.parametrize(("dtype", "depth"), [("bf16", 64.0), ("fp8", 128.0), ("nvfp4", 256.0)])
def test_untimed_experts_of_cutlass_take_the_first_tile_for_tensor_memory(dtype: str, depth: float) -> None:
    """128 tokens, 128 bytes deep; by 128 columns, of 4 bits by 64."""
    b200 = load_gpu("b200-sxm")
    [one] = [
        one.tile for one in offered(FIRST_OF_MEMORY, expert_layers(_layers(dtype), b200), b200)
        if one.rows is not None and one.rows.all()
    ]  # fmt: skip
    assert one in FIRST_MEMORY
    assert (one.tokens, one.columns, one.depth) == (128.0, 64.0 if depth > 128.0 else 128.0, depth)


def test_libraries_time_no_experts_of_cutlass_with_tensor_memory() -> None:
    for law in ("moe", "moe_fp8", "moe_fp4"):
        for library in ("vllm", "sglang"):
            host = host_of(laws()[law], library, "x_flashinfer_cutlass_x", "blackwell")
            assert host["tile_table"] == (0.0, FIRST_OF_MEMORY)
    # the generated ones are another kernel
    generated = host_of(laws()["moe"], "vllm", "x_flashinfer_trtllm_x", "blackwell")
    assert generated["tile_table"] == (0.0, FASTEST)


def test_tritons_tiles_of_64_rows_take_half_of_the_lanes_of_tensor_memory() -> None:
    b200, h100 = load_gpu("b200-sxm"), load_gpu("h100-sxm")
    half, whole = Tile(64.0, 128.0, 64.0, 4.0), Tile(128.0, 128.0, 64.0, 8.0)
    assert [lanes_share(tile, b200) for tile in (half, whole, Tile(64.0, 128.0))] == [0.5, 1.0, 1.0]
    assert lanes_share(half, h100) == 1.0


def test_no_fit_tries_what_source_alone_tells() -> None:
    for name in ("moe_fp4", "moe_fp8", "moe_fp8_block", "moe_weight_only"):
        law = laws()[name]
        assert not any({"leaves", "activated_ops"} & {*habit} for habit in law.habits)
        told = law.priors["tile_table"].stated_choices
        assert told and not {habit.get("tile_table") for habit in law.habits} & {*told}
        assert law.project_habits["generated-experts"]["tile_table"] in told


@pytest.mark.parametrize(("dtype", "padded"), [("w4a16_mxfp4", True), ("int4_wo", False)])
def test_mxfp4_weights_are_read_as_they_are_padded_and_counted_as_they_are(
    dtype: str, *, padded: bool
) -> None:
    """Sizes of 2880 and 360 are stored as 3072 and 512: so many bytes, but no more work."""
    b200 = load_gpu("b200-sxm")
    rows = _layers(dtype, tokens=8.0)
    sizes = {"hidden": np.full(2, 2880.0), "intermediate": np.full(2, 2880.0), "tp": np.full(2, 8.0)}
    rows = OperatorColumns(rows.family, {**rows.columns, **sizes})
    law = laws()["moe_weight_only"]
    stored, plain = (law.pieces(rows, b200, {"padded": elements, "l2_hit": 0.0}) for elements in (256.0, 0.0))
    more = 3072.0 * 512.0 / (2880.0 * 360.0) if padded else 1.0
    assert stored.memory_s[0] / plain.memory_s[0] == pytest.approx(more, rel=0.02)
    assert stored.work.dram_bytes[0] == plain.work.dram_bytes[0]
    assert stored.work.useful_flops[0] == plain.work.useful_flops[0]
