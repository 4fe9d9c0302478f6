"""Families of a run's signatures: from the name, or from the operator where the name does not state it.

Kernels that prepare or finish an operator's main kernel keep its family, but neither its product nor its bytes:
they are priced as passes over its tensors. Attention in parts: each part of the keys leaves its results in fp32,
a combine kernel weighs and adds them; the backward pass first multiplies the result by its gradient and clears
fp32 sums, and converts the sums at the end (Dao et al. 2022, arXiv:2205.14135, algorithm 4; Dao 2023,
arXiv:2307.08691, section 3.1).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.dtype import BYTES
from tracetool.families import names
from tracetool.families.registry import families, families_where
from tracetool.families.transfers.problem import CROSSING, WITHIN
from tracetool.kernels.calls import ITSELF
from tracetool.kernels.classify import classify_names
from tracetool.kernels.operators import ARGUMENTS, with_calls
from tracetool.tables.list_columns import as_lists

#: Activities of profilers, and what their names may say of a copy.
_COPY_WORDS: Final = (*CROSSING, "pageable")
#: What names of copies within a GPU say: Nsight and CUPTI of memory and arrays, ROCm, and XLA.
_WITHIN_GPU: Final = "dto[da]|ato[da]|d2d|device[_ -]?to[_ -]?device"
#: What names of collectives may say, as words and as they stand in a name.
_COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def transfer_kind(frame: pl.DataFrame) -> pl.Series:
    """Return the ``kind`` of transfers: a collective's class or an activity, and words of its name.

    A word is added where the class does not hold it already: ``all_reduce``, ``memcpy htod pageable``. Copies
    within a GPU all say ``dtod``.

    Parameters
    ----------
    frame : DataFrame, n rows
        Signatures with ``name``, ``family``, ``op``, ``activity`` and ``call_family``.

    Returns
    -------
    Series, n rows
        The activity alone for what is no transfer.
    """
    is_named_collective = pl.col("family") == names.COLLECTIVE
    listed = pl.col("activity").is_in(_ACTIVITIES)
    collective = ~listed & (is_named_collective | (pl.col("call_family") == names.COLLECTIVE))
    of = frame.select(
        "name",
        listed=listed.fill_null(value=False),
        is_collective=collective.fill_null(value=False),
        kind=pl.when(is_named_collective).then(pl.col("op")).otherwise("activity"),
    )
    kind = of["kind"]
    transfers = (of["listed"] | of["is_collective"]).arg_true()
    if transfers.len():
        kind = kind.scatter(transfers, _with_words(of[transfers]))
    return pl.select(pl.when(kind != "").then(kind).alias("kind")).to_series()


def _with_words(transfers: pl.DataFrame) -> pl.Series:
    """Return the kind of each transfer with the words its name adds."""
    frame = transfers.with_columns(name=pl.col("name").str.to_lowercase())
    frame = frame.with_columns(
        plain_name=_plain(pl.col("name")), plain_kind=_plain(pl.col("kind").fill_null(""))
    )
    words = []
    for word in _COLLECTIVES:
        is_new, plain = pl.col("is_collective"), word.replace("_", "")
        is_new &= pl.col("plain_name").str.contains(plain, literal=True)
        is_new &= ~pl.col("plain_kind").str.contains(plain, literal=True)
        words.append(pl.when(is_new).then(pl.lit(word)))
    for word in _COPY_WORDS:
        said = pl.col("listed") & pl.col("name").str.contains(word, literal=True)
        words.append(pl.when(said).then(pl.lit(word)))
    within = pl.col("listed") & pl.col("name").str.contains(_WITHIN_GPU)
    words.append(pl.when(within).then(pl.lit(WITHIN[0])))
    return frame.select(pl.concat_str("kind", *words, separator=" ", ignore_nulls=True)).to_series()


def _plain(text: pl.Expr) -> pl.Expr:
    """Return a text without case, hyphens and underscores."""
    return text.str.to_lowercase().str.replace_all("[_-]", "")


#: Families that profilers list as activities.
_ACTIVITIES: Final = families_where(lambda family: family.activity)
#: A kernel of the second family is the main work of an operator of the first.
_SAME_WORK: Final = {(names.CONV, names.GEMM), (names.GEMM, names.GEMV), (names.GEMV, names.GEMM)}


def families_of(signatures: pl.DataFrame) -> pl.Series:
    """Return the family of each signature, as :func:`tracetool.kernels.structure.describe` does."""
    return refined(signatures)["family"]


def refined(signatures: pl.DataFrame) -> pl.DataFrame:
    """Return the signatures with what their names and operators state, and their families. n rows in order."""
    frame = _complete(signatures)
    named = classify_names(frame["name"].to_list()).drop("name")
    return _families(with_calls(pl.concat([frame, named], how="horizontal")))


def _complete(signatures: pl.DataFrame) -> pl.DataFrame:
    """Add what may be absent, rename what the model calls otherwise."""
    texts = ("kind", "device_name", "operator_name")
    numbers = (
        *(f"{a}_{x}" for a in ("grid", "block") for x in "xyz"),
        *("registers_per_thread", "shared_static_bytes", "shared_dynamic_bytes", "bytes"),
        *("ranks", "rank_stride", "launches", "duration_median_ns"),
    )
    have = set(signatures.columns)
    frame = as_lists(signatures).with_columns(
        *(pl.lit(None, dtype=pl.String).alias(c) for c in texts if c not in have),
        *(pl.lit(None, dtype=pl.Float64).alias(c) for c in numbers if c not in have),
    )
    shared = pl.col("shared_static_bytes").fill_null(0) + pl.col("shared_dynamic_bytes").fill_null(0)
    return frame.select(
        *(["signature"] if "signature" in have else []),
        "name",
        "device_name",
        pl.col("kind").fill_null("kernel").alias("activity"),
        *ARGUMENTS,
        *(pl.col(c).cast(pl.Float64) for c in numbers[:6]),
        pl.col("registers_per_thread").cast(pl.Float64).alias("registers"),
        shared.cast(pl.Float64).alias("shared_bytes"),
        *(pl.col(c).cast(pl.Float64) for c in ("bytes", "ranks", "rank_stride")),
        pl.col("launches").cast(pl.Float64),
        (pl.col("duration_median_ns").cast(pl.Float64) / 1e3).alias("duration_us"),
    ).with_columns(_volume("grid").alias("blocks"), _volume("block").alias("block_threads"))


def _volume(axis: str) -> pl.Expr:
    sides = [pl.col(f"{axis}_{axis_name}") for axis_name in "xyz"]
    return sides[0] * sides[1].fill_null(1.0) * sides[2].fill_null(1.0)


def _families(frame: pl.DataFrame) -> pl.DataFrame:
    """Take from the operator what the kernel's name does not state, and note it in ``basis``."""
    family, call, activity = pl.col("family"), pl.col("call_family"), pl.col("activity")
    open_name = family.is_in([names.UNKNOWN, names.OTHER]) | pl.col("basis").is_in(["library", "words"])
    # a product launched by a convolution is an implicit GEMM; helpers of an operator stay what they are
    use = (
        call.is_not_null() & (call != ITSELF) & (open_name | ((family == names.GEMM) & (call == names.CONV)))
    )
    refined = pl.when(use).then(call).otherwise(family)
    same = pl.lit(value=False)
    for operator, kernel in _SAME_WORK:
        same |= (call == operator) & (refined == kernel)
    return frame.with_columns(
        pl.when(activity.is_in(_ACTIVITIES)).then(activity).otherwise(refined).alias("family"),
        pl.when(use).then(pl.lit("operator")).otherwise(pl.col("basis")).alias("basis"),
        # the operator's numbers describe its main kernel, not its helpers
        ((call == refined) | same | (call == ITSELF)).fill_null(value=False).alias("main"),
        priced_as().alias("priced_as"),
        # five products for the two of the way forward
        pl.when((family == names.ATTENTION) & (pl.col("direction") == "bwd"))
        .then(pl.lit("backward"))
        .otherwise(pl.coalesce("phase", "call_phase"))
        .alias("phase"),
        pl.coalesce("call_head_dim", pl.col("head_dim").cast(pl.Float64)).alias("head_dim"),
        pl.coalesce("call_head_dim_v", pl.col("head_dim_v").cast(pl.Float64)).alias("head_dim_v"),
        pl.coalesce(pl.col("causal").cast(pl.Float64), "call_causal").alias("causal"),
        pl.coalesce("block_threads", pl.col("threads").cast(pl.Float64)).alias("threads"),
        transfer_kind(frame),
    ).with_columns(pl.col("main") & pl.col("priced_as").is_null())


#: Bytes of an element of the sums between the kernels. [B]
_SUM_BYTES: Final = 4.0
#: Parts of the keys as a share of the most the name allows: they are rounded up to a power of two.
_PARTS_USED: Final = 0.75
#: Parts where the name states none.
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
    """Fill ``elements``, ``reads`` and ``writes`` of attention's helpers where operator or grid give them.

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
    partial_sums = (_PARTS_USED * pl.col("split_k").cast(pl.Float64)).fill_null(_PARTS)
    combine, sized = op == "splitkv_combine", is_helper & elements.is_not_null()
    reads = pl.when(combine).then(partial_sums * wide).when(op == "convert").then(wide).otherwise(2.0)
    writes = pl.when(op == "preprocess").then(wide).otherwise(1.0)
    return frame.with_columns(
        pl.when(sized).then(elements).otherwise("elements").alias("elements"),
        pl.when(sized).then(reads).otherwise("reads").alias("reads"),
        pl.when(sized).then(writes).otherwise("writes").alias("writes"),
        pl.when(sized & combine).then(pl.lit("reads")).otherwise("launch_guess").alias("launch_guess"),
    )
