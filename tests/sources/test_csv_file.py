"""CSV tables: one torn row costs that row."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracetool.sources.io.csv_file import read_csv
from tracetool.sources.rocm.formats.rocprofv3_csv import read_tables

_I, _C = pl.Int64(), pl.Categorical()


@pytest.mark.parametrize("name", ['"open', 'op"en', '"open\0', "ö" * 9, '"', '""', '"a"b"'])
def test_one_odd_row_costs_no_other(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f'{i},"kernel {i % 7}",{i * 10}\n' for i in range(3000)]
    rows[1000] = f"1000,{name},10000\n"
    path.write_text("a,name,b\n" + "".join(rows))
    found = read_csv(path, {"a": (["A"], _I), "name": (["Name"], _C), "b": (["B"], _I)})
    assert found.height == 3000
    assert found["line"].to_list() == list(range(2, 3002))
    others = found.filter(pl.col("line") != 1002)
    assert others["a"].to_list() == [i for i in range(3000) if i != 1000]
    assert others["b"].to_list() == [i * 10 for i in range(3000) if i != 1000]
    assert others["name"].to_list() == [f"kernel {i % 7}" for i in range(3000) if i != 1000]


def test_a_row_of_more_cells_than_the_header_is_no_row(tmp_path: Path) -> None:
    """Decimal commas move every cell: half a number is not read for another."""
    path = tmp_path / "t.csv"
    columns = {"time": (["time"], _I), "watts": (["watts"], _I)}
    path.write_text("time,watts,note\n10,5,\n10,25,100,5\n11,6,a,,\n")
    rows = read_csv(path, columns)
    assert rows.rows() == [(2, 10, 5), (3, None, None), (4, 11, 6)]
    path.write_text('time,watts\n10,5\n10,25,100\n11,"6",,\n"12",7\n')
    rows = read_csv(path, columns)
    assert rows.rows() == [(2, 10, 5), (3, None, None), (4, 11, 6), (5, 12, 7)]


def test_an_absurd_register_count_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "1_kernel_trace.csv"
    path.write_text(
        "Kind,Agent_Id,Kernel_Name,Start_Timestamp,End_Timestamp,VGPR_Count,Accum_VGPR_Count\n"
        f"KERNEL_DISPATCH,1,k,100,200,{2**62},4\nKERNEL_DISPATCH,1,k,300,400,32,4\n"
    )
    assert read_tables(path, 200.0).activities["registers_per_thread"].to_list() == [2**62 + 4, 36]
