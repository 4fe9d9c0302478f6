"""Distinct pieces of work: every launch of one signature is classified and modeled once."""

from __future__ import annotations

from itertools import accumulate

import polars as pl

from tracetool.sources.columns import each_block, look_up

GEOMETRY = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread",
    "shared_static_bytes", "shared_dynamic_bytes", "bytes",
)  # fmt: skip
#: Of collectives, where a profiler states them.
GROUP = ("ranks", "rank_stride")
_CATEGORY = pl.Categorical()
OPERATOR = ("operator_name", "input_dims", "input_types", "concrete_inputs")


def operator_kinds(operators: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return the distinct operators (name, shapes, types, scalars) and the kind of each operator row."""
    columns = operators.select(
        pl.col("name").alias("operator_name"),
        *[
            pl.col(c) if c in operators.columns else pl.lit(None, dtype=pl.String).alias(c)
            for c in OPERATOR[1:]
        ],
    )
    code, distinct = number_distinct(columns)
    distinct = distinct.sort(OPERATOR)
    distinct = distinct.with_row_index("operator_kind").cast({"operator_kind": pl.Int64})
    kinds = distinct.sort("#code")["operator_kind"].gather(code)
    return distinct.drop("#code"), kinds


def number_signatures(
    kernels: pl.DataFrame, operators: pl.DataFrame, devices: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the kernels with ``signature``, and the table of signatures.

    Parameters
    ----------
    kernels : DataFrame
        Checked activities with ``device`` and ``operator``.
    operators, devices : DataFrame
        Numbered tables of the run.

    Notes
    -----
    Text is compared as category codes, and operators by the number of their kind, so that grouping a
    million launches compares integers only. Signatures are numbered by total time, longest first.
    """
    absent = [pl.lit(None, dtype=pl.Int64).alias(c) for c in GEOMETRY if c not in kernels.columns]
    frame = kernels.with_columns(absent)
    if operators.height:
        distinct, kinds = operator_kinds(operators)
        operator = frame["operator"]
        frame = frame.with_columns(kinds.gather(operator).alias("#operator"))
    else:
        distinct = pl.DataFrame(schema={**dict.fromkeys(OPERATOR, pl.String), "operator_kind": pl.Int64})
        frame = frame.with_columns(pl.lit(None, dtype=pl.Int64).alias("#operator"))
    models = devices.select(
        pl.col("device").cast(pl.Int32), pl.col("name").alias("device_name")
    ).with_columns(pl.col("device_name").rank("dense").cast(pl.Int32).alias("#model"))
    frame = look_up(frame, models.select("device", "#model"), "device")
    groups_stated = [c for c in GROUP if c in frame.columns]
    keys = ["kind", "#name", *GEOMETRY, *groups_stated, "#model", "#operator"]
    frame = frame.with_columns(pl.col("name").cast(_CATEGORY).alias("#name"))
    code, groups = number_distinct(frame.select(keys))
    sums = frame.select(code.alias("#code"), "duration_ns").group_by("#code").agg(
        pl.len().cast(pl.Int64).alias("launches"),
        pl.col("duration_ns").sum(),
        pl.col("duration_ns").median().cast(pl.Float64).alias("duration_median_ns"),
    )  # fmt: skip
    groups = groups.join(sums, on="#code", how="left", maintain_order="left")
    groups = groups.with_columns(
        pl.col("#name").cast(pl.String).alias("name"), pl.col("kind").cast(pl.String)
    )
    # Groups come in any order: with each key among the ties one trace gives the same numbers at every read.
    ties = [
        c
        for c in ("name", "kind", *GEOMETRY, *groups_stated, "#operator", "#model")
        if groups[c].n_unique() > 1
    ]
    groups = groups.sort(
        "duration_ns", *ties, descending=[True] + [False] * len(ties), nulls_last=True
    ).with_row_index("signature").with_columns(pl.col("signature").cast(pl.Int64))  # fmt: skip
    place = groups.sort("#code")["signature"].cast(pl.Int32)
    numbered = kernels.with_columns(absent).with_columns(place.gather(code).alias("signature"))
    names = models.unique("#model").select("#model", "device_name")
    table = groups.join(names, on="#model", how="left", nulls_equal=True, maintain_order="left").join(
        distinct, left_on="#operator", right_on="operator_kind", how="left", maintain_order="left"
    )
    return numbered, table.drop("#code", "#name", "#model", "#operator")


def number_distinct(rows: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Return a number for each row, equal where rows are, and the distinct rows with it (``#code``).

    Parameters
    ----------
    rows : DataFrame
        Columns of whole numbers and text.

    Notes
    -----
    Block by block, then the distinct rows of all blocks: grouping millions of wide rows at once takes as
    much memory as the rows. Groups know their rows, so numbers are handed back without a join.
    """
    if not rows.height:
        return pl.Series(dtype=pl.UInt32), rows.with_row_index("#code")
    coded = rows.with_columns(pl.col(pl.String).cast(_CATEGORY)).with_row_index("#row")
    packing = _packing(coded.drop("#row"))
    names = [e.meta.output_name() for e in packing]

    def distinct(block: pl.DataFrame) -> tuple[pl.Series, pl.Series, pl.DataFrame]:
        groups = block.select("#row", *packing).group_by(names).agg("#row").with_row_index("#code")
        each = groups.select("#code", "#row").explode("#row")
        code = pl.zeros(block.height, dtype=pl.UInt32, eager=True)
        code = code.scatter(each["#row"] - block["#row"][0], each["#code"])
        return code, groups["#row"].list.first(), groups.drop("#row", "#code")

    blocks = each_block(coded, distinct)
    codes = [code for code, _, _ in blocks]
    firsts = [first for _, first, _ in blocks]
    keys = [key for _, _, key in blocks]
    if len(keys) > 1:
        groups = pl.concat(keys).with_columns(pl.concat(firsts).alias("#first")).with_row_index("#met")
        groups = groups.group_by(names).agg("#met", pl.col("#first").first())
        each = groups.with_row_index("#code").select("#code", "#met").explode("#met")
        met = list(accumulate((k.height for k in keys), initial=0))
        final = pl.zeros(met[-1], dtype=pl.UInt32, eager=True).scatter(each["#met"], each["#code"])
        codes = [
            final.slice(at, k.height).gather(code) for at, k, code in zip(met, keys, codes, strict=False)
        ]
        firsts = [groups["#first"]]
    return pl.concat(codes), rows.gather(firsts[0]).with_row_index("#code")


#: Two whole numbers below this multiply within 64 bits.
_PACKED_LIMIT = 1 << 62


def _packing(rows: pl.DataFrame) -> list[pl.Expr]:
    """Return as few whole-number columns as distinguish distinct rows.

    Notes
    -----
    Most columns hold one value, or few beside one another: together they count as the digits of one number
    (0 for none), and one number is grouped several times as fast as a row of fourteen.
    """
    columns = {c: pl.col(c).to_physical() for c in rows.columns}
    ends = rows.select(
        *[e.min().cast(pl.Int64).alias(f"{c}<") for c, e in columns.items()],
        *[e.max().cast(pl.Int64).alias(f"{c}>") for c, e in columns.items()],
        *[e.null_count().alias(f"{c}?") for c, e in columns.items()],
    ).row(0, named=True)
    packed: list[pl.Expr] = []
    filled = _PACKED_LIMIT
    for name, column in columns.items():
        low, high, nulls = ends[f"{name}<"], ends[f"{name}>"], ends[f"{name}?"]
        if low is None or (low == high and not nulls):
            continue
        span = high - low + 2
        if span >= _PACKED_LIMIT:  # as it is: no digit of anything
            packed.insert(0, column.alias(f"#{name}"))
            continue
        digit = (column.cast(pl.Int64) - low + 1).fill_null(0)
        if filled * span >= _PACKED_LIMIT:
            packed.append(digit.alias(f"#{name}"))
            filled = span
        else:
            packed[-1] = packed[-1] * span + digit
            filled *= span
    return packed or [pl.lit(0).alias("#one")]
