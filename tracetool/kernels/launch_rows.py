"""Sizes from launches of attention, row-wise and streaming kernels: queries and heads, rows, elements.

PyTorch's vectorized kernels handle 4 elements per thread in most releases, 8 in some and 16 for single bytes,
under the same name. A run was made with one release, so either kernels with known operators show the factor, or
the memory does: at the right factor large kernels stream near, and never beyond, what the memory can.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.dtype import BYTES
from tracetool.families import names
from tracetool.families.access_pattern import CHUNK
from tracetool.families.registry import families_where
from tracetool.hardware.gpu import Gpu

#: Most tensors of one launch of a multi-tensor kernel, by the lists it takes; a launch of more blocks holds
#: some of several chunks (PyTorch ``MultiTensorApply.cuh``, ``depth_to_max_tensors``).
MOST_TENSORS: Final = {1.0: 110.0, 2.0: 64.0, 3.0: 48.0, 4.0: 36.0, 5.0: 30.0}
#: What is missing of a tensor's last chunk, where a launch holds half the tensors it could. [1]
_LAST_CHUNK: Final = 0.25
#: Families launched with a block per row.
_ROWWISE: Final = families_where(lambda family: family.row_blocks)
_NULL: Final = pl.lit(None, dtype=pl.Float64)
_BY_INDUCTOR: Final = pl.col("library").fill_null("") == "inductor"
#: Optimizers that update many tensors in one launch.
_MULTI_TENSOR: Final = (pl.col("family") == names.OPTIMIZER) & pl.col("name").str.contains(
    "multi_tensor_apply"
)


def attention_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """FlashAttention: x over blocks of queries (backward: keys), then batch, heads; splits in y when keys are shared."""
    gx, gy, gz = pl.col("grid_x"), pl.col("grid_y").fill_null(1.0), pl.col("grid_z").fill_null(1.0)
    tile = pl.col("tile_m").cast(pl.Float64)
    op = pl.col("op").fill_null("")
    is_attention = (
        (pl.col("family") == names.ATTENTION)
        & gx.is_not_null()
        & ~pl.col("persistent").fill_null(value=False)
    )
    dense = (
        is_attention
        & op.is_in(["flash_fwd", "flash_bwd"])
        & (pl.col("library").fill_null("") == "flash_attn")
        & tile.is_not_null()
    )
    shared = is_attention & (op == "flash_fwd_splitkv") & tile.is_not_null()
    efficient = (
        is_attention & (pl.col("library").fill_null("") == "pytorch_mem_efficient") & tile.is_not_null()
    )
    step = pl.when(op == "flash_bwd").then(pl.col("tile_n").cast(pl.Float64)).otherwise(tile)
    any_of = dense | shared | efficient
    q_len = pl.when(any_of).then(gx * step)
    # one block of queries may be a single token; several are a sequence that attends to itself
    itself = dense | efficient
    batch = pl.when(dense).then(gy).when(efficient).then(gz).when(shared).then(1.0)
    heads = pl.when(dense).then(gz).when(efficient).then(gy).when(shared).then(gz)
    return frame.with_columns(
        q_len.alias("launch_q_len"),
        pl.when(itself).then(gx * step).otherwise(_NULL).alias("launch_kv_len"),
        heads.alias("launch_heads"),
        pl.coalesce(pl.col("launch_batch"), batch).alias("launch_batch"),
        pl.when(itself).then(pl.lit("kv_len")).otherwise(pl.col("launch_guess")).alias("launch_guess"),
    )


def other_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of row-wise kernels, elements of streaming ones, and how often these read and write each element."""
    log2_cols = pl.col("log2_elements").cast(pl.Float64)
    warp_softmax = log2_cols.is_not_null() & (pl.col("family") == names.SOFTMAX)
    guess = (
        pl.when(_MULTI_TENSOR)
        .then(pl.lit("elements"))
        .when(warp_softmax)
        .then(pl.lit("cols"))
        .when(_BY_INDUCTOR & _elements_per_thread().is_not_null())
        .then(pl.lit("elements"))
        .otherwise(pl.col("launch_guess"))
    )
    return frame.with_columns(
        *_reads_and_writes(),
        _rows(warp_softmax, log2_cols).alias("launch_rows"),
        pl.when(warp_softmax).then(0.75 * pl.lit(2.0).pow(log2_cols)).alias("launch_cols"),
        _elements().alias("launch_elements"),
        guess.alias("launch_guess"),
    )


def _rows(warp_softmax: pl.Expr, log2_cols: pl.Expr) -> pl.Expr:
    """Return the rows of a launch: of softmax by warps one or two a warp, else one a block."""
    rows_a_warp = pl.when(log2_cols <= 7).then(2.0).otherwise(1.0)
    of_warps = pl.col("grid_x") * pl.col("block_y").fill_null(1.0) * rows_a_warp
    a_row_a_block = pl.col("family").is_in(_ROWWISE) | ((pl.col("family") == names.REDUCTION) & _BY_INDUCTOR)
    return pl.when(warp_softmax).then(of_warps).when(a_row_a_block).then(pl.col("blocks"))


def _elements_per_thread() -> pl.Expr:
    """Return the elements that each thread of a streaming kernel handles, null where unknown."""
    family, name = pl.col("family"), pl.col("name")
    vec = pl.col("vec").cast(pl.Float64)
    # vector width 8 and 16 exist only where each thread does more work
    vectorized = pl.when(vec >= 16).then(16.0).when(vec >= 8).then(8.0).otherwise(4.0)
    return (
        pl.when(pl.col("elements_per_thread").is_not_null())
        .then(pl.col("elements_per_thread").cast(pl.Float64))
        .when(name.str.contains("vectorized_gather_kernel"))  # one access of so many bytes
        .then(vec / pl.col("dtype").replace_strict(BYTES, default=4.0, return_dtype=pl.Float64))
        .when(vec.is_not_null() & name.str.contains("vectorized"))
        .then(vectorized)
        .when(name.str.contains("unrolled_elementwise"))
        .then(4.0)
        .when(_BY_INDUCTOR & family.is_in([names.ELEMENTWISE, names.COPY]))
        .then(4.0)
        .when((family == names.POOLING) & (pl.col("library").fill_null("") == "pytorch"))
        .then(1.0)
    )


def _elements() -> pl.Expr:
    """Return the elements of a launch: those of its threads, or of the chunks of its tensors."""
    blocks = pl.col("blocks")
    of_block = pl.col("threads") * _elements_per_thread()
    # the last block is half full on average
    of_threads = blocks * of_block - pl.when(blocks > 1).then(of_block / 2).otherwise(0.0)
    lists = pl.col("depth").cast(pl.Float64)
    tensors = pl.min_horizontal(blocks, lists.replace_strict(MOST_TENSORS, default=36.0))
    return pl.when(_MULTI_TENSOR).then(CHUNK * (blocks - _LAST_CHUNK * tensors)).otherwise(of_threads)


def _reads_and_writes() -> tuple[pl.Expr, pl.Expr]:
    """Return how often each element is read and written, of optimizers and pools; of others as known before."""
    untold = pl.col("call_reads").is_null()
    # a max-pool forward reads the window it steps over and writes 64-bit places beside its results
    pools = (pl.col("family") == names.POOLING) & pl.col("name").str.contains("max_pool_forward") & untold
    # optimizers work in place: each list is read, one written; Adam's gradient is read, its three others are both
    adam = _MULTI_TENSOR & pl.col("name").str.contains("Adam")
    lists = pl.col("depth").cast(pl.Float64)
    reads = (
        pl.when(pools | adam)
        .then(4.0)
        .when(_MULTI_TENSOR & untold)
        .then(pl.coalesce(lists, "reads"))
        .otherwise("reads")
    )
    return reads.alias("reads"), pl.when(pools | adam).then(3.0).otherwise("writes").alias("writes")


#: Kernels whose work per thread depends on the release.
_OPEN: Final = "vectorized_elementwise_kernel|vectorized_templated"
#: Factors on 4 elements per thread.
_FACTORS: Final = (1.0, 2.0, 4.0)
#: Fewest large kernels that settle it.
_LEAST: Final = 3


def scale_elements_per_thread(frame: pl.DataFrame, gpus: dict[str | None, Gpu]) -> pl.DataFrame:
    """Multiply ``launch_elements`` of vectorized kernels by the factor their run shows, per device.

    ``frame`` holds ``launch_elements``, ``elements`` (from operators), ``operands``, ``dtype``, ``duration_us``.
    """
    factors = []
    for device in frame["device_name"].unique(maintain_order=True).to_list():
        factor = _factor(frame.filter(pl.col("device_name").eq_missing(pl.lit(device))), gpus.get(device))
        if factor != 1.0:
            factors.append((device, factor))
    if not factors:
        return frame
    wide = pl.lit(1.0)
    for device, factor in factors:
        wide = pl.when(pl.col("device_name").eq_missing(pl.lit(device))).then(factor).otherwise(wide)
    vectorized = _is_open()
    return frame.with_columns(
        pl.when(vectorized)
        .then(pl.col("launch_elements") * wide)
        .otherwise("launch_elements")
        .alias("launch_elements")
    )


def _is_open() -> pl.Expr:
    return pl.col("name").str.contains(_OPEN) & (pl.col("vec").fill_null(16) <= 4)


def _factor(frame: pl.DataFrame, gpu: Gpu | None) -> float:
    rows = frame.filter(_is_open() & (pl.col("launch_elements") > 0))
    if not rows.height:
        return 1.0
    measured = rows.filter(pl.col("elements").is_not_null() & (pl.col("blocks") >= 64))
    if measured.height:
        ratio = measured.select((pl.col("elements") / pl.col("launch_elements")).median()).item()
        return min(_FACTORS, key=lambda f: abs(f - ratio))
    if gpu is None:
        return 1.0
    size = pl.col("dtype").replace_strict(BYTES, default=4.0, return_dtype=pl.Float64)
    moved = pl.col("launch_elements") * pl.col("operands").fill_null(2) * size
    large = rows.select(moved.alias("moved"), (pl.col("duration_us") * 1e-6).alias("seconds")).filter(
        (pl.col("moved") > 2.0 * gpu.l2_bytes) & (pl.col("seconds") > 0)
    )
    if large.height < _LEAST:
        return 1.0
    fastest = float(large.select((pl.col("moved") / pl.col("seconds")).quantile(0.9)).item())
    room = gpu.dram_bytes_per_s / fastest
    return max((f for f in _FACTORS if f <= room), default=1.0)
