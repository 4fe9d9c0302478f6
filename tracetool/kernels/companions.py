"""Kernels that prepare or finish an operator's main kernel: passes over its tensors, priced as such.

They keep their operator's family (they belong to it), but neither its product nor its bytes. Attention in parts:
each part of the keys leaves its results in fp32, a combine kernel weighs and adds them; the backward pass first
multiplies the result by its gradient and clears fp32 sums, and converts the sums at the end
(Dao et al. 2022, arXiv:2205.14135, algorithm 4; Dao 2023, arXiv:2307.08691, section 3.1).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.dtype import BYTES
from tracetool.families import names
from tracetool.families.registry import families

#: Bytes of an element of the sums between the kernels. [B]
_SUM_BYTES: Final = 4.0
#: Parts of the keys as a share of the most the name allows: they are rounded up to a power of two.
_PARTS_USED: Final = 0.75
#: Parts where the name does not tell.
_PARTS: Final = 4.0


def priced_as() -> pl.Expr:
    """Return the family that prices a helper, null for every other kernel."""
    priced = pl.lit(None, dtype=pl.String)
    for name, family in families().items():
        for op, by in family.helpers.items():
            is_helper = (pl.col("family") == name) & (pl.col("op") == op)
            priced = pl.when(is_helper.fill_null(value=False)).then(pl.lit(by)).otherwise(priced)
    return priced


def companion_shapes(frame: pl.DataFrame) -> pl.DataFrame:
    """Fill ``elements``, ``reads`` and ``writes`` of attention's helpers where operator or grid tell.

    Parameters
    ----------
    frame : DataFrame
        Signatures with ``priced_as``, the name's attributes, ``blocks``, ``call_*`` numbers and ``elements``,
        ``reads``, ``writes``, ``launch_guess``.

    Returns
    -------
    DataFrame
        ``elements`` counts those of the result; ``reads`` and ``writes`` are in elements of ``dtype``. The
        number of parts a combine kernel reads is never stated: ``launch_guess`` says ``reads``.
    """
    is_helper = (pl.col("family") == names.ATTENTION) & pl.col("priced_as").is_not_null()
    op = pl.col("op")
    width = pl.coalesce("call_head_dim_v", "call_head_dim", "head_dim").cast(pl.Float64)
    called = pl.col("call_batch").fill_null(1.0) * pl.col("call_q_len") * pl.col("call_heads") * width
    # one block per tile of queries, batch and head; combine: per tile of all of them behind one another
    tiled = (pl.col("library") == "flash_attn") & pl.col("tile_m").is_not_null()
    launched = pl.when(tiled).then(pl.col("blocks") * pl.col("tile_m") * pl.col("head_dim").cast(pl.Float64))
    elements = pl.coalesce(called, launched)
    size = pl.col("dtype").replace_strict(BYTES, default=2.0, return_dtype=pl.Float64)
    wide = _SUM_BYTES / size
    parts = (_PARTS_USED * pl.col("split_k").cast(pl.Float64)).fill_null(_PARTS)
    combine, sized = op == "splitkv_combine", is_helper & elements.is_not_null()
    reads = pl.when(combine).then(parts * wide).when(op == "convert").then(wide).otherwise(2.0)
    writes = pl.when(op == "preprocess").then(wide).otherwise(1.0)
    return frame.with_columns(
        pl.when(sized).then(elements).otherwise("elements").alias("elements"),
        pl.when(sized).then(reads).otherwise("reads").alias("reads"),
        pl.when(sized).then(writes).otherwise("writes").alias("writes"),
        pl.when(sized & combine).then(pl.lit("reads")).otherwise("launch_guess").alias("launch_guess"),
    )
