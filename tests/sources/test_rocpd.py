"""rocpd databases of both layouts: joined from their tables, whatever their views say."""

# ruff: noqa: E501 - tables are declared as the profiler declares them

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from tests.sources.makers import BOOT_NS, LAUNCHES, rocpd
from tracetool.api.ingest import ingest
from tracetool.tables.run import Run


@pytest.mark.parametrize("views", [True, False])
def test_calls_markers_and_copies_come_from_the_tables(views: bool, tmp_path: Path) -> None:
    run = Run.open(ingest([rocpd(tmp_path, views=views)], out=tmp_path / "out"))
    kernels = run.kernels.filter(pl.col("kind") == "kernel")
    assert kernels.height == 5
    calls = run.table("host_calls")
    assert calls.filter(pl.col("kind") == "launch").height == 5
    assert run.table("ranges")["name"].to_list() == ["a step", "a step"]
    copies = run.kernels.filter(pl.col("kind") == "memcpy")
    assert copies["name"].to_list() == ["HtoD", "HtoD"]
    assert copies["bytes"].to_list() == [4096, 4096]


def test_a_view_in_place_of_the_dispatches_changes_nothing(tmp_path: Path) -> None:
    path = rocpd(tmp_path)
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("DROP VIEW kernels")
        made.execute("CREATE VIEW kernels AS SELECT 'planted' AS name, 1 AS start, 2 AS end")
    made.close()
    run = Run.open(ingest([path], out=tmp_path / "out"))
    assert set(run.kernels.filter(pl.col("kind") == "kernel")["name"]) == {n for n, *_ in LAUNCHES}


def test_times_and_places_kept_apart_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "4_results.db"
    with closing(sqlite3.connect(path)) as made, made:
        made.executescript(
            """
            CREATE TABLE rocpd_metadata_a (id, tag, value);
            CREATE TABLE rocpd_timestamp_a (id, guid, value, track_id);
            CREATE TABLE rocpd_track_a (id, guid, nid, pid, tid, agent_id, queue_id, stream_id);
            CREATE TABLE rocpd_info_agent_a (id, guid, type, absolute_index, name, product_name, extdata);
            CREATE TABLE rocpd_info_process_a (id, guid, pid);
            CREATE TABLE rocpd_info_kernel_symbol_a (id, guid, display_name, arch_vgpr_count, accum_vgpr_count);
            CREATE TABLE rocpd_kernel_dispatch_a (id, guid, track_id, kernel_id, start_id, end_id,
                workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id);
            INSERT INTO rocpd_metadata_a VALUES (1, 'schema_version', '4.0.0');
            INSERT INTO rocpd_track_a VALUES (1, 'a', 1, 7, NULL, 3, 5, 6);
            INSERT INTO rocpd_info_process_a VALUES (7, 'a', 4242);
            INSERT INTO rocpd_info_agent_a VALUES (3, 'a', 'GPU', 2, 'gfx942', 'AMD Instinct MI300X', '{}');
            """
        )
        for i, (name, start, end, grid, block) in enumerate(LAUNCHES, 1):
            made.execute("INSERT INTO rocpd_info_kernel_symbol_a VALUES (?, 'a', ?, 64, 0)", (i, name))
            made.executemany(
                "INSERT INTO rocpd_timestamp_a VALUES (?, 'a', ?, 1)",
                [(2 * i, BOOT_NS + start), (2 * i + 1, BOOT_NS + end)],
            )
            items = [g * b for g, b in zip(grid, block, strict=True)]
            made.execute(
                "INSERT INTO rocpd_kernel_dispatch_a VALUES (?, 'a', 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (i, i, 2 * i, 2 * i + 1, *block, *items),
            )
    made.close()
    kernels = Run.open(ingest([path], out=tmp_path / "out")).kernels
    assert kernels["name"].to_list() == [n for n, *_ in LAUNCHES]
    assert kernels["start_ns"].to_list() == [BOOT_NS + s for _, s, *_ in LAUNCHES]
    assert kernels["duration_ns"].to_list() == [e - s for _, s, e, *_ in LAUNCHES]
    assert kernels["process"].unique().to_list() == [4242]
    assert kernels["stream"].unique().to_list() == [6]
    assert kernels["grid_x"].to_list() == [g[0] for _, _, _, g, _ in LAUNCHES]
