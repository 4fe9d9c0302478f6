"""Calls of NCCL as an Nsight Systems export holds them: payloads in NCCL's own layouts, and their kernels.

Layouts are those of NCCL's ``nvtx_payload_schemas.h`` as a C compiler lays them out, padding included, and as
Nsight Systems 2023.4 recorded them of a program with these schemas; before each stands the header of exports.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tests.sources.makers import nsys_tables, write_tables

COMM, OTHER, RANKS = 0xABCDEF0123456789, 0x1234, 8
WHO = (7 << 24) | 7
#: Schema, struct format behind the header, and the entries: type of NVTX, name, offset (none where it is 0).
INIT, SIZED, REDUCED, PEER = 16777222, 16777223, 16777221, 16777230
_COMM, _SIZE = (18, "NCCL communicator ID", None), (22, "Message size [bytes]", 8)
LAYOUTS = {
    INIT: ("<Qiii4x", [_COMM, (5, "No. of ranks", 8), (5, "Rank", 12), (5, "CUDA device", 16)]),
    SIZED: ("<QQ", [_COMM, _SIZE]),
    REDUCED: ("<QQi4x", [_COMM, _SIZE, (16777300, "Reduction operation", 16)]),
    PEER: ("<QQi4x", [_COMM, _SIZE, (5, "Peer rank", 16)]),
}
NAMES = (
    "ncclCommInitRankConfig",
    "ncclAllReduce",
    "ncclAllGather",
    "ncclSend",
    "ncclRecv",
    "ncclGroupStart",
    "ncclGroupEnd",
)
KERNEL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def blob(schema: int, *values: int) -> bytes:
    payload = struct.pack(LAYOUTS[schema][0], *values)
    return struct.pack("<4Q", 1, schema, len(payload), 32) + payload


class Job:
    """Calls of one thread, 200 us each, kernels of 60 us launched within some of them."""

    def __init__(self) -> None:
        self.now, self.events, self.launches = 3_000_000, [], []

    def call(self, name: str, payload: bytes | None = None, *, kernels: int = 0) -> None:
        start, self.now = self.now, self.now + 200_000
        self.events.append((start, self.now - 10_000, 59, 300 + NAMES.index(name), WHO, 1, payload))
        self.launches += [start + 70_000 * n + 1_000 for n in range(kernels)]

    def group(self, calls: Sequence[tuple[str, bytes]], kernels: int) -> None:
        self.call("ncclGroupStart")
        for name, payload in calls:
            self.call(name, payload)
        self.call("ncclGroupEnd", kernels=kernels)

    def tables(self, declared: str = "BLOB") -> dict[str, tuple[list[str], list[list[object]]]]:
        tables = nsys_tables()
        tables["StringIds"][1].extend([[300 + i, n] for i, n in enumerate(NAMES)] + [[400, KERNEL]])
        columns = tables["CUPTI_ACTIVITY_KIND_KERNEL"][0]
        for n, at in enumerate(self.launches):
            row = dict.fromkeys((c.split()[0].strip('"') for c in columns), None) | {
                "start": at + 5_000, "end": at + 65_000, "deviceId": 0, "contextId": 1, "streamId": 20,
                "correlationId": 5000 + n, "globalPid": 7 << 24, "demangledName": 400, "shortName": 400,
                "gridX": 16, "gridY": 1, "gridZ": 1, "blockX": 512, "blockY": 1, "blockZ": 1,
            }  # fmt: skip
            tables["CUPTI_ACTIVITY_KIND_KERNEL"][1].append(list(row.values()))
            tables["CUPTI_ACTIVITY_KIND_RUNTIME"][1].append([at, at + 500, WHO, 5000 + n, 50])
        names, rows = tables["NVTX_EVENTS"]
        own = [[at, end, kind, None, text, *rest] for at, end, kind, text, *rest in self.events]
        tables["NVTX_EVENTS"] = (
            [*names, "domainId INTEGER", f"binaryData {declared}"],
            [*([*row, None, None] for row in rows), *own],
        )
        entries = [
            [1, schema, i, *entry] for schema, (_, of) in LAYOUTS.items() for i, entry in enumerate(of)
        ]
        columns = ["domainId", "schemaId", "idx", "type"]
        texts = ["name TEXT", "offset INTEGER"]
        tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = ([*(f"{c} INTEGER" for c in columns), *texts], entries)
        return tables

    def sqlite(self, folder: Path, declared: str = "BLOB") -> Path:
        return write_tables(folder / "nccl.sqlite", self.tables(declared))

    def parquet(self, folder: Path) -> Path:
        """Write a folder of Parquet files, the bytes of payloads as a text that is none, as exports do."""
        target = folder / "nccl_pqtdir"
        target.mkdir()
        for name, (columns, rows) in self.tables().items():
            names = [c.split()[0].strip('"') for c in columns]
            frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
            table = frame.to_arrow()
            if "binaryData" in names:
                data = table.column("binaryData").combine_chunks().cast(pa.large_binary())
                text = pa.LargeStringArray.from_buffers(
                    len(data), *data.buffers()[1:], data.buffers()[0], data.null_count
                )
                table = table.set_column(names.index("binaryData"), "binaryData", text)
            pq.write_table(table, target / f"{name}.parquet")
        return target
