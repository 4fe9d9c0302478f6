"""What a launch tells: tiles times grid give m and n, blocks times elements per block give counts.

Grids count blocks (readers divide work-items where a profiler writes those). Which grid axis runs along which
side of the product differs by library:

- cuBLAS, nvjet, xmma: x along the library's M (a framework's n) in steps of the first tile number, y along
  its N; z is the batch, or the parts of a split K: the name or the operator decides. Checked on 30,000 launches.
- CUTLASS 2.x swizzles: x holds up to 8 columns of tiles side by side, so only the number of tiles is exact.
- Tensile: x and y as in cuBLAS, z the batch, parts of a split K within y; in hipBLASLt one axis holds them all,
  so only the product m x n is told.
- implicit products of convolutions: the first tile number runs along batch x height x width of the result,
  the second along the filters; x along the former in cuDNN's older kernels, y in xmma.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from tracetool.core.dtype import BYTES
from tracetool.families import names
from tracetool.families.registry import families_where
from tracetool.kernels.launch_rows import attention_rows, other_rows

#: Numbers that a launch can state.
LAUNCH_NUMBERS: Final = ("m", "n", "k", "batch", "rows", "cols", "q_len", "kv_len", "heads", "elements")
_PRODUCTS: Final = families_where(lambda family: family.product_grid)
_NULL: Final = pl.lit(None, dtype=pl.Float64)


def _ceil(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return (a / b).ceil()


def from_launch(frame: pl.DataFrame, sm_counts: Mapping[str | None, int] | None = None) -> pl.DataFrame:
    """Add ``launch_m``, ``launch_n``, ... where name and grid tell them; turn tiles to the operator's view.

    Parameters
    ----------
    frame : DataFrame
        Signatures with the name's attributes, ``grid_x`` ... ``block_z``, ``blocks``, ``threads``, and
        ``m``, ``n``, ``batch`` where the operator gave them.
    sm_counts : mapping of device name to int, optional
        Multiprocessors of each device: as many blocks as those on one axis are persistent.

    Returns
    -------
    DataFrame
        With ``launch_*`` for :data:`LAUNCH_NUMBERS`; ``launch_guess`` (the numbers that rest on an assumption);
        ``tile_m`` along the operator's m, ``tile_n`` along its n; ``split_k`` completed; ``tiles``;
        ``grid_fits``: whether the tiles of known m and n account for the grid (null where unknown);
        ``stages`` completed and ``shared_fits``: whether tiles x stages account for the shared memory.
    """
    return other_rows(attention_rows(_products(_turn(_stages(_persistent(frame, sm_counts or {}))))))


def _persistent(frame: pl.DataFrame, sm_counts: Mapping[str | None, int]) -> pl.DataFrame:
    """Mark products of modern libraries that launch one block per multiprocessor, or two."""
    counts = {k: float(v) for k, v in sm_counts.items() if k is not None}
    count = pl.col("device_name").replace_strict(counts, default=None, return_dtype=pl.Float64)
    one_axis = (pl.col("grid_y").fill_null(1.0) == 1) & (pl.col("grid_z").fill_null(1.0) == 1)
    modern = (
        pl.col("library")
        .fill_null("")
        .is_in(["cutlass", "triton", "training", "cublas", "aiter", "deepgemm"])
    )
    may_persist = modern & ~pl.col("name").str.contains("gemm_[0-9]+x[0-9]+")  # the older kernels never are
    fills = one_axis & (pl.col("blocks") == count) | one_axis & (pl.col("blocks") == 2 * count)
    persists = pl.col("family").is_in(_PRODUCTS) & may_persist & fills & pl.col("persistent").is_null()
    return frame.with_columns(
        pl.when(persists.fill_null(value=False))
        .then(pl.lit(value=True))
        .otherwise("persistent")
        .alias("persistent")
    )


def _stages(frame: pl.DataFrame) -> pl.DataFrame:
    """Buffers of the load pipeline: (M + N) x K x bytes x stages is the shared memory, within a few kB.

    On 79 of 79 NVIDIA products whose names state their stages the ratio lies in [0.95, 1.45].
    """
    size = pl.col("dtype").replace_strict(BYTES, default=None, return_dtype=pl.Float64)
    second = pl.col("tile_n") / pl.col("ctas_per_mma").fill_null(1)
    buffer = (pl.col("tile_m") + second) * pl.col("tile_k") * size
    buffers = pl.when(pl.col("shared_bytes") > 0).then(pl.col("shared_bytes") / buffer)
    nvidia = pl.col("library").fill_null("").is_in(["cublas", "cutlass", "tensorrt", "trtllm_gen", "cudnn"])
    ratio = buffers / pl.col("stages")
    stages = buffers.floor().cast(pl.Int64)
    take = nvidia & pl.col("stages").is_null() & stages.is_between(2, 16)
    return frame.with_columns(
        pl.when(take).then(stages).otherwise("stages").alias("stages"),
        pl.when(nvidia).then(ratio.is_between(0.95, 1.45)).alias("shared_fits"),
    )


def _turn(frame: pl.DataFrame) -> pl.DataFrame:
    """Turn tiles so that ``tile_m`` runs along the operator's m."""
    own_view = (
        pl.col("library")
        .fill_null("")
        .is_in(["vllm", "training", "triton", "inductor", "deepgemm", "trtllm_gen", "flydsl"])
        # frameworks instantiate CUTLASS templates for row-major results, cuBLAS its generated names for its own
        | pl.col("name").str.contains("GemmUniversal")
    )
    swapped = pl.col("family").is_in(_PRODUCTS) & ~own_view
    return frame.with_columns(
        pl.when(swapped).then("tile_n").otherwise("tile_m").alias("tile_m"),
        pl.when(swapped).then("tile_m").otherwise("tile_n").alias("tile_n"),
    )


def _products(frame: pl.DataFrame) -> pl.DataFrame:
    gx, gy, gz = pl.col("grid_x"), pl.col("grid_y").fill_null(1.0), pl.col("grid_z").fill_null(1.0)
    tile_m, tile_n = pl.col("tile_m").cast(pl.Float64), pl.col("tile_n").cast(pl.Float64)
    library, name = pl.col("library").fill_null(""), pl.col("name")
    plane = gx * gy
    product = pl.col("family").is_in(_PRODUCTS) & tile_m.is_not_null() & gx.is_not_null()
    stays = pl.col("persistent").fill_null(value=False) | pl.col("k_sharing").fill_null("").is_in(
        ["stream_k", "segment_k"]
    )
    product &= ~stays
    flat = library == "tensile"
    # only the number of tiles is told: one axis, or a swizzle
    folded = library.is_in(["cutlass", "aiter", "composable_kernel"]) | (
        (gy == 1) & (flat | name.str.contains("xmma|nvjet"))
    )
    named_split = pl.col("split_k").cast(pl.Float64)
    in_plane = pl.when(flat & (named_split > 1)).then(plane / named_split).otherwise(plane)
    side = (in_plane * tile_m * tile_n).sqrt()
    parts_in_y = pl.when(flat & (named_split > 1)).then(named_split).otherwise(1.0)
    across = pl.col("library").fill_null("").is_in(["trtllm_gen"])
    launch_m = pl.when(folded).then(side).when(across).then(gy * tile_n).otherwise(gy / parts_in_y * tile_m)
    launch_n = pl.when(folded).then(side).when(across).then(gx * tile_m).otherwise(gx * tile_n)
    conv = (
        (pl.col("family") == names.CONV)
        & tile_m.is_not_null()
        & gx.is_not_null()
        & (pl.col("algo").fill_null("") == "implicit_gemm")
    )
    xmma = name.str.contains("_xmma_")
    forward = pl.col("direction").fill_null("").is_in(["fwd", "bwd_data"])
    conv &= forward
    conv_m = pl.when(xmma).then(gy).otherwise(gx) * tile_m
    conv_n = pl.when(xmma).then(gx).otherwise(gy) * tile_n
    splits = pl.col("k_sharing").fill_null("") == "split_k"
    frame = frame.with_columns(
        pl.when(product).then(launch_m).when(conv).then(conv_m).otherwise(_NULL).alias("launch_m"),
        pl.when(product).then(launch_n).when(conv).then(conv_n).otherwise(_NULL).alias("launch_n"),
        pl.when(product & ~splits & (~folded | flat))
        .then(gz)
        .when(product | conv)
        .then(1.0)
        .otherwise(_NULL)
        .alias("launch_batch"),
        pl.when(product & folded & pl.col("m").is_null())
        .then(pl.lit("m n"))
        .when(product & (gz > 1) & ~splits & ~flat)
        .then(pl.lit("batch"))
        .otherwise(pl.lit(""))
        .alias("launch_guess"),
        (product | conv).alias("_counts"),
    )
    frame = _experts(frame)
    # with the operator's sizes the grid can be checked and the parts of a split K counted
    has_sizes = (
        pl.col("m").is_not_null()
        & pl.col("n").is_not_null()
        & tile_m.is_not_null()
        & (pl.col("family") != names.CONV)
    )
    batch = pl.col("batch").fill_null(1.0)
    tiles = _ceil(pl.col("m"), tile_m) * _ceil(pl.col("n"), tile_n) * batch
    parts = pl.col("blocks") / tiles
    whole = (parts >= 1) & ((parts - parts.round()).abs() < 1e-9)
    in_z = (gz > batch) & (gz % batch == 0)
    counted = (
        pl.when(~has_sizes | pl.col("blocks").is_null())
        .then(None)
        .when(in_z)
        .then(gz / batch)
        .when(flat & whole & ~stays)
        .then(parts)
        .otherwise(None)
    )
    split = pl.when(splits & ~has_sizes & (gz > 1) & ~flat).then(gz).otherwise(counted)
    swizzled = (pl.col("blocks") / pl.max_horizontal(split.fill_null(1.0), pl.lit(1.0)) / tiles).is_between(
        1.0, 2.0, closed="left"
    )
    fits = (
        pl.when(~has_sizes | pl.col("blocks").is_null() | stays)
        .then(None)
        .otherwise(whole | swizzled | (pl.col("blocks") < tiles) & (gy >= 16_384))
    )
    return frame.with_columns(
        pl.coalesce(pl.when(named_split > 1).then(named_split), split, named_split).alias("split_k"),
        pl.when(has_sizes)
        .then(tiles)
        .when(pl.col("_counts"))
        .then(plane * gz)
        .otherwise(_NULL)
        .alias("tiles"),
        fits.alias("grid_fits"),
        pl.when(has_sizes & (pl.col("blocks") < tiles) & (gy < 16_384) & (pl.col("family") != names.GEMV))
        .then(pl.lit(value=True))
        .otherwise(pl.col("persistent"))
        .alias("persistent"),
    ).drop("_counts")


def _experts(frame: pl.DataFrame) -> pl.DataFrame:
    """Products of experts: rows are shared out among them; the first product's K is the model's width."""
    count = pl.col("call_expert_count")
    of_experts = (pl.col("family") == names.MOE) & pl.col("launch_m").is_not_null() & (count > 0)
    first = of_experts & pl.col("gated").fill_null(value=False)
    return frame.with_columns(
        pl.when(of_experts).then(pl.col("launch_m") / count).otherwise("launch_m").alias("launch_m"),
        pl.when(of_experts).then(count).otherwise("launch_batch").alias("launch_batch"),
        pl.when(first).then("call_model_width").otherwise(_NULL).alias("launch_k"),
    )


#: Sides of the tiles of implicit products: a block covers about so many channels times window. [elements]
_TILE_SIDES: Final = (32.0, 160.0)


def choose_filters(frame: pl.DataFrame) -> pl.DataFrame:
    """Take the other of two filters where the grid of a gradient of the weights fits that one alone.

    Older gradients do not state their filter, and two forward calls of the same data may have each its own. The
    product has a side of channels times window, along which the grid's x counts tiles.
    """
    side = pl.col("channels") / pl.col("conv_groups").fill_null(1.0).clip(lower_bound=1.0)
    width = [
        side * window / pl.col("grid_x")
        for window in (pl.col("kernel_h") ** 2, pl.col("call_other_kernel") ** 2)
    ]
    fits = [one.is_between(*_TILE_SIDES) for one in width]
    other = (
        pl.col("main") & (pl.col("direction") == "bwd_weight") & pl.col("call_other_kernel").is_not_null()
        & ~fits[0] & fits[1]
    ).fill_null(value=False)  # fmt: skip
    return frame.with_columns(
        pl.when(other).then("call_other_kernel").otherwise("kernel_h").alias("kernel_h"),
        pl.when(other).then("call_other_kernel").otherwise("kernel_w").alias("kernel_w"),
        pl.when(other).then("call_other_padding").otherwise("padding").alias("padding"),
    )


#: A grid this many times too small for its operator's tiles belongs to another operator.
_TOO_MANY: Final = 16.0
#: Blocks from which on a grid is as tall as a library makes it: taller products are launched in pieces.
_TALLEST: Final = 16_384


def drop_misattributed_calls(frame: pl.DataFrame) -> pl.DataFrame:
    """Set aside a product's operator where its tiles cannot lie on the grid: it launched another kernel.

    Kernels named by a fixed tile have a block per tile. Where the operator's result takes many times the
    blocks that ran (a profiler's wrong correlation, a size hint in place of a size), ``m``, ``n``, ``k``
    and ``batch`` become null and ``main`` false: the grid then tells them. Of a product launched in pieces,
    each as tall as a grid may be, a kernel keeps the rows of its piece.
    """
    tall = (
        pl.col("main")
        & (pl.col("family") == names.GEMM)
        & pl.col("name").str.contains("gemm_[0-9]+x[0-9]+")
        & (pl.col("grid_y") >= _TALLEST)
        & (pl.col("tiles") > pl.col("blocks"))
        & (pl.col("m") > pl.col("n"))
    ).fill_null(value=False)
    piece = (pl.col("m") * pl.col("blocks") / pl.col("tiles")).round()
    frame = frame.with_columns(
        pl.when(tall).then(piece).otherwise("m").alias("m"),
        pl.when(tall).then("blocks").otherwise("tiles").alias("tiles"),
    )
    wrong = (
        pl.col("main")
        & pl.col("family").is_in([names.GEMM, names.GEMV])
        & pl.col("name").str.contains("gemm_[0-9]+x[0-9]+")
        & (pl.col("tiles") > _TOO_MANY * pl.col("blocks"))
    ).fill_null(value=False)
    return frame.with_columns(
        *(
            pl.when(~wrong).then(c).alias(c)
            for c in ("m", "n", "k", "batch", "grid_fits", "persistent", "split_k")
        ),
        pl.when(wrong).then("blocks").otherwise("tiles").alias("tiles"),
        (pl.col("main") & ~wrong).alias("main"),
    )
