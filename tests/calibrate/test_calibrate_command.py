"""``tracetool calibrate`` and ``tracetool gpus``: what they read, write, refuse and say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import polars as pl
import pytest

from tests.documents import check_document
from tracetool.calibrate.calibrate import calibrate
from tracetool.calibrate.tables import read_measured
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.model.idle import idle_power_w
from tracetool.model.power_files import power_calibration_of
from tracetool.report.gpu_sheet import list_gpus, show_gpu

Tool = Callable[..., CompletedProcess[str]]
A10 = load_gpu("a10")


def idle_table(path: Path, factor: float = 1.3) -> Path:
    clock = A10.supported_clocks_mhz()[::3]
    watt = factor * idle_power_w(A10, clock, power_calibration_of(A10))
    pl.DataFrame({"clock_mhz": clock, "idle_w": watt}).write_csv(path)
    return path


def program_table(path: Path, programs: int = 6) -> Path:
    rng = np.random.default_rng(3)
    rows = []
    for i in range(programs):
        dram, fp32 = rng.uniform(0, 0.7), rng.uniform(0, 0.8)
        for clock in (600.0, 900.0, 1200.0, 1500.0):
            watt = 25 + 20 * clock / 1500 + (50 * fp32 + 30 * dram) * clock / 1500 + rng.normal(0, 0.5)
            rows.append((f"program {i}", 3e6 * 1500 / clock, clock, watt, 0.95, dram, fp32))
    names = ["kernel", "duration_us", "clock_mhz", "power_w", "act_sm", "act_dram", "act_fp32"]
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(path)
    return path


def test_an_idle_curve_becomes_the_base_that_commands_use(tool: Tool, command: Tool, tmp_path: Path) -> None:
    out = tmp_path / "a10.power.toml"
    done = command("calibrate", idle_table(tmp_path / "idle.csv"), "--gpu", "a10", "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    check_document("calibrate", json.loads(done.stdout))
    plain = json.loads(command("gpus", "--show", "a10", "--json").stdout)
    mine = json.loads(tool("gpus", "--show", "a10", "--json", TRACETOOL_CALIBRATIONS=str(tmp_path)).stdout)
    ratio = np.array(
        [b["idle_w"] / a["idle_w"] for a, b in zip(plain["curves"], mine["curves"], strict=True)]
    )
    assert np.abs(ratio / 1.3 - 1).max() < 0.05


def test_a_table_of_coefficients_says_how_much_comes_from_data(command: Tool, tmp_path: Path) -> None:
    done = command("calibrate", program_table(tmp_path / "programs.parquet"), "--gpu", "a10", COLUMNS="100")
    assert done.returncode == 0, done.stderr
    heading = done.stdout.splitlines()[0]
    assert "from data" in heading
    assert "told" not in heading


def test_programs_are_fitted_and_held_out(tmp_path: Path) -> None:
    made = calibrate([program_table(tmp_path / "programs.parquet")], "a10")
    error = made.errors.row(0, named=True)
    assert error["groups"] == 6
    assert error["held_out_percent"] < error["constant power"]
    assert {"data", "prior"} == set(made.coefficients["rests_on"])
    assert "[monitor]" in made.toml


def test_a_table_named_twice_tells_no_more_than_once(tmp_path: Path) -> None:
    table = program_table(tmp_path / "programs.parquet")
    once, twice = (calibrate([table] * times, "a10") for times in (1, 2))
    assert twice.coefficients.equals(once.coefficients)
    assert twice.errors.equals(once.errors)
    assert set(twice.notes) - set(once.notes) == {f"{table} is named more than once: it counts once"}


def test_a_row_the_monitor_did_not_read_is_left_out_and_listed(tmp_path: Path) -> None:
    frame = pl.read_parquet(program_table(tmp_path / "programs.parquet"))
    path = tmp_path / "unread.parquet"
    first = pl.int_range(pl.len()) == 0
    unread = [pl.when(~first).then(pl.col(c)).alias(c) for c in frame.columns if c.startswith("act_")]
    frame.with_columns(unread).write_parquet(path)
    made = calibrate([path], "a100-sxm")
    assert made.errors["rows"].to_list() == ["activity"]
    assert made.rejected["reason"].to_list() == ["no activity read"]


def test_two_groups_state_no_error(tmp_path: Path) -> None:
    made = calibrate([program_table(tmp_path / "programs.parquet", programs=2)], "a10")
    assert any("no error on unseen rows" in n for n in made.notes)
    assert "held_out" not in made.toml


def test_rows_at_the_cap_and_empty_ones_are_listed(tmp_path: Path) -> None:
    path = program_table(tmp_path / "programs.parquet")
    frame = pl.read_parquet(path)
    frame = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 3).then(A10.power_limit_w).otherwise("power_w").alias("power_w"),
        pl.when(pl.int_range(pl.len()) == 5).then(None).otherwise("duration_us").alias("duration_us"),
    )
    frame.write_parquet(path)
    found = read_measured(path, A10)
    assert sorted(found.rejected["reason"]) == ["at the power cap", "no power, duration or clock"]
    assert found.power is not None
    assert len(found.power) == frame.height - 2


def test_a_row_in_other_units_is_not_said_to_lack_a_value(tmp_path: Path) -> None:
    """Milliwatts were listed as no power."""
    path = program_table(tmp_path / "programs.parquet")
    milliwatts = pl.when(pl.int_range(pl.len()) == 3).then(1e6).otherwise("power_w").alias("power_w")
    pl.read_parquet(path).with_columns(milliwatts).write_parquet(path)
    assert read_measured(path, A10).rejected["reason"].to_list() == ["power, duration or clock out of range"]


@pytest.mark.parametrize("left_open", [None, float("nan")])
def test_a_memory_clock_may_be_left_open(tmp_path: Path, left_open: float | None) -> None:
    path = program_table(tmp_path / "programs.parquet")
    clock = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit(left_open)).otherwise(A10.memory_clock_mhz)
    pl.read_parquet(path).with_columns(clock.cast(pl.Float64).alias("mem_clock_mhz")).write_parquet(path)
    assert not read_measured(path, A10).rejected.height


def test_operators_faster_than_the_peak_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "operators.csv"
    pl.DataFrame(
        {
            "op": ["gemm"] * 3,
            "dtype": ["bf16"] * 3,
            "m": [4096, 4096, 2048],
            "n": [4096, 4096, 2048],
            "k": [4096, 4096, 2048],
            "duration_us": [2000.0, 20.0, 300.0],
            "power_w": [120.0, 120.0, 110.0],
        }
    ).write_csv(path)
    found = read_measured(path, A10)
    assert found.rejected["reason"].to_list() == ["faster than the peak rates allow"]
    assert found.kind == "operators"


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({"clock_mhz": [1.0]}, "no measured power"),
        ({"power_w": [100.0], "clock_mhz": [900.0]}, "no measured duration"),
        ({"clock_mhz": [300.0, 600.0], "idle_w": [10.0, 12.0]}, "fewer than three"),
        ({"kernel": ["a"], "duration_us": [-1.0], "power_w": [1.0], "clock_mhz": [900.0]}, "no row"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(
    tmp_path: Path, table: dict[str, list[object]], fault: str
) -> None:
    path = tmp_path / "table.csv"
    pl.DataFrame(table).write_csv(path)
    with pytest.raises(BadInput, match=fault):
        read_measured(path, A10)


def test_nothing_is_written_where_calibrate_fails(command: Tool, tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n", "utf-8")
    done = command("calibrate", tmp_path / "broken.csv", "--gpu", "a10", "-o", tmp_path / "x.toml")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x.toml").exists()
    assert (
        command("calibrate", tmp_path / "broken.csv", "--gpu", "a10", "-o", tmp_path / "x.csv").returncode
        == 2
    )


def test_gpus_lists_and_shows() -> None:
    listed = list_gpus()
    assert {"a100-sxm", "mi300x", "tesla-k40m"} <= set(listed["name"])
    sheet = show_gpu("a100-pcie-40gb")
    assert (sheet.curves["voltage_v"].diff().drop_nulls() >= 0).all()
    assert sheet.curves["idle_w"][-1] > sheet.curves["idle_w"][0]


def test_powers_a_slow_sensor_smeared_are_left_out_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "operators.csv"
    pl.DataFrame(
        {
            "op": ["elementwise"] * 3,
            "dtype": ["bf16"] * 3,
            "elements": [3e8] * 3,
            "reads": [2] * 3,
            "writes": [1] * 3,
            "duration_us": [900.0] * 3,
            "power_w": [390.0, 131.0, 410.0],
            "clock_mhz": [1800.0] * 3,
        }
    ).write_csv(path)
    found = read_measured(path, load_gpu("h100-sxm"))
    assert found.rejected.height == 1
    assert found.rejected["power_w"].to_list() == [131.0]
    assert "cannot draw this power" in found.rejected["reason"][0]


def test_times_left_aside_are_named_with_the_option_that_fits_them(tmp_path: Path) -> None:
    path, idle = tmp_path / "operators.csv", idle_table(tmp_path / "idle.csv")
    sizes = [4096, 5120, 6144, 7168, 8192]
    pl.DataFrame(
        {
            "op": ["gemm"] * 5,
            "dtype": ["bf16"] * 5,
            "m": sizes,
            "n": sizes,
            "k": sizes,
            "duration_us": [2e3 * (m / 4096) ** 3 for m in sizes],
            "power_w": [120.0, 122.0, 121.0, 119.0, 120.0],
            "clock_mhz": [1200.0] * 5,
        }
    ).write_csv(path)
    assert any("--part both" in note for note in calibrate([path], "a10").notes)
    for quiet in (calibrate([path], "a10", part="power"), calibrate([idle], "a10")):
        assert not any("--part both" in note for note in quiet.notes)
