"""One run from the tables of windows of a trace: signatures and devices numbered alike, rows in order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tracetool.core.arrays import Ints
from tracetool.sources.signatures import GEOMETRY, GROUP, OPERATOR
from tracetool.tables.schema import load_schema

#: What makes two signatures one.
_SIGNATURE: Final = ("kind", "name", *GEOMETRY, *GROUP, "device_name", *OPERATOR)
_COUNTED: Final = ("launches", "duration_ns", "duration_median_ns", "signature")
#: Tables whose rows kernels name by number, and the column of that number.
_NUMBERED: Final = {"operators": "operator", "ranges": "range", "modules": "module"}
_GROUP: Final = 131_072


class JoinedRun:
    """The tables of a run, written as its windows come; only a window's signatures stay in memory.

    Parameters
    ----------
    folder : Path
        Scratch folder of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, int] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._signatures: dict[str, dict[str, Any]] = {}
        self._devices: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._offsets = dict.fromkeys(_NUMBERED, 0)
        self._small: dict[str, list[pl.DataFrame]] = {"telemetry": [], "rejected": []}

    def add(self, tables: Mapping[str, pl.DataFrame], first_ns: int) -> None:
        """Take over a window's tables; rows of its past that none of its kernels names are left out."""
        kernels = tables["kernels"]
        device = self._device_numbers(tables["devices"])
        to = pl.col("device").replace_strict(list(device), list(device.values()), return_dtype=pl.Int32)
        signature = pl.Series(self._signature_numbers(tables["signatures"]), dtype=pl.Int32)
        kernels = kernels.with_columns(to, signature.gather(kernels["signature"]).alias("signature"))
        for name, column in _NUMBERED.items():
            if name not in tables:
                continue
            rows = tables[name]
            numbers = self._numbers_kept(rows, kernels, column, first_ns)
            kernels = kernels.with_columns(pl.Series(column, numbers).gather(kernels[column]).alias(column))
            again = pl.Series(numbers)
            rows = rows.with_columns(again.gather(rows[column]).alias(column)).filter(
                pl.col(column).is_not_null()
            )
            rows = rows.with_columns(again.gather(rows["parent"]).alias("parent"))
            self._write(name, name, rows)
        for number in kernels["device"].unique().sort():
            self._write(f"kernels.{number}", "kernels", kernels.filter(pl.col("device") == number))
        if "host_calls" in tables:
            calls = tables["host_calls"]
            self._write("host_calls", "host_calls", calls.filter(pl.col("start_ns") >= first_ns))
        for name, windows in self._small.items():
            if name in tables:
                frame = tables[name]
                windows.append(frame.with_columns(to) if "device" in frame.columns else frame)

    def _numbers_kept(
        self, rows: pl.DataFrame, kernels: pl.DataFrame, column: str, first_ns: int
    ) -> pl.Series:
        """Return the run's number of each row of a numbered table, null for those left out."""
        row_number = pl.Series(column, np.arange(rows.height), dtype=pl.Int64)
        keep = (rows["start_ns"] >= first_ns) | row_number.is_in(
            kernels[column].drop_nulls().unique().implode()
        )
        number = keep.cum_sum().cast(pl.Int64) - 1 + self._offsets[_table_of(column)]
        self._offsets[_table_of(column)] += int(keep.sum())
        return pl.select(pl.when(keep).then(number)).to_series()

    def _device_numbers(self, devices: pl.DataFrame) -> dict[int, int]:
        numbers = {}
        for row in devices.iter_rows(named=True):
            key = (row["uuid"], row["profiler_device"], row["rank"])
            device = self._devices.setdefault(key, {**row, "device": len(self._devices)})
            numbers[int(row["device"])] = int(device["device"])
        return numbers

    def _signature_numbers(self, signatures: pl.DataFrame) -> list[int]:
        numbers = []
        for row in signatures.sort("signature").iter_rows(named=True):
            key = repr([row.get(c) for c in _SIGNATURE])
            number = self._signatures.get(key)
            if number is None:
                number = {**row, "signature": len(self._signatures), "launches": 0, "duration_ns": 0, "#": []}
                self._signatures[key] = number
            number["launches"] += row["launches"]
            number["duration_ns"] += row["duration_ns"]
            number["#"].append((row["duration_median_ns"], row["launches"]))
            numbers.append(number["signature"])
        return numbers

    def _write(self, file: str, table: str, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        schema = load_schema(table)
        rows = schema.conform(frame).to_arrow(compat_level=pl.CompatLevel.oldest())
        if file not in self._writers:
            tagged = rows.schema.with_metadata({"tracetool.schema": schema.tag})
            self._writers[file] = pq.ParquetWriter(
                self.folder / f"{file}.parquet", tagged, compression="zstd", compression_level=1
            )
        self._writers[file].write_table(rows.cast(self._writers[file].schema), row_group_size=_GROUP)
        self.rows[file] = self.rows.get(file, 0) + frame.height

    def devices(self) -> pl.DataFrame:
        """Return the GPUs seen so far."""
        return load_schema("devices").conform(
            pl.DataFrame(list(self._devices.values()), infer_schema_length=None)
        )

    def worked(self) -> list[int]:
        """Return the GPUs that something ran on."""
        return [int(f.removeprefix("kernels.")) for f in self.rows if f.startswith("kernels.")]

    def signatures(self) -> tuple[pl.DataFrame, Ints]:
        """Return the signatures, the longest first, and the number of each by that of :meth:`add`.

        The median is that of the windows' medians, weighted by launches.
        """
        rows = [
            {**{k: v for k, v in r.items() if k != "#"}, "duration_median_ns": _median(r["#"])}
            for r in self._signatures.values()
        ]
        order = sorted(range(len(rows)), key=lambda i: (-rows[i]["duration_ns"], str(rows[i]["name"]), i))
        number = np.empty(len(rows), np.int64)
        number[order] = np.arange(len(rows))
        for row, at in zip(rows, number, strict=True):
            row["signature"] = int(at)
        frame = pl.DataFrame(rows, infer_schema_length=None).sort("signature")
        return frame, number

    def finish(self, number: Ints) -> dict[str, int]:
        """Put kernels in their order under the final numbers; return how many rows each table has."""
        for writer in self._writers.values():
            writer.close()
        kernel_tables = sorted(
            (f for f in self.rows if f.startswith("kernels.")), key=lambda f: int(f.split(".")[1])
        )
        lookup = pa.array(number)
        written = 0
        target = self.folder / "kernels.parquet"
        writer = None
        for table_name in kernel_tables:
            place = self.folder / f"{table_name}.parquet"
            file = pq.ParquetFile(place)
            writer = writer or pq.ParquetWriter(
                target, file.schema_arrow, compression="zstd", compression_level=1
            )
            at = file.schema_arrow.get_field_index("signature")
            for batch in file.iter_batches(_GROUP):
                table = pa.Table.from_batches([batch])
                column = lookup.take(table.column(at).combine_chunks()).cast(table.schema.field(at).type)
                writer.write_table(table.set_column(at, table.schema.field(at), column))
                written += table.num_rows
            place.unlink()
        if writer is not None:
            writer.close()
        rows = {n: r for n, r in self.rows.items() if not n.startswith("kernels.")}
        return {"kernels": written, **rows} if written else rows

    def small(self) -> dict[str, pl.DataFrame]:
        """Return readings and rejected rows."""
        joined = {n: pl.concat(p, how="diagonal_relaxed") for n, p in self._small.items() if p}
        if "telemetry" in joined:
            joined["telemetry"] = joined["telemetry"].sort("device", "time_ns", maintain_order=True)
        return joined


def _table_of(column: str) -> str:
    return next(table for table, number in _NUMBERED.items() if number == column)


def _median(medians: list[tuple[float, int]]) -> float:
    ordered = sorted(medians)
    half, passed = sum(n for _, n in ordered) / 2.0, 0
    for value, launches in ordered:
        passed += launches
        if passed >= half:
            return value
    return ordered[-1][0]
