"""Distinct pieces of work: every launch of one signature is classified and modelled once."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetool.sources.columns import BLOCK_ROWS, look_up
from tracetool.vocabulary.arrays import Numbers

GEOMETRY = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread",
    "shared_static_bytes", "shared_dynamic_bytes", "bytes",
)  # fmt: skip
_CODE = pl.col("#code").cast(pl.Int32)
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
    numbered = columns.with_columns(
        pl.struct(OPERATOR).rank("dense").cast(pl.Int64).sub(1).alias("operator_kind")
    )
    distinct = numbered.unique("operator_kind").sort("operator_kind")
    return distinct, numbered["operator_kind"]


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
        asked = frame["operator"]
        kind = kinds.gather(asked.fill_null(0))
        frame = frame.with_columns(
            pl.select(pl.when(asked.is_not_null()).then(kind).alias("#operator")).to_series()
        )
    else:
        distinct = pl.DataFrame(schema={**dict.fromkeys(OPERATOR, pl.String), "operator_kind": pl.Int64})
        frame = frame.with_columns(pl.lit(None, dtype=pl.Int64).alias("#operator"))
    models = devices.select(
        pl.col("device").cast(pl.Int32), pl.col("name").alias("device_name")
    ).with_columns(pl.col("device_name").rank("dense").cast(pl.Int32).alias("#model"))
    frame = look_up(frame, models.select("device", "#model"), "device")
    keys = ["kind", "#name", *GEOMETRY, "#model", "#operator"]
    frame = frame.with_columns(pl.col("name").cast(pl.Categorical).alias("#name"))
    code, groups = _number_distinct(frame.select(keys))
    sums = frame.select(pl.Series("#code", code), "duration_ns").group_by("#code").agg(
        pl.len().cast(pl.Int64).alias("launches"),
        pl.col("duration_ns").sum(),
        pl.col("duration_ns").median().cast(pl.Float64).alias("duration_median_ns"),
    )  # fmt: skip
    groups = groups.join(sums, on="#code", how="left", maintain_order="left")
    groups = groups.with_columns(pl.col("#name").cast(pl.String).alias("name"))
    groups = groups.sort(
        "duration_ns", "name", *GEOMETRY, "#operator", "#model",
        descending=[True] + [False] * (len(GEOMETRY) + 3), nulls_last=True,
    ).with_row_index("signature").with_columns(pl.col("signature").cast(pl.Int64))  # fmt: skip
    place = np.empty(groups.height, dtype=np.int32)
    place[groups["#code"].to_numpy()] = np.arange(groups.height, dtype=np.int32)
    numbered = kernels.with_columns(absent).with_columns(pl.Series("signature", place[code]))
    names = models.unique("#model").select("#model", "device_name")
    table = groups.join(names, on="#model", how="left", nulls_equal=True, maintain_order="left").join(
        distinct, left_on="#operator", right_on="operator_kind", how="left", maintain_order="left"
    )
    return numbered, table.drop("#code", "#name", "#model", "#operator")


def _number_distinct(rows: pl.DataFrame) -> tuple[Numbers, pl.DataFrame]:
    """Return a number for each row, equal where rows are, and the distinct rows with it (``#code``).

    Notes
    -----
    Block by block, then the distinct rows of all blocks: grouping millions of wide rows at once takes as
    much memory as the rows. Groups know their rows, so numbers are handed back without a join.
    """
    code = np.empty(rows.height, dtype=np.int32)
    blocks = []
    met = 0
    for at in range(0, rows.height, BLOCK_ROWS):
        block = rows.slice(at, BLOCK_ROWS).with_row_index("#row", offset=at)
        groups = block.group_by(rows.columns).agg(pl.col("#row"))
        many = groups["#row"].list.len().to_numpy()
        code[groups["#row"].explode().to_numpy()] = np.repeat(
            np.arange(met, met + len(many), dtype=np.int32), many
        )
        met += len(many)
        blocks.append(groups.drop("#row"))
    if len(blocks) < 2:
        return code, (blocks[0] if blocks else rows).with_row_index("#code").with_columns(_CODE)
    groups = pl.concat(blocks).with_row_index("#row").group_by(rows.columns).agg(pl.col("#row"))
    groups = groups.with_row_index("#code").with_columns(_CODE)
    final = np.empty(met, dtype=np.int32)
    final[groups["#row"].explode().to_numpy()] = np.repeat(
        np.arange(groups.height, dtype=np.int32), groups["#row"].list.len().to_numpy()
    )
    return final[code], groups.drop("#row")
