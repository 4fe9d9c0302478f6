"""The memory on the host's side of a copy, which sets how fast it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sources.makers import nsys_tables, write_tables
from tracetool.api.ingest import ingest
from tracetool.tables.run import Run


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ((1, 0, 2), "HtoD (pageable)"),
        ((1, 1, 2), "HtoD (pinned)"),
        ((2, 2, 0), "DtoH (pageable)"),
        ((8, 2, 2), "DtoD"),
    ],
)
def test_nsight_tells_pageable_memory(tmp_path: Path, kinds: tuple[int, int, int], name: str) -> None:
    tables = nsys_tables()
    columns, rows = tables["CUPTI_ACTIVITY_KIND_MEMCPY"]
    told: list[list[object]] = [[*row[:-1], *kinds] for row in rows]
    made: dict[str, tuple[Sequence[str], Sequence[Sequence[object]]]] = {
        **tables,
        "CUPTI_ACTIVITY_KIND_MEMCPY": ([*columns, "srcKind INTEGER", "dstKind INTEGER"], told),
    }
    path = write_tables(tmp_path / "run.sqlite", made)
    run = Run.open(ingest([path], [], tz=None, gpu=None, out=tmp_path / "run"))
    copies = run.kernels.filter(run.kernels["kind"] == "memcpy")
    assert copies["name"].cast(str).to_list() == [name]
