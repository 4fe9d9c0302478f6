"""Expected powers to hold an attribution to, from a table of predictions."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput


def read_prior(path: str | os.PathLike[str]) -> dict[int | str, float]:
    """Return the expected power by signature, or by name, of a table such as ``tracetool predict`` writes.

    Parameters
    ----------
    path : path
        Parquet or CSV with ``power_w`` and ``signature``, or ``name`` or ``class``. Of several rows of
        one kernel (clocks) the first counts.

    Raises
    ------
    BadInput
        If it cannot be read, is missing a column, or holds no usable power.
    """
    file = Path(path)
    if not file.is_file():
        raise BadInput.in_file(file, "no such file", "give a table of predictions, or --prior model")
    try:
        frame = pl.read_parquet(file) if file.suffix.lower() == ".parquet" else pl.read_csv(file)
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        fault = (str(error).splitlines() or ["unreadable"])[0][:160]
        raise BadInput.in_file(file, f"cannot be read as a table: {fault}") from error
    key = next((c for c in ("signature", "name", "class") if c in frame.columns), None)
    if key is None or "power_w" not in frame.columns:
        raise BadInput.in_file(
            file,
            f"missing column {'power_w' if key else 'signature'}",
            "give signature (or name) and power_w, as tracetool predict RUN -o writes them",
        )
    typed = pl.col(key).cast(pl.Int64 if key == "signature" else pl.String, strict=False)
    rows = frame.select(typed.alias("key"), pl.col("power_w").cast(pl.Float64, strict=False))
    rows = rows.filter(
        pl.col("key").is_not_null() & pl.col("power_w").is_finite() & pl.col("power_w").is_between(0.0, 1e5)
    ).unique("key", keep="first", maintain_order=True)
    if not rows.height:
        raise BadInput.in_file(file, "holds no usable power", "power_w must be in watts")
    return dict(zip(rows["key"].to_list(), rows["power_w"].to_list(), strict=True))
