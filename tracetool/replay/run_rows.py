"""The signatures of a run as columns of the model, with what was measured of them."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.replay.beside import with_traffic_beside
from tracetool.replay.operator_tables import as_columns
from tracetool.tables.run import Run

_KINDS: Final = ("memcpy", "memset")


def run_rows(run: Run, gpu: Gpu | None = None) -> tuple[pl.DataFrame, OperatorColumns]:
    """Return the run's signatures in row order and the same rows as columns of the model.

    Beside shapes and launch geometry the columns hold ``duration_us``, the mean over the launches of
    a signature: its launches add up to the time that was measured; and what ran beside them
    (:func:`tracetool.replay.beside.with_traffic_beside`). ``gpu`` is the one it ran on, where the trace does
    not tell.

    Raises
    ------
    BadInput
        If the run holds no activity of a device.
    """
    from tracetool.kernels.structure import describe

    signatures = run.signatures.sort("signature")
    if not signatures.height:
        raise BadInput.in_file(
            run.path, "holds no GPU activity to predict", "ingest a trace with kernels in it"
        )
    described = describe(signatures, gpu)
    own = [c for c in described.columns if c != "family"]
    columns = described.select(own).with_columns(
        (signatures["duration_ns"] / signatures["launches"].clip(1) / 1e3).alias("duration_us"),
        # A signature is one kernel: another of the same name and launch has other shapes.
        pl.format("{} #{}", signatures["name"], signatures["signature"]).alias("name"),
    )
    family = pl.select(
        pl.when(signatures["kind"].is_in(_KINDS)).then(signatures["kind"]).otherwise(described["family"])
    ).to_series()
    if "bytes" not in columns.columns:
        columns = columns.with_columns(signatures["bytes"].cast(pl.Float64))
    rows = with_traffic_beside(run, as_columns(columns, family))
    return signatures.with_columns(family.alias("family")), rows
