"""The power the model expects of each kernel of a run: a prior for an attribution of measured energy."""

from __future__ import annotations

import polars as pl

from tracetool.replay.predict import predict_run
from tracetool.tables.run import Run


def model_power(run: Run, gpu: str | None = None) -> dict[int | str, float]:
    """Return the model's power of each signature of a run, anchored on its measured times. [W]

    Raises
    ------
    BadInput
        As for ``predict_run``.
    """
    rows = predict_run(run, gpu, anchor=True).signatures.filter(pl.col("power_w").is_finite())
    rows = rows.unique("signature", keep="first", maintain_order=True)
    keys: list[int | str] = rows["signature"].cast(pl.Int64).to_list()
    return dict(zip(keys, rows["power_w"].to_list(), strict=True))
