"""Sizes from launches: tiles times grid give m and n, blocks times elements per block give counts.

Grids count blocks (readers divide work-items where a profiler writes those). Which grid axis runs along which
side of the product differs by library:

- cuBLAS, nvjet, xmma: x along the library's M (a framework's n) in steps of the first tile number, y along
  its N; z is the batch, or the parts of a split K: the name or the operator decides. Checked on 30,000 launches.
- CUTLASS 2.x swizzles: x holds up to 8 columns of tiles side by side, so only the number of tiles is exact.
- Tensile: x and y as in cuBLAS, z the batch, parts of a split K within y; in hipBLASLt one axis holds them all,
  so only the product m x n is known.
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
_GRID_X: Final = pl.col("grid_x")
_GRID_Y: Final = pl.col("grid_y").fill_null(1.0)
_GRID_Z: Final = pl.col("grid_z").fill_null(1.0)
_TILE_M: Final = pl.col("tile_m").cast(pl.Float64)
_TILE_N: Final = pl.col("tile_n").cast(pl.Float64)
_LIBRARY: Final = pl.col("library").fill_null("")
_K_SHARING: Final = pl.col("k_sharing").fill_null("")
_NAMED_SPLIT: Final = pl.col("split_k").cast(pl.Float64)
_SPLITS: Final = _K_SHARING == "split_k"
#: Blocks take one tile after another: the grid gives the GPU's size, not the product's.
_PERSISTS: Final = pl.col("persistent").fill_null(value=False) | _K_SHARING.is_in(["stream_k", "segment_k"])
#: One plane of the grid holds tiles and parts of a split K.
_ONE_PLANE: Final = _LIBRARY == "tensile"
#: Blocks from which on a grid is as tall as a library makes it: taller products are launched in pieces.
_TALLEST: Final = 16_384


def _ceil(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return (a / b).ceil()


def from_launch(frame: pl.DataFrame, sm_counts: Mapping[str | None, int] | None = None) -> pl.DataFrame:
    """Add ``launch_m``, ``launch_n``, ... where name and grid give them; turn tiles to the operator's view.

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
    """Add sizes, tiles and parts of a split K of matrix products, and of convolutions run as such."""
    return _split_parts(_experts(_extents(frame)))


def _extents(frame: pl.DataFrame) -> pl.DataFrame:
    """Add m, n and batch from tile and grid, and which of them rest on an assumption."""
    name, plane = pl.col("name"), _GRID_X * _GRID_Y
    product = pl.col("family").is_in(_PRODUCTS) & _TILE_M.is_not_null() & _GRID_X.is_not_null() & ~_PERSISTS
    # only the number of tiles is known: one axis, or a swizzle
    folded = _LIBRARY.is_in(["cutlass", "aiter", "composable_kernel"]) | (
        (_GRID_Y == 1) & (_ONE_PLANE | name.str.contains("xmma|nvjet"))
    )
    split_in_plane = _ONE_PLANE & (_NAMED_SPLIT > 1)
    side = (pl.when(split_in_plane).then(plane / _NAMED_SPLIT).otherwise(plane) * _TILE_M * _TILE_N).sqrt()
    parts_in_y = pl.when(split_in_plane).then(_NAMED_SPLIT).otherwise(1.0)
    across = _LIBRARY == "trtllm_gen"
    rows_m = pl.when(across).then(_GRID_Y * _TILE_N).otherwise(_GRID_Y / parts_in_y * _TILE_M)
    cols_n = pl.when(across).then(_GRID_X * _TILE_M).otherwise(_GRID_X * _TILE_N)
    conv = (
        (pl.col("family") == names.CONV)
        & _TILE_M.is_not_null()
        & _GRID_X.is_not_null()
        & (pl.col("algo").fill_null("") == "implicit_gemm")
        & pl.col("direction").fill_null("").is_in(["fwd", "bwd_data"])
    )
    xmma = name.str.contains("_xmma_")
    conv_m = pl.when(xmma).then(_GRID_Y).otherwise(_GRID_X) * _TILE_M
    conv_n = pl.when(xmma).then(_GRID_X).otherwise(_GRID_Y) * _TILE_N
    batch_in_z = product & ~_SPLITS & (~folded | _ONE_PLANE)
    return frame.with_columns(
        _first((product & folded, side), (product, rows_m), (conv, conv_m)).alias("launch_m"),
        _first((product & folded, side), (product, cols_n), (conv, conv_n)).alias("launch_n"),
        _first((batch_in_z, _GRID_Z), (product | conv, pl.lit(1.0))).alias("launch_batch"),
        pl.when(product & folded & pl.col("m").is_null())
        .then(pl.lit("m n"))
        .when(product & (_GRID_Z > 1) & ~_SPLITS & ~_ONE_PLANE)
        .then(pl.lit("batch"))
        .otherwise(pl.lit(""))
        .alias("launch_guess"),
        (product | conv).alias("_counts"),
    )


def _split_parts(frame: pl.DataFrame) -> pl.DataFrame:
    """Check the grid against an operator's sizes, and count the parts of a split K."""
    has_sizes = (
        pl.col("m").is_not_null()
        & pl.col("n").is_not_null()
        & _TILE_M.is_not_null()
        & (pl.col("family") != names.CONV)
    )
    blocks, batch = pl.col("blocks"), pl.col("batch").fill_null(1.0)
    tiles = _ceil(pl.col("m"), _TILE_M) * _ceil(pl.col("n"), _TILE_N) * batch
    splits = blocks / tiles
    is_whole = (splits >= 1) & ((splits - splits.round()).abs() < 1e-9)
    comparable = has_sizes & blocks.is_not_null()
    shared = _weights_parts()
    in_z = (batch < _GRID_Z) & (_GRID_Z % batch == 0)
    counted = _first(
        (comparable & in_z, _GRID_Z / batch), (comparable & _ONE_PLANE & is_whole & ~_PERSISTS, splits)
    )
    split = pl.when(_SPLITS & ~has_sizes & (_GRID_Z > 1) & ~_ONE_PLANE).then(_GRID_Z).otherwise(counted)
    swizzled = (blocks / pl.max_horizontal(split.fill_null(1.0), pl.lit(1.0)) / tiles).is_between(
        1.0, 2.0, closed="left"
    )
    loops = (blocks < tiles) & (_GRID_Y >= _TALLEST)
    one_per_unit = has_sizes & (blocks < tiles) & (_GRID_Y < _TALLEST) & (pl.col("family") != names.GEMV)
    return frame.with_columns(
        pl.coalesce(pl.when(_NAMED_SPLIT > 1).then(_NAMED_SPLIT), shared, split, _NAMED_SPLIT).alias(
            "split_k"
        ),
        _first((has_sizes, tiles), (pl.col("_counts"), _GRID_X * _GRID_Y * _GRID_Z)).alias("tiles"),
        pl.when(comparable & ~_PERSISTS).then(is_whole | swizzled | loops).alias("grid_fits"),
        pl.when(one_per_unit).then(pl.lit(value=True)).otherwise("persistent").alias("persistent"),
    ).drop("_counts")


def _weights_parts() -> pl.Expr:
    """Return into how many parts a gradient of a convolution's weights has its pixels shared out.

    Its result is small and its K, all pixels, is long: blocks beyond one a tile take pixels of their own, in the
    grid's z (CUTLASS) or, where the name says that they share K, along its other axes.
    """
    groups = pl.col("conv_groups").fill_null(1.0).clip(lower_bound=1.0)
    window = _ceil(pl.col("channels"), groups) * pl.col("kernel_h") * pl.col("kernel_w")
    tiles = _ceil(window, _TILE_M) * _ceil(_ceil(pl.col("filters"), groups), _TILE_N) * groups
    ours = (pl.col("family") == names.CONV) & (pl.col("direction") == "bwd_weight") & tiles.is_not_null()
    alone = groups == 1.0
    along = _K_SHARING.is_in(["segment_k", "split_k"]) & (pl.col("blocks") > tiles)
    return _first((ours & alone & (_GRID_Z > 1), _GRID_Z), (ours & along, pl.col("blocks") / tiles))


def _first(*cases: tuple[pl.Expr, pl.Expr]) -> pl.Expr:
    """Return the value of the first true case, null where there is none."""
    chosen = _NULL
    for holds, value in reversed(cases):
        chosen = pl.when(holds).then(value).otherwise(chosen)
    return chosen


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
    fits_other = (
        pl.col("main") & (pl.col("direction") == "bwd_weight") & pl.col("call_other_kernel").is_not_null()
        & ~fits[0] & fits[1]
    ).fill_null(value=False)  # fmt: skip
    return frame.with_columns(
        pl.when(fits_other).then("call_other_kernel").otherwise("kernel_h").alias("kernel_h"),
        pl.when(fits_other).then("call_other_kernel").otherwise("kernel_w").alias("kernel_w"),
        pl.when(fits_other).then("call_other_padding").otherwise("padding").alias("padding"),
    )


#: A grid this many times too small for its operator's tiles belongs to another operator.
_TOO_MANY: Final = 16.0


def drop_misattributed_calls(frame: pl.DataFrame) -> pl.DataFrame:
    """Set aside a product's operator where its tiles do not fit the grid: it launched another kernel.

    Kernels named by a fixed tile have a block per tile. Where the operator's result takes many times the
    blocks that ran (a profiler's wrong correlation, a size hint in place of a size), ``m``, ``n``, ``k``
    and ``batch`` become null and ``main`` false: the grid then gives them. Of a product launched in pieces,
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
