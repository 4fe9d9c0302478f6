"""A table's prediction as one side of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.compare.sides import RunClasses
from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.replay.operator_tables import InputTable, read_table
from tracetool.replay.predict import predict_table
from tracetool.replay.scope_totals import COPIES

#: Columns of a prediction that a table written by ``predict`` may hold already.
_PREDICTED: Final = frozenset(
    {"clock_mhz", "clock_actual_mhz", "power_w", "power_low_w", "power_high_w", "energy_mj", "energy_low_mj",
     "energy_high_mj", "duration_us", "duration_low_us", "duration_high_us", "bound", "throttled",
     "throttled_share", "basis"}
)  # fmt: skip


def table_classes(
    path: Path,
    gpu: str | None,
    clock_mhz: float | None = None,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
) -> tuple[RunClasses, list[str]]:
    """Return a table's predicted rows as the classes of a run, and what they rest on.

    Parameters
    ----------
    path : Path
        A table of operators or kernels.
    gpu : str, optional
        The GPU to predict.
    clock_mhz, mem_clock_mhz : float, optional
        Clocks; by default those of the table or the GPU. [MHz]
    power_cap_w : float, optional
        Power cap; by default the GPU's limit. [W]

    Raises
    ------
    BadInput
        If no GPU is given, or the table cannot be read or predicted.
    """
    if gpu is None:
        raise BadInput.in_file(path, "a table names no GPU", "name it: --gpu h100-sxm")
    table = read_table(path)
    clocks = None if clock_mhz is None else [clock_mhz]
    if table.kind == "operators":  # what a prediction wrote beside the shapes is predicted anew
        frame = table.frame.drop(_PREDICTED & set(table.frame.columns))
        table = read_table(frame) if frame.width < table.frame.width else table
    predicted = predict_table(
        replace(table, name=str(path)),
        gpu,
        clocks,
        mem_clock_mhz=mem_clock_mhz,
        power_cap_w=power_cap_w,
    )
    rows = predicted.frame
    shapes = _shape_texts(table)
    counts = pl.Series(table.counts)
    first = table.frame.columns[0] if "op" not in table.frame.columns else "op"
    named = table.frame["name" if "name" in table.frame.columns else first].cast(pl.String)
    classes = pl.DataFrame(
        {
            "range": [""] * rows.height,
            "operator": table.frame[first].cast(pl.String),
            "shapes": shapes,
            "name": named,
            "geometry": [""] * rows.height,
            "family": table.rows.family[table.index].astype(str),
            "kind": [f if f in COPIES else "kernel" for f in table.rows.family[table.index].astype(str)],
            "launches": counts,
            "time_s": rows["duration_us"] / 1e6 * counts,
            **{f"energy{e}_j": rows[f"energy{e}_mj"] / 1e3 * counts for e in ENDS},
        }
    )
    total = predicted.totals[0]
    sequence = pl.DataFrame(
        {"device": [0] * rows.height, "row": range(rows.height), "call": range(rows.height)},
        schema={"device": pl.Int64, "row": pl.Int64, "call": pl.Int64},
    )
    classes_of_table = RunClasses(
        label=path.stem,
        classes=classes,
        sequence=sequence,
        gap_s=float(total.get("gap_ms", 0.0)) / 1e3,
        gap_j=float(total.get("gap_energy_j", 0.0)),
        span_s=float(total["makespan_ms"]) / 1e3,
        steps=0,
        keys={"GPU": predicted.gpu, "clock": f"{total['clock_mhz']:g} MHz"},
        clock_mhz=float(total["clock_mhz"]),
    )
    return classes_of_table, [f"{path.name}: {n}" for n in predicted.notes]


def _shape_texts(table: InputTable) -> list[str]:
    """Return each row's shape columns as one text, which distinguishes rows of one operator."""
    shape_columns = [
        c for c in table.frame.columns if c not in ("op", "name", "count", "kernel") and c not in _PREDICTED
    ]
    return [
        json.dumps({k: v for k, v in row.items() if v is not None}, sort_keys=True, default=str)
        for row in table.frame.select(shape_columns).iter_rows(named=True)
    ]
