"""Mixtures of experts: two grouped products over the touched experts, routing before, sums after.

Equation and sources: docs/families/moe.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.families.gemm.law import GEMM
from tracetool.families.law import Coefficients, Law
from tracetool.families.moe.problem import Experts, expert_layers, layers_work
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: Tiles (tokens, columns) of which the library picks the fastest. [elements] A prior.
TILES = (
    (16.0, 64.0),
    (16.0, 128.0),
    (32.0, 128.0),
    (64.0, 64.0),
    (64.0, 128.0),
    (128.0, 128.0),
    (128.0, 256.0),
)
#: Tiles (tokens, columns) of a library without a measured table: with no more tokens than experts, and with
#: more. [elements] By the libraries' sources (vllm, sglang: get_default_config).
TABLE = ((16.0, 32.0), (64.0, 64.0))
#: Tile (tokens, columns) of CUTLASS experts on Hopper that nobody timed: the first of the list. [elements] By
#: NVIDIA/TensorRT-LLM, ``get_candidate_tiles_sm90`` and, in FlashInfer too, ``mAllProfiles.front()``.
FIRST = ((128.0, 16.0),)
#: Ways to choose a tile: the fastest, by a table, or the first listed. [1] By definition: their numbers.
FASTEST, BY_TABLE, UNTIMED = 0.0, 1.0, 2.0
#: Share of pairs of other GPUs that are left out: the least law.toml allows. [1] By definition of its bounds.
NO_PAIRS = 0.001
_TILES_OF = {FASTEST: TILES, BY_TABLE: TABLE, UNTIMED: FIRST}
#: Share of L2 that weights read again and again keep to themselves. [1] A prior.
RESIDENT_SHARE = 0.7


def _moved(e: Experts, gpu: Gpu, c: Coefficients) -> list[tuple[Floats, Floats, Floats]]:
    """Return columns, depth and bytes of both grouped products, whatever their tiles."""
    pairs = e.pairs + c["remote_products"] * e.remote
    active = e.count.sum(axis=0)
    weights = active * (e.gate + 1.0) * e.inner * e.hidden * e.size
    missed = 1.0 - c["l2_hit"] / (1.0 + (weights / (RESIDENT_SHARE * gpu.l2_bytes)) ** 4)
    shapes = ((e.gate * e.inner, e.hidden), (e.hidden, e.inner))
    return [
        (n, k, active * n * k * e.size * missed + pairs * (2.0 * n + k * e.passing_size)) for n, k in shapes
    ]


def _tiles(e: Experts, c: Coefficients, tile: float) -> Floats:
    """Return the tiles of that many tokens."""
    whole = (e.count * np.ceil(e.tokens_each * (1.0 / tile))).sum(axis=0)
    return np.asarray(whole + c["remote_products"] * e.remote / tile)


def _products(
    e: Experts, gpu: Gpu, c: Coefficients, rate: Floats, tiles: Floats, tile: float, wide: float,
    moved: list[tuple[Floats, Floats, Floats]],
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return serial and core cycles of both grouped products."""
    sms = float(gpu.sm_count)
    serial, core = np.zeros_like(tiles), np.zeros_like(tiles)
    step = 2.0 * tile * wide * 64.0 / rate + c["k_step_cycles"]
    width = (tile * e.passing_size + wide * e.size) / (gpu.l2_bytes_per_clock * c["l2_efficiency"])
    for columns, depth, moved_bytes in moved:
        blocks = tiles * np.ceil(columns / wide)
        waves, whole = np.ceil(blocks / sms), np.maximum(blocks / sms, 1.0)
        # a persistent kernel, or several blocks an SM, fills the last wave
        charged = whole + c["tail_share"] * (waves - whole)
        products = charged * np.ceil(depth / 64.0) * step
        drawn = moved_bytes / (np.minimum(blocks, sms) * c["sm_bytes_clk"])
        steady = combined(products, blocks * width * depth, c["fill_norm"])
        # the 4-norm by squares and roots, which cost less than powers
        core = core + np.sqrt(np.hypot(steady**2, drawn**2))
        serial = serial + c["latency_clk"] + waves * c["block_clk"]
    return serial, core


def _layers(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    e = expert_layers(rows, gpu)
    n = len(rows)
    words = rows.text("dtype", "bf16")
    quantized = e.passing_size < 2.0
    # kernels of FP8 reach another share of their peak, and no more than all of it
    format_rate = np.where(words == "fp8_block", c["block_rate"], np.where(quantized, c["fp8_rate"], 1.0))
    rate = e.rate * np.minimum(c["tensor_efficiency"] * format_rate, 1.0)
    best = np.full(n, np.inf)
    serial, core, chosen = (np.zeros(n) for _ in range(3))
    few = e.tokens <= e.local
    moved, tiles = _moved(e, gpu, c), {tile: _tiles(e, c, tile) for tile in {tile for tile, _ in TILES}}
    for tile, wide in _TILES_OF[c["tile_table"]]:
        a, b = _products(e, gpu, c, rate, tiles[tile], tile, wide, moved)
        time = a + b
        if c["tile_table"] == BY_TABLE:
            time = np.where(few == (tile == TABLE[0][0]), 0.0, np.inf)
        faster = time < best
        best = np.where(faster, time, best)
        serial, core = np.where(faster, a, serial), np.where(faster, b, core)
        chosen = np.where(faster, tile, chosen)
    pairs = e.pairs + c["remote_passes"] * np.maximum(e.tokens * e.top_k - e.pairs, 0.0)
    passing = c["inner_factor"] * pairs * e.inner * 6.0 + c["outer_factor"] * pairs * e.hidden * 2.0
    scaling = c["quantize_factor"] * 3.0 * (e.tokens * e.hidden + pairs * e.inner)
    launch = c["launch_us"] * np.where(quantized, c["launch_quantized"], 1.0)
    sorting = (c["pair_ns"] * e.tokens * e.top_k + c["expert_ns"] * e.experts) * 1e-9
    return Pieces(
        fixed_s=launch * 1e-6 + sorting,
        serial_cycles=serial,
        stream_s=(passing + np.where(quantized, scaling, 0.0)) / gpu.dram_bytes_per_s,
        core_cycles=core,
        memory_s=(moved[0][2] + moved[1][2]) / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.full(n, 0.9),
        work=layers_work(e, chosen),
    )


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    if np.isfinite(rows.number("tokens")).any():
        return _layers(rows, gpu, c)
    return GEMM.pieces(rows, gpu, {})  # one grouped product of a run, known by m, n, k


#: TensorRT-LLM times its tiles and takes the fastest; its CUTLASS experts neither compute pairs with an
#: expert on another GPU nor pass over them (NVIDIA/TensorRT-LLM,
#: cpp/tensorrt_llm/kernels/cutlass_kernels/moe_gemm, ``fusedBuildExpertMapsSortFirstToken``).
_TIMED = {"tile_table": (0.0, FASTEST), "remote_passes": (0.0, NO_PAIRS), "remote_products": (0.0, NO_PAIRS)}
#: The first tile runs in clusters of one block, which fill shared memory at the peak of L2 at most.
_UNTIMED = {"tile_table": (0.0, UNTIMED), "l2_efficiency": (0.0, 1.0)}
_TIMED_HOST: dict[str, dict[str, tuple[float, float]]] = {"vllm": {}, "sglang": {}, "trtllm": _TIMED}
#: Whose loops or servers time no tiles: tracetool/model/projects.toml. Scales by blocks have none to time. On
#: Hopper FlashInfer has CUTLASS's experts alone.
_TILED_HOST = {
    **_TIMED_HOST,
    "vllm/flashinfer/hopper": _UNTIMED,
    "sglang/flashinfer/hopper": _UNTIMED,
}
#: Kernels that keep few bytes in flight, and those without a measured table of tiles.
#: [units of law.toml] A prior, which a fit starts from.
_HABITS = ({"sm_bytes_clk": 6.0}, {"tile_table": 1.0})

_PRIORS = read_coefficients(__package__)["moe"]
MOE = Law("moe", _parts, _PRIORS, spread=(-0.8, 0.8), habits=_HABITS, library_host=_TILED_HOST, by_row=True)
#: Formats libraries have kernels of their own for, by law. Where none is calibrated, all are priced as one.
FORMATS = {
    "moe_fp8": ("fp8", "int8", "sq"),
    "moe_fp8_block": ("fp8_block",),
    "moe_fp4": ("nvfp4", "mxfp4", "w4a8_mxfp4_mxfp8"),
    "moe_weight_only": ("int4_wo", "int8_wo", "w4a16_mxfp4"),
}
#: Formats whose kernels come in tiles to time.
_TILED = {"moe", "moe_fp8"}
LAWS = (
    MOE,
    *(
        replace(MOE, name=name, parent=MOE.name, library_host=_TILED_HOST if name in _TILED else _TIMED_HOST)
        for name in FORMATS
    ),
)

LAW_NAMES = tuple(law.name for law in LAWS)


def moe_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place of each row's law in :data:`LAW_NAMES`, by format. Shape (n,)."""
    del gpu
    words, chosen = rows.text("dtype", "bf16"), np.zeros(len(rows), dtype=np.int64)
    for place, formats in enumerate(FORMATS.values(), start=1):
        chosen[np.any([words == word for word in formats], axis=0)] = place
    return chosen
