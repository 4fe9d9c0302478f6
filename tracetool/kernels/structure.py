"""Signatures to operator columns: from the name, the launch and the operator.

Sources are tried in order of trust: the operator that launched the kernel (exact shapes), the grid (tiles,
element counts), the bytes a profiler recorded; the one size none of them states may be inferred from the
duration. ``shape_source`` says which it was, ``inferred`` what rests on an assumption.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import polars as pl

from tracetool.families import names
from tracetool.families.registry import families, families_where
from tracetool.families.spec import Streams
from tracetool.hardware.gpu import Gpu
from tracetool.kernels.elementwise_operations import computed
from tracetool.kernels.infer_sizes import gpus_of, infer_missing
from tracetool.kernels.launch import (
    LAUNCH_NUMBERS,
    choose_filters,
    drop_misattributed_calls,
    from_launch,
)
from tracetool.kernels.launch_rows import scale_elements_per_thread
from tracetool.kernels.operators import ARGUMENTS, SHAPES
from tracetool.kernels.refine import companion_shapes, refined
from tracetool.kernels.row_kernels import row_kernels

#: Families whose work is a number of elements read and written; of these, those that pass over all of a tensor.
_STREAMS: Final = families_where(lambda family: family.streams is not Streams.NO)
_WHOLE: Final = families_where(lambda family: family.streams is Streams.WHOLE)
#: Families whose backward pass reads the gradient beside the rows.
_ROWWISE: Final = families_where(lambda family: family.row_blocks)
#: Families whose work a profiler states in bytes.
_BYTES: Final = families_where(lambda family: family.in_bytes)

#: An operator by its registered name: functions of many kernels (compiled graphs, autograd nodes) are none.
_REGISTERED: Final = r"^\w+::\w+(?:\.\w+)?$|^triton_"
#: A thread of a split product's sum adds at most so many results.
_SUMS_PER_THREAD: Final = 1024.0
#: Numbers taken by rules of their own.
_APART: Final = ("elements", "reads", "writes", "bytes")
#: A format for elements known by their size only.
_OF_SIZE: Final = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


def describe(
    signatures: pl.DataFrame, gpu: Gpu | None = None, clock_mhz: float | None = None
) -> pl.DataFrame:
    """Return the operator columns of a run's signatures.

    Parameters
    ----------
    signatures : DataFrame, n rows
        The ``signatures`` table of a run; only ``name`` must exist.
    gpu : Gpu, optional
        The GPU it ran on, where ``device_name`` does not state it.
    clock_mhz : float, optional
        The core clock it ran at, where readings tell: sizes inferred from durations go by it. [MHz]

    Returns
    -------
    DataFrame, n rows in the same order
        The columns of :func:`classify_names` (families refined by the operator), the numbers of
        :data:`tracetool.kernels.operators.SHAPES`, ``bytes`` [B], ``blocks`` (grid product),
        ``ranks`` and ``rank_stride`` (of collectives), ``threads`` (per block), ``registers`` (per thread), ``shared_bytes`` (per block) [B],
        ``duration_us`` (median) [us], ``kind`` (of a collective or copy), ``computes`` (of elementwise
        kernels and norms) and ``shape_source``
        (operator, grid, bytes or none). ``priced_as`` names the family whose law prices a helper of an
        operator (:mod:`tracetool.kernels.refine`), null for other kernels. Tiles of matrix products are turned to lie along the
        operator's own m and n (``tile_m`` along m), unlike in the name; ``tiles``, ``grid_fits``: see
        :func:`tracetool.kernels.launch.from_launch`; ``inferred``: see
        :func:`tracetool.kernels.infer_sizes.infer_missing`.
    """
    frame = computed(row_kernels(refined(signatures)))
    gpus = gpus_of(frame, gpu)
    counts = {device: model.sm_count for device, model in gpus.items()}
    frame = scale_elements_per_thread(
        drop_misattributed_calls(from_launch(choose_filters(_own_shapes(frame)), counts)), gpus
    )
    frame = infer_missing(companion_shapes(_filled(frame)), gpus, clock_mhz)
    frame = _sources(frame)
    calls = [c for c in frame.columns if c.startswith(("call_", "launch_"))]
    return frame.drop(*calls, "activity", "block_threads", "main", *ARGUMENTS)


def _own_shapes(frame: pl.DataFrame) -> pl.DataFrame:
    """Take the operator's numbers where they are this kernel's."""
    main, family, call = pl.col("main"), pl.col("family"), pl.col("call_name")
    streams = family.is_in(_STREAMS)
    # a streaming kernel of an unlisted operator works on that operator's tensors
    plain = family.is_in(_WHOLE) & ~main & call.is_not_null() & pl.col("call_family").is_null()
    plain &= pl.col("operator_name").fill_null(call).str.contains(_REGISTERED)
    product = pl.col("call_batch").fill_null(1.0) * pl.col("call_m") * pl.col("call_n")
    covered = pl.col("blocks") * pl.col("threads") * _SUMS_PER_THREAD
    product = (
        pl.when((family == names.SPLITK_REDUCE) & (product > covered).fill_null(value=False))
        .then(None)
        .otherwise(product)
    )
    # addmm first spreads its bias over the result; the sum of a split product writes the result once
    spread = (family == names.COPY) & pl.col("call_bias_elements").is_not_null()
    helper = spread | ((family == names.SPLITK_REDUCE) & call.is_not_null())
    pointers = (pl.col("operands").cast(pl.Float64) - 1).clip(lower_bound=0)
    reads = (
        pl.when(main & pl.col("call_reads").is_not_null())
        .then("call_reads")
        .when(spread)
        .then(pl.col("call_bias_elements") / product)
        .when(plain)
        .then(pl.min_horizontal(pointers, "call_stream_reads"))
        .when(streams)
        .then(pl.coalesce(pointers, pl.lit(1.0)))
        .when(family == names.REDUCTION)
        .then(1.0)
        .when(pl.col("row_reads").is_not_null())
        .then("row_reads")
        # the way back of a norm or softmax reads the gradient beside the rows, which are kept for it
        .when(family.is_in(_ROWWISE) & (pl.col("direction") == "bwd"))
        .then(2.0)
    )
    writes = (
        pl.when(main & pl.col("call_writes").is_not_null())
        .then("call_writes")
        .when(pl.col("row_writes").is_not_null())
        .then("row_writes")
        .when(streams)
        .then(1.0)
        .when(main & (family == names.REDUCTION))
        .then(1.0 / pl.col("call_cols"))
    )
    named = pl.col("dtype")
    sized = pl.col("element_bytes").replace_strict(_OF_SIZE, default=None, return_dtype=pl.String)
    message = (family == names.COLLECTIVE) & call.is_not_null()
    return frame.with_columns(
        *(pl.when(main).then(f"call_{c}").alias(c) for c in SHAPES if c not in _APART),
        pl.when(main)
        .then("call_elements")
        .when(plain)
        .then("call_stream_elements")
        .when(helper)
        .then(product)
        .alias("elements"),
        reads.alias("reads"),
        writes.alias("writes"),
        pl.col("call_walked_dims").alias("walked_dims"),
        pl.coalesce("bytes", pl.when(message).then("call_bytes")).alias("bytes"),
        pl.coalesce("ranks", pl.when(family == names.COLLECTIVE).then("rank_count")).alias("ranks"),
        # counts of an operator are in its own format; an opaque element has only a size
        pl.when(streams & (plain | main))
        .then(pl.coalesce("call_dtype", named, sized))
        .otherwise(pl.coalesce(named, sized, "call_dtype"))
        .alias("dtype"),
    )


def _filled(frame: pl.DataFrame) -> pl.DataFrame:
    """Fill from the launch what the operator does not state; ``launch_guess`` keeps what was assumed and used."""
    streams = pl.col("family").is_in(_STREAMS)
    # an index is often not recorded: the grid counts what was picked
    picked = (
        (pl.col("family") == names.GATHER_SCATTER) & ~pl.col("main") & pl.col("launch_elements").is_not_null()
    )
    elements = (
        pl.when(picked)
        .then("launch_elements")
        .when(streams)
        .then(pl.coalesce("elements", "launch_elements"))
        .otherwise("elements")
    )
    sized = pl.coalesce("m", "q_len", "rows").is_not_null() | (streams & pl.col("elements").is_not_null())
    return frame.with_columns(
        *(pl.coalesce(c, f"launch_{c}").alias(c) for c in LAUNCH_NUMBERS if c != "elements"),
        elements.alias("elements"),
        pl.when(sized).then(pl.lit("")).otherwise("launch_guess").alias("launch_guess"),
    )


def _work_known(columns: Collection[str]) -> pl.Expr:
    """Return whether a row has the sizes that its pricing family needs to count its work."""
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, of in families().items():
        alike.setdefault(of.needs, []).append(name)
    priced = pl.coalesce("priced_as", "family")
    complete = pl.lit(value=False)
    for sets, of_sets in alike.items():
        for sizes in (one for one in sets if set(one) <= set(columns)):
            complete |= priced.is_in(of_sets) & pl.all_horizontal(*(pl.col(c).is_not_null() for c in sizes))
    return complete


def _sources(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the source of the shapes."""
    family = pl.col("family")
    streams = family.is_in(_STREAMS)
    exact = pl.coalesce(pl.col("call_elements"), pl.col("call_stream_elements"))
    from_operator = pl.col("main") | (streams & pl.col("elements").eq_missing(exact))
    from_operator |= (
        (family == names.SPLITK_REDUCE) & pl.col("call_m").is_not_null() & pl.col("elements").is_not_null()
    )
    from_operator |= (
        (family == names.ATTENTION) & pl.col("elements").is_not_null() & pl.col("call_q_len").is_not_null()
    )
    source = (
        pl.when(family.is_in(_BYTES) & pl.col("bytes").is_not_null())
        .then(pl.lit("bytes"))
        .when(~_work_known(frame.columns))
        .then(pl.lit("none"))
        .when(from_operator & (pl.col("inferred") == ""))
        .then(pl.lit("operator"))
        .otherwise(pl.lit("grid"))
    )
    return frame.with_columns(source.alias("shape_source"))
