"""Distinct pieces of work: every launch of one signature is classified and modelled once."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetool.sources.columns import look_up

GEOMETRY = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread",
    "shared_static_bytes", "shared_dynamic_bytes", "bytes",
)  # fmt: skip
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
    frame = frame.with_row_index("#row")
    groups = frame.group_by(keys).agg(
        pl.col("#row"),
        pl.len().cast(pl.Int64).alias("launches"),
        pl.col("duration_ns").sum(),
        pl.col("duration_ns").median().cast(pl.Float64).alias("duration_median_ns"),
    )
    groups = groups.with_columns(pl.col("#name").cast(pl.String).alias("name"))
    groups = groups.sort(
        "duration_ns", "name", *GEOMETRY, "#operator", "#model",
        descending=[True] + [False] * (len(GEOMETRY) + 3), nulls_last=True,
    ).with_row_index("signature").with_columns(pl.col("signature").cast(pl.Int64))  # fmt: skip
    # The groups know their rows: numbers are handed back without a join on fourteen keys.
    signature = np.empty(frame.height, dtype=np.int32)
    signature[groups["#row"].explode().to_numpy()] = np.repeat(
        np.arange(groups.height, dtype=np.int32), groups["launches"].to_numpy()
    )
    numbered = frame.with_columns(pl.Series("signature", signature))
    names = models.unique("#model").select("#model", "device_name")
    table = groups.join(names, on="#model", how="left", nulls_equal=True, maintain_order="left").join(
        distinct, left_on="#operator", right_on="operator_kind", how="left", maintain_order="left"
    )
    return numbered.drop("#row", "#name", "#model", "#operator"), table.drop(
        "#row", "#name", "#model", "#operator"
    )
