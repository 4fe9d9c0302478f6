"""Expected powers that an attribution may use as a prior: given, read from a table, or from a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.paths import regular_file
from tracetool.tables.run import Run
from tracetool.tables.table_file import stored_table

#: Expected power by signature, or by name. [W]
ExpectedPower = Mapping[int | str, float]
#: Where they come from: given, a table of predictions, or a model that takes a run and a GPU's name.
PriorSource = ExpectedPower | str | os.PathLike[str] | Callable[[Run, str | None], ExpectedPower]


def expected_power_of(source: PriorSource | None, run: Run | None, gpu: str | None) -> ExpectedPower:
    """Return the expected power by signature or name; empty without a source. [W]

    Raises
    ------
    BadInput
        If the source is a table that cannot be used.
    """
    if source is None:
        return {}
    if isinstance(source, Mapping):
        return source
    if callable(source):
        assert run is not None, "--prior model needs a run"
        return source(run, gpu)
    return read_prior(source)


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
    regular_file(file, "give a table of predictions, or --prior model")
    frame = stored_table(file, lambda raw: pl.read_csv(raw, infer_schema_length=None))
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
