"""Mixtures of experts: two grouped products over the touched experts, routing before, sums after.

Equation and sources: docs/families/moe.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats, Ints, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients, values_of
from tracetool.families.formats import sustained_share
from tracetool.families.gemm.law import GEMM
from tracetool.families.instructions import rate_share
from tracetool.families.law import SCALED_WARPS, TENSOR_MEMORY, WARPS, Coefficients, Law
from tracetool.families.loops import EXPERT_LOOPS, NEXT_US, loop_more_us
from tracetool.families.moe.problem import CONVERTED_OPS, Experts, expert_layers, layers_work, stored_formats
from tracetool.families.moe.tiles import (
    BLOCK,
    BLOCK_BY_TOKENS,
    BY_EXPERTS,
    BY_PAIRS,
    BY_TOKENS,
    EXPERTS_BEFORE,
    FASTEST,
    FIRST_MADE,
    FIRST_OF_MEMORY,
    FIRST_OF_WARPS,
    MIDDLE_MADE,
    UNTIMED,
    Tile,
    lanes_share,
    launched_tiles,
    offered,
    resident,
)
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: What the formats of MXFP4 weights have in their names.
MXFP4 = "mxfp4"
#: Share of pairs of other GPUs that are left out: the least law.toml allows. [1] By definition of its bounds.
NO_PAIRS = 0.001
#: Share of L2 that weights read again and again keep to themselves. [1] A prior.
RESIDENT_SHARE = 0.7
#: Share of L2's peak that passes over what it holds reach. [1] A prior.
PASSES_SHARE = 0.5
#: A pair that many blocks sort together, where one does by the law's prior [ns]; share of the memory's peak
#: that weights reach which come in whole tiles [1]. Both a prior.
ROUTED_NS, STREAMED = 0.3, 0.92
#: Elements of a block of scales [elements], and operations on the FP32 pipe for each sum over one: a product
#: by the scale of the row, one by that of the column, and an addition to the rest [op]. By definition of the
#: format, where scales are no powers of two that matrix instructions take themselves.
SCALED_DEPTH, SCALED_OPS = 128.0, 3.0


def _moved(e: Experts, gpu: Gpu, c: Coefficients) -> list[tuple[Floats, Floats, Floats]]:
    """Return columns, depth and bytes of both grouped products, whatever their tiles."""
    pairs = e.pairs + c["remote_products"] * e.remote
    active = e.count.sum(axis=0)
    weights = active * (e.gate + 1.0) * e.inner * e.hidden * e.size
    missed = 1.0 - c["l2_hit"] * _fitting(weights, gpu.l2_bytes)
    shapes = ((e.gate * e.inner, e.hidden), (e.hidden, e.inner))
    return [
        (n, k, active * n * k * e.size * missed + pairs * (2.0 * n + k * e.passing_size)) for n, k in shapes
    ]


def _fitting(size: Floats, l2_bytes: float) -> Floats:
    """Return the share of data of a size [B] that L2 keeps."""
    return np.asarray(1.0 / (1.0 + (size / (RESIDENT_SHARE * l2_bytes)) ** 4))


def _tiles(e: Experts, c: Coefficients, tile: float) -> Floats:
    """Return the tiles of that many tokens."""
    local_tiles = (e.count * np.ceil(e.tokens_each * (1.0 / tile))).sum(axis=0)
    return np.asarray(local_tiles + (c["remote_products"] * e.remote + e.first) / tile)


def _products(
    e: Experts, gpu: Gpu, c: Coefficients, rate: Floats, scaled: Floats, tiles: Floats, tile: Tile,
    moved: list[tuple[Floats, Floats, Floats]],
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return serial and core cycles of both grouped products."""
    sms = float(gpu.sm_count)
    serial, core = np.zeros_like(tiles), np.zeros_like(tiles)
    flops_cycles = 2.0 * tile.tokens * tile.columns * tile.depth / (rate * lanes_share(tile, gpu))
    vector = scaled * tile.tokens * tile.columns / SCALED_DEPTH
    vector = vector + np.where(e.converted, CONVERTED_OPS, 0.0) * tile.columns
    flops_cycles = flops_cycles + vector * tile.depth / gpu.lanes_per_clock_sm
    most = resident(tile, gpu, e.size)
    l2_bytes_per_clock = gpu.l2_bytes_per_clock * c["l2_efficiency"]
    width = (tile.tokens * e.passing_size + tile.columns * e.size) / l2_bytes_per_clock
    for columns, depth, moved_bytes in moved:
        blocks = tiles * np.ceil(columns / tile.columns)
        waves, filled_waves = np.ceil(blocks / sms), np.maximum(blocks / sms, 1.0)
        # a persistent kernel, or several blocks an SM, fills the last wave
        charged = filled_waves + c["tail_share"] * (waves - filled_waves)
        # blocks that share an SM hide each other's steps
        step = flops_cycles + c["k_step_cycles"] / (np.clip(blocks / sms, 1.0, most) if tile.warps else most)
        products = charged * np.ceil(depth / tile.depth) * step
        drawn = moved_bytes / (np.minimum(blocks, sms) * c["sm_bytes_clk"])
        steady = combined(products, blocks * width * depth, c["fill_norm"])
        # the 4-norm by squares and roots, which cost less than powers
        core = core + np.sqrt(np.hypot(steady**2, drawn**2))
        serial = serial + c["latency_clk"] + waves * c["block_clk"]
    return serial, core


def _leaving(
    e: Experts, gpu: Gpu, tiles: Floats, tile: Tile, moved: list[tuple[Floats, Floats, Floats]]
) -> Floats:
    """Return the blocks of each SM that find no pairs and leave, of both products. Shape (n,). [1]"""
    columns = sum(np.ceil(n / tile.columns) for n, _, _ in moved)
    left = np.maximum(launched_tiles(e, tile) - tiles, 0.0) * columns
    return np.asarray(left / gpu.sm_count)


def _padded(e: Experts, words: Texts, elements: float) -> Experts:
    """Return layers with the sizes of MXFP4 weights as they are stored: multiples of some elements."""
    if elements <= 0:
        return e
    stored = np.char.find(words.astype(str), MXFP4) >= 0
    hidden, inner = (
        np.where(stored, np.ceil(size / elements) * elements, size) for size in (e.hidden, e.inner)
    )
    return replace(e, hidden=hidden, inner=inner)


def _layers(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    e = expert_layers(rows, gpu, c["gate"], c["remote_to_first"])
    n = len(rows)
    words = stored_formats(rows)
    useful, e = e, _padded(e, words, c["padded"])
    quantized = e.passing_size < 2.0
    # kernels of FP8 reach another share of their peak, and no more than all of it
    format_rate = np.where(words == "fp8_block", c["block_rate"], np.where(quantized, c["fp8_rate"], 1.0))
    rate = e.rate * sustained_share(np.minimum(c["tensor_efficiency"] * format_rate, 1.0), e.left)
    if c["tile_table"] == BY_PAIRS:  # Marlin's are instructions of warps
        rate = rate * rate_share(gpu)
    scaled = np.where(words == "fp8_block", SCALED_OPS, 0.0)
    best = np.full(n, np.inf)
    serial, core, chosen = (np.zeros(n) for _ in range(3))
    moved, ways = _moved(e, gpu, c), offered(c["tile_table"], e, gpu)
    tiles = {tokens: _tiles(e, c, tokens) for tokens in {offer.tile.tokens for offer in ways}}
    for offer in ways:
        tile = offer.tile
        a, b = _products(e, gpu, c, rate, scaled, tiles[tile.tokens], tile, moved)
        a = a + c["leave_clk"] * _leaving(e, gpu, tiles[tile.tokens], tile, moved) if c["leaves"] else a
        time = a + b if offer.rows is None else np.where(offer.rows, a + b if offer.timed else 0.0, np.inf)
        faster = time < best
        best = np.where(faster, time, best)
        serial, core = np.where(faster, a, serial), np.where(faster, b, core)
        chosen = np.where(faster, tile.tokens, chosen)
    activated = c["activated_ops"] * e.tokens * e.top_k * e.inner
    serial = serial + activated / (gpu.lanes_per_clock_sm * gpu.sm_count)
    pairs = e.pairs + c["remote_passes"] * np.maximum(e.tokens * e.top_k - e.pairs, 0.0)
    between, out = pairs * e.inner * 6.0, pairs * e.hidden * 2.0
    scales = np.where(quantized, 3.0 * (e.tokens * e.hidden + pairs * e.inner), 0.0)
    passing, l2_bytes = np.zeros(n), np.zeros(n)
    for factor, size in (("inner_factor", between), ("outer_factor", out), ("quantize_factor", scales)):
        share = _fitting(size, gpu.l2_near_bytes)  # what a kernel writes the next finds there
        passing, l2_bytes = passing + c[factor] * size * (1.0 - share), l2_bytes + c[factor] * size * share
    launch = c["launch_us"] * np.where(quantized, c["launch_quantized"], 1.0)
    untimed = np.where(rows.number("router", 1.0) > 0.0, 0.0, NEXT_US)
    launch = np.maximum(launch + loop_more_us(rows, EXPERT_LOOPS) - untimed, 0.0)
    sorting = (c["pair_ns"] * e.tokens * e.top_k + c["expert_ns"] * e.experts) * 1e-9
    return Pieces(
        fixed_s=launch * 1e-6 + sorting,
        serial_cycles=serial + l2_bytes / (PASSES_SHARE * gpu.l2_bytes_per_clock),
        stream_s=passing / gpu.dram_bytes_per_s,
        core_cycles=core,
        memory_s=(moved[0][2] + moved[1][2]) / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.full(n, 0.9),
        work=layers_work(useful, chosen),
    )


def _expert_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    if np.isfinite(rows.number("tokens")).any():
        return _layers(rows, gpu, c)
    return GEMM.pieces(rows, gpu, {})  # one grouped product of a run, known by m, n, k


#: No library takes experts of other GPUs for its own: that is a loop. [1] By definition of experts.
_ALL_HERE: dict[str, tuple[float, float]] = {"remote_to_first": (0.0, 0.0)}
#: TensorRT-LLM times its tiles and takes the fastest; its CUTLASS experts neither compute pairs with an
#: expert on another GPU nor pass over them (NVIDIA/TensorRT-LLM,
#: cpp/tensorrt_llm/kernels/cutlass_kernels/moe_gemm, ``fusedBuildExpertMapsSortFirstToken``).
_TIMED = {
    "tile_table": (0.0, FASTEST),
    "remote_passes": (0.0, NO_PAIRS),
    "remote_products": (0.0, NO_PAIRS),
    **_ALL_HERE,
}
#: The first tile runs in clusters of one block, which fill shared memory at what streams reach of L2's peak.
_UNTIMED = {"tile_table": (0.0, UNTIMED), "l2_efficiency": (0.0, 0.7)}
_MIDDLE: dict[str, tuple[float, float]] = {"tile_table": (0.0, MIDDLE_MADE), "leaves": (0.0, 0.0)}
_UNTIMED_WARPS: dict[str, tuple[float, float]] = {"tile_table": (0.0, FIRST_OF_WARPS)}
_UNTIMED_MEMORY: dict[str, tuple[float, float]] = {"tile_table": (0.0, FIRST_OF_MEMORY)}
#: Whose loops or servers time no tiles: tracetool/model/projects.toml. Scales by blocks have none to time.
#: On Hopper, and where matrix instructions are of warps, FlashInfer has CUTLASS's experts alone. Triton's and
#: Marlin's kernels go by tables, vLLM's of 16 bits before version 0.16, when it called them otherwise, as
#: SGLang's do.
_TILED_HOST: dict[str, dict[str, tuple[float, float]]] = {
    "vllm/flashinfer/hopper": _UNTIMED,
    "vllm/triton": {"tile_table": (0.0, BY_TOKENS)},
    "vllm/vllm_fused_moe": {"tile_table": (0.0, EXPERTS_BEFORE)},
    "sglang/flashinfer/hopper": _UNTIMED,
    f"vllm/flashinfer/{WARPS}": _UNTIMED_WARPS,
    f"sglang/flashinfer/{WARPS}": _UNTIMED_WARPS,
    f"vllm/flashinfer/{TENSOR_MEMORY}": _UNTIMED_MEMORY,
    f"sglang/flashinfer/{TENSOR_MEMORY}": _UNTIMED_MEMORY,
    "sglang/triton": {"tile_table": (0.0, BY_EXPERTS)},
}
_BLOCK_HOST: dict[str, dict[str, tuple[float, float]]] = {
    "vllm/triton": {"tile_table": (0.0, BLOCK_BY_TOKENS)},
    "sglang/triton": {"tile_table": (0.0, BLOCK)},
}
_FOUR_HOST: dict[str, dict[str, tuple[float, float]]] = {
    f"{library}/flashinfer/{TENSOR_MEMORY}": _UNTIMED_MEMORY for library in ("vllm", "sglang")
}
_WEIGHT_HOST: dict[str, dict[str, tuple[float, float]]] = {
    f"{library}/marlin": {"tile_table": (0.0, BY_PAIRS)} for library in ("vllm", "sglang")
}
#: Default tiles of vLLM's Triton kernels by the first version that has them (vllm-project/vllm,
#: ``get_default_config``; pull request 34846).
_TILES_SINCE = {"vllm/triton": {"0": {"tile_table": EXPERTS_BEFORE}, "0.16": {"tile_table": BY_TOKENS}}}
_BLOCKS_SINCE = {"vllm/triton": {"0": {"tile_table": BLOCK}, "0.16": {"tile_table": BLOCK_BY_TOKENS}}}
_SINCE = {"moe": _TILES_SINCE, "moe_fp8": _TILES_SINCE, "moe_fp8_block": _BLOCKS_SINCE}
#: FlashInfer's generated experts are five kernels of a graph: two that route, two products and a sum. The
#: first product writes activated values alone, the sum reads all pairs' outputs and writes an eighth of them,
#: many blocks sort, and more are launched than find pairs (flashinfer, csrc/trtllm_fused_moe_runner.cu;
#: include/flashinfer/trtllm/fused_moe/runner.h). What an SM draws is the prior of other generated kernels
#: (attention/decode_hosts.py). [units of law.toml] By definition of that source, which no fit has seen.
_GENERATED = {
    "launch_us": 5.0 * NEXT_US, "launch_quantized": 1.0, "inner_factor": 1.0 / 3.0, "outer_factor": 1.1,
    "quantize_factor": 1.0, "pair_ns": ROUTED_NS, "dram_efficiency": STREAMED, "sm_bytes_clk": 100.0,
    "leaves": 1.0,
}  # fmt: skip
#: Where sums stay in tensor memory, products go on while tiles are drawn and while results are written: fills
#: and products meet as in other generated kernels (attention/latent_decode.py, ``DRAW_NORM``), half of the
#: starts and ends of waves is hidden. [units of law.toml] A prior.
_IN_TENSOR_MEMORY = {**_GENERATED, "fill_norm": 6.0, "tensor_efficiency": 0.9, "fp8_rate": 1.0}
#: Operations of the kernel that activates FP8 with scales by blocks, for each value of a pair: one thread
#: loads its numbers and their scales, finds the greatest with 127 others, and divides by it (flashinfer,
#: csrc/fused_moe/trtllm_backend/trtllm_fused_moe_dev_kernel.cu, ``activationDeepSeekKernel``). [op] A prior:
#: instructions counted in that source.
ACTIVATED_OPS = 80.0
#: By format: FP8 is quantized in a kernel before. With scales by blocks their layout is turned in another,
#: and the activation is a kernel of its own, which goes over all pairs, with an expert here or not; vLLM's
#: modular kernels choose experts in kernels of their own, some four. [units of law.toml] By definition of
#: that source and of vllm-project/vllm, vllm/model_executor/layers/fused_moe/experts/trtllm_fp8_moe.py.
_BY_FORMAT = {
    "moe": {**_IN_TENSOR_MEMORY, "block_clk": 500.0},
    "moe_fp8": {**_IN_TENSOR_MEMORY, "block_clk": 500.0, "launch_us": 6.0 * NEXT_US},
    "moe_fp8_block": {
        **_GENERATED, "inner_factor": 0.5, "activated_ops": ACTIVATED_OPS, "launch_us": 8.0 * NEXT_US,
    },
    "moe_fp4": {**_IN_TENSOR_MEMORY, "launch_us": 6.0 * NEXT_US},
    "moe_weight_only": _IN_TENSOR_MEMORY,
}  # fmt: skip
_MODULAR = {"moe_fp8_block": {"launch_us": 12.0 * NEXT_US}}
#: Kernels that keep few bytes in flight. [units of law.toml] A prior, which a fit starts from.
_FEW_BYTES = {"sm_bytes_clk": 6.0}

_HOSTS = {
    "moe": _TILED_HOST,
    "moe_fp8": _TILED_HOST,
    "moe_fp8_block": _BLOCK_HOST,
    "moe_fp4": _FOUR_HOST,
    "moe_weight_only": _WEIGHT_HOST,
}
#: Experts of 4 bits that both run by FlashInfer's CUTLASS where instructions of warps take scales, and that
#: loops over them time as little (vllm/model_executor/layers/fused_moe/oracle/nvfp4.py of version 0.24.0;
#: sglang/srt/server_args.py, ``moe_runner_backend`` on SM120, of 0.5.14). [units of law.toml] By definition
#: of these.
_ELSEWHERE: dict[str, dict[str, dict[str, tuple[float, float]]]] = {
    "moe_fp4": {
        f"{library}/{kernel}/{SCALED_WARPS}": host
        for library in ("vllm", "sglang")
        for kernel, host in (("flashinfer", _UNTIMED_WARPS), ("flashinfer_trtllm", _MIDDLE))
    }
}
#: What vLLM and SGLang pad the sizes of MXFP4 weights to for these kernels. [elements] By definition of
#: vllm-project/vllm and sgl-project/sglang, layers/quantization/mxfp4.py (``create_weights``).
_STORED = {"padded": 256.0}
#: Tiles of these: SGLang's server and TensorRT-LLM's loop time those of 4 bits, of which the middle is taken
#: to be the fastest; nobody times the others (sglang/srt/model_executor/model_runner.py,
#: ``_should_run_flashinfer_autotune``; ai-dynamo/aiconfigurator, collector). [units of law.toml] By
#: definition of these; that vLLM's of 4 bits take the middle, too, is stated by its table. Who times tiles
#: takes none of which many leave: a prior, as their rows state none. Of 16 bits the fastest tile stands, a
#: prior, too.
_MADE: dict[str, dict[str, float]] = {
    "moe": {"tile_table": FASTEST},
    "moe_fp8": {"tile_table": FIRST_MADE},
    "moe_fp8_block": {"tile_table": FIRST_MADE},
    "moe_weight_only": {"tile_table": FIRST_MADE, **_STORED},
    "moe_fp4": {"tile_table": MIDDLE_MADE, "leaves": 0.0, **_STORED},
}
_SECTIONS = read_coefficients(__package__)


def _made_host(name: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Return which libraries run a format's experts by kernels made for tensor memory, with their tiles."""
    stated = {"leaves": 1.0, **_MADE.get(name, {})}
    if name == "moe_fp8_block":
        stated["activated_ops"] = ACTIVATED_OPS
    choices = {key: (0.0, value) for key, value in stated.items()}
    hosts = {f"{library}/flashinfer_trtllm": choices for library in ("vllm", "sglang")}
    if name == "moe_fp4":
        hosts |= {"trtllm/blackwell": {key: value for key, value in choices.items() if key not in _STORED}}
    return hosts


def _law(name: str) -> Law:
    """Return the law of some formats, which differ in the tiles to choose from."""
    priors = {**_SECTIONS["moe"], **_SECTIONS.get(name, {})}
    table, made = priors["tile_table"], _MADE.get(name, {})
    habits = {"generated-experts": {**_BY_FORMAT[name], **made}}
    if name in _MODULAR:
        habits["generated-experts/modular"] = _MODULAR[name]
    tables = [
        {"tile_table": table_choice}
        for table_choice in table.choices
        if table_choice not in {FASTEST, UNTIMED, *table.stated_choices}
    ]
    return Law(
        name, _expert_pieces, priors, spread=(-0.8, 0.8), parent="" if name == "moe" else "moe",
        habits=(_FEW_BYTES, *tables), by_row=True, by_version=_SINCE.get(name, {}),
        project_habits=habits,
        library_host={
            "vllm": _ALL_HERE, "sglang": _ALL_HERE, "trtllm": _TIMED, **_HOSTS.get(name, {}),
            **_made_host(name),
        },
        elsewhere=_ELSEWHERE.get(name, {}),
        by_vendor={"amd": values_of(_SECTIONS["amd"]), "amd/cdna4": values_of(_SECTIONS["amd_cdna4"])},
    )  # fmt: skip


#: Formats libraries have kernels of their own for, by law. Where none is calibrated, all are priced as one.
FORMATS = {
    "moe_fp8": ("fp8", "int8", "sq"),
    "moe_fp8_block": ("fp8_block",),
    "moe_fp4": ("nvfp4", "mxfp4", "w4a8_mxfp4_mxfp8"),
    "moe_weight_only": ("int4_wo", "int8_wo", "w4a16_mxfp4"),
}
MOE = _law("moe")
LAWS = (MOE, *(_law(name) for name in FORMATS))

LAW_NAMES = tuple(law.name for law in LAWS)


def moe_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place of each row's law in :data:`LAW_NAMES`, by format. Shape (n,)."""
    del gpu
    words, chosen = stored_formats(rows), np.zeros(len(rows), dtype=np.int64)
    for place, formats in enumerate(FORMATS.values(), start=1):
        chosen[np.any([words == word for word in formats], axis=0)] = place
    return chosen
