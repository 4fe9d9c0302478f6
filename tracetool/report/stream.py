"""Write rows to a file as they are made, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from tracetool.core.errors import BadInput
from tracetool.report.renderer import spreadsheet_safe
from tracetool.tables.write import aside_file


def save_stream(parts: Iterable[pl.DataFrame], path: Path) -> Path:
    """Write tables of the same columns one behind the other to ``.parquet`` or ``.csv``.

    Raises
    ------
    BadInput
        If the extension is another, or the folder cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise BadInput.in_file(path, "cannot hold as many rows", "write .parquet or .csv")
    with aside_file(path) as aside:
        if suffix == ".csv":
            with aside.open("wb") as out:
                for number, part in enumerate(parts):
                    spreadsheet_safe(part).write_csv(out, include_header=number == 0)
            return path
        writer = None
        try:
            for part in parts:
                rows = part.to_arrow(compat_level=pl.CompatLevel.oldest())
                writer = writer or pq.ParquetWriter(
                    aside, rows.schema, compression="zstd", compression_level=1
                )
                writer.write_table(rows.cast(writer.schema), row_group_size=131_072)
        finally:
            if writer is not None:
                writer.close()
    return path
