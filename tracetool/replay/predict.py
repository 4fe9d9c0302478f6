"""Predict a run or a table, whichever a source is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.predict_table import PredictedTable, predict_table
from tracetool.replay.prepared_replay import Launching
from tracetool.tables.run_folder import is_run_path

__all__ = ["PredictedRun", "PredictedTable", "predict", "predict_run", "predict_table"]

_LAUNCHING: Final[Mapping[str | None, Launching]] = {None: "recorded", "eager": "eager", "graph": "graph"}


def predict(
    source: str | os.PathLike[str] | pl.DataFrame,
    gpu: str | None = None,
    clocks_mhz: Sequence[float] | None = None,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    launch: str | None = None,
    anchor: str | None = None,
    scale: Mapping[str, float] | None = None,
    drop: Sequence[str] = (),
    attention: str | None = None,
    assumed: Assumptions = NOTHING_ASSUMED,
) -> PredictedTable | PredictedRun:
    """Predict a run (a folder) or a table (a file); see :func:`predict_run` and :func:`predict_table`.

    Parameters
    ----------
    launch : {"eager", "graph"}, optional
        By default a table eager, a run as recorded. ``eager`` said outright also
        means that attention is issued operator by operator.
    anchor : {"measured", "others", "none"}, optional
        By default what was measured is used; ``others`` predicts each kernel from the measured ones of other
        shapes, ``none`` all from shapes alone.
    attention : {"fused", "unfused"}, optional
        By default unfused in the totals of a table launched ``eager``.

    Raises
    ------
    BadInput
        If a word is not known, or the source cannot be used.
    """
    if launch not in _LAUNCHING:
        raise BadInput(f"--launch {launch!r} is not known", "give eager or graph")
    if anchor not in {None, "measured", "others", "none"}:
        raise BadInput(f"--anchor {anchor!r} is not known", "give measured, others or none")
    if anchor == "others" and scale:
        raise BadInput("--scale changes measured times, --anchor others leaves them out", "give one of them")
    if attention not in {None, "fused", "unfused"}:
        raise BadInput(f"--attention {attention!r} is not known", "give fused or unfused")
    if not isinstance(source, pl.DataFrame) and is_run_path(source):
        return predict_run(
            source,
            gpu,
            clocks_mhz,
            mem_clock_mhz=mem_clock_mhz,
            power_cap_w=power_cap_w,
            launch=_LAUNCHING[launch],
            anchor=anchor in {None, "measured"},
            from_others=anchor == "others",
            scale=scale,
            drop=drop,
            assumed=assumed,
        )
    if scale or drop:
        raise BadInput("--scale and --drop change a run's timeline; a table has none", "give a run")
    table = read_table(source)
    if anchor in {"measured", "others"} and table.kind != "kernels":
        raise BadInput(
            f"--anchor {anchor} needs measured kernels, and a table of operators has none",
            "leave it out, or give a table with kernel, duration_us and clock_mhz",
        )
    if not gpu:
        where = "table" if isinstance(source, pl.DataFrame) else source
        raise BadInput.in_file(where, "a table does not say which GPU", "name it: --gpu h100-sxm")
    return predict_table(
        table,
        gpu,
        clocks_mhz,
        mem_clock_mhz=mem_clock_mhz,
        power_cap_w=power_cap_w,
        launch="graph" if launch == "graph" else "eager",
        fused_attention=attention == "fused" or (not attention and launch != "eager"),
        anchor=anchor in {None, "measured"},
        from_others=anchor == "others",
        assumed=assumed,
    )


def parse_factors(texts: Sequence[str]) -> dict[str, float]:
    """Return factors by family from ``FAMILY=0.5``.

    Raises
    ------
    BadInput
        If a text is not of that form.

    Examples
    --------
    >>> parse_factors(["gemm=0.5"])
    {'gemm': 0.5}
    """
    factors = {}
    for text in texts:
        family, _, value = text.partition("=")
        try:
            factors[family.strip()] = float(value)
        except ValueError:
            raise BadInput(f"--scale {text!r} is not FAMILY=FACTOR", "e.g. --scale gemm=0.5") from None
    return factors


def rows_by(
    prediction: PredictedTable | PredictedRun, by: str | None = None, depth: int | None = None
) -> pl.DataFrame:
    """Return the rows to write or show: a table's predictions, or a run's breakdown.

    Raises
    ------
    BadInput
        If a breakdown of a table is asked for, or one that is not known.
    """
    from tracetool.replay.breakdown import breakdown

    if isinstance(prediction, PredictedRun):
        return breakdown(prediction, by or "signature", depth)
    if by or depth:
        raise BadInput("--by breaks down a run's timeline; a table has none", "give a run")
    return prediction.frame
