"""What collectives waited for other ranks, taken out of the errors of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetool.compare.accuracy import SHAPES
from tracetool.compare.accuracy_sums import with_errors
from tracetool.families import names

if TYPE_CHECKING:
    from tracetool.replay.replays import RunReplay


def without_waits(rows: pl.DataFrame, replays: RunReplay | None) -> tuple[pl.DataFrame, list[str]]:
    """Return signature rows whose errors of time are those of the transfer, and what is said of the waits.

    Parameters
    ----------
    rows : DataFrame
        As :func:`tracetool.compare.accuracy.compare_signatures` returns.
    replays : RunReplay, optional
        The run's timeline: which collectives met others, and when the last of each meeting had come.

    Returns
    -------
    rows : DataFrame
        With ``waiting_ms``, null where no collective of the signature met others. Collectives that met
        none hold an unknown wait: they are not compared.
    notes : list of str
        How long collectives waited, and how much of the time cannot be split.
    """
    if replays is None or not replays.collective.any():
        return rows, []
    work, met, count = replays.work, replays.met, len(replays.rows)
    wait_ns = met.arrived_ns - work.start_ns[met.member]
    waited = np.bincount(work.signature[met.member], weights=wait_ns, minlength=count)
    meeting = np.bincount(work.signature[met.member], minlength=count)
    launched = np.maximum(np.bincount(work.signature, minlength=count), 1)
    collective = np.asarray(replays.rows.family == names.COLLECTIVE)
    waits = pl.DataFrame(
        {
            "signature": np.arange(count),
            "wait_each_ms": waited / launched * 1e-6,
            "met": meeting > 0,
            "unsplit": collective & (meeting < launched),
        }
    )
    joined = rows.drop("waiting_ms").join(waits, on="signature", how="left", maintain_order="left")
    joined = joined.with_columns(
        pl.when("met").then(pl.col("wait_each_ms") * pl.col("launches")).alias("waiting_ms"),
        (pl.col("compared") & ~pl.col("unsplit")).alias("compared"),
    )
    return with_errors(joined.drop("wait_each_ms", "met", "unsplit")), _notes(joined)


def _notes(rows: pl.DataFrame) -> list[str]:
    notes = []
    split = rows.filter(pl.col("met") & ~pl.col("unsplit"))
    if split.height:
        waiting, whole = float(split["waiting_ms"].sum()), float(split["time_ms"].sum())
        notes.append(
            f"collectives: {waiting:.4g} ms waiting for other ranks, {whole - waiting:.4g} ms transfer;"
            " the errors of time compare the transfer"
        )
    lone = rows.filter("unsplit")
    if lone.height:
        sized = lone.filter(pl.col("predicted_from") == SHAPES)
        whole_ms, transfer_ms = float(lone["time_ms"].sum()), float(sized["time_predicted_ms"].sum())
        predicted = f", {transfer_ms:.4g} ms transfer predicted" if sized.height == lone.height else ""
        notes.append(
            f"collectives without their other ranks: {whole_ms:.4g} ms measured{predicted};"
            " one rank cannot show what of it is waiting: not compared (ingest the ranks together)"
        )
    return notes
