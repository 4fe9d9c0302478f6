"""Sweeps: what is assumed is used, and of clocks no sensor separates the fastest is chosen."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Tool
from tracetool.replay.assumptions import Assumptions
from tracetool.replay.operating_points import TIE, least
from tracetool.replay.sweep import gain_interval, sweep
from tracetool.replay.sweep_families import family_choices

ROWS = pl.DataFrame(
    {
        "op": ["gemm", "elementwise"],
        "dtype": ["bf16", "bf16"],
        "m": [8192, None],
        "n": [8192, None],
        "k": [4096, None],
        "elements": [None, 1 << 28],
    }
)
CLOCKS = (600.0, 900.0, 1200.0, 1410.0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    ROWS.write_parquet(path)
    return path


def test_a_warmer_chip_leaks_more_at_every_clock(table: Path) -> None:
    cool, warm = (
        sweep(table, "h100-sxm", CLOCKS, assumed=Assumptions.read(temperature_c=t)).points
        for t in (40.0, 85.0)
    )
    assert (warm["energy_j"] > 1.02 * cool["energy_j"]).all()


def test_a_calibration_of_the_users_own_is_used(table: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(
        '[about]\ntitle = "mine"\nbasis = "calibrated"\n[base]\n'
        'board_w = { value = 60.0, unit = "W", kind = "fitted", source = "mine" }\n'
    )
    plain = sweep(table, "a100-sxm", CLOCKS).points
    mine = sweep(table, "a100-sxm", CLOCKS, assumed=Assumptions.read([own])).points
    assert (mine["energy_j"] > plain["energy_j"]).all()


@pytest.mark.parametrize("extra", [("--calibration", "missing.toml"), ("--temperature", "400")])
def test_what_cannot_be_assumed_is_one_line(table: Path, command: Tool, extra: tuple[str, str]) -> None:
    made = command("sweep", table, "--gpu", "a100-sxm", *extra)
    assert made.returncode == 2
    assert len(made.stderr.strip().splitlines()) == 1


@given(st.lists(st.floats(1.0, 10.0), min_size=2, max_size=30))
def test_the_choice_costs_no_more_than_a_tie_and_is_the_fastest_there(energies: list[float]) -> None:
    cost = np.array(energies)
    time = np.arange(len(cost), 0, -1.0)
    at = least(cost, time)
    assert cost[at] <= cost.min() * (1.0 + TIE)
    assert (cost[at + 1 :] > cost.min() * (1.0 + TIE)).all()


def test_what_a_point_saves_is_against_the_base_with_errors_they_share_in_part() -> None:
    """Nine tenths of two points' relative errors go together: s^2 = a^2 + b^2 - 2 * 0.9 a b."""
    base = {"energy_j": 200.0, "energy_low_j": 180.0, "energy_high_j": 220.0}
    row = {"energy_j": 150.0, "energy_low_j": 141.0, "energy_high_j": 159.0}
    half = 0.75 * (0.06**2 + 0.1**2 - 2 * 0.9 * 0.06 * 0.1) ** 0.5
    assert gain_interval(row, base) == pytest.approx((0.25, 0.25 - half, 0.25 + half))
    assert gain_interval(dict(base), base) == (0.0, 0.0, 0.0)
    assert gain_interval(row, {**base, "energy_j": 0.0}) == (0.0, 0.0, 0.0)
    nothing = {"energy_j": 0.0, "energy_low_j": 0.0, "energy_high_j": 0.0}
    assert gain_interval(nothing, base) == pytest.approx((1.0, 1.0, 1.0))


def test_a_family_saves_at_its_own_clock_with_errors_two_clocks_share_in_part() -> None:
    """8 mJ +- 10 % for 10 +- 20 %, twice as slow; the copy is best where it is."""
    table: Any = SimpleNamespace(
        frame=pl.DataFrame(
            {"family": ["gemm", "gemm", "copy", "copy"], "clock_mhz": [900.0, 1400.0] * 2,
             "duration_us": [20.0, 10.0, 5.0, 5.0], "energy_mj": [8.0, 10.0, 40.0, 30.0],
             "energy_low_mj": [7.2, 8.0, 40.0, 30.0], "energy_high_mj": [8.8, 12.0, 40.0, 30.0]}
        ),
        totals=[{"clock_mhz": 900.0, "energy_j": 0.06}, {"clock_mhz": 1400.0, "energy_j": 0.05}],
    )  # fmt: skip
    copy, gemm = family_choices(table, 1400.0, 0.05, 0.9).iter_rows(named=True)
    half = 0.8 * (0.1**2 + 0.2**2 - 2 * 0.9 * 0.1 * 0.2) ** 0.5
    saved = [gemm[f"energy_saved{end}"] for end in ("", "_low", "_high")]
    assert saved == pytest.approx([0.2, 0.2 - half, 0.2 + half])
    assert (gemm["best_clock_mhz"], gemm["slowdown"], gemm["share"]) == pytest.approx((900.0, 1.0, 0.2))
    assert (gemm["within_clock_mhz"], gemm["within_saved"]) == (1400.0, 0.0)
    assert [copy[f"energy_saved{end}"] for end in ("", "_low", "_high")] == [0.0, 0.0, 0.0]


def test_many_clocks_leave_the_screen_to_the_best_which_are_shown(table: Path, command: Tool) -> None:
    made = command("sweep", table, "--gpu", "a100-sxm", COLUMNS="100")
    points, best = made.stdout.split("Best operating points")
    clocks = [line.split()[0] for line in points.splitlines() if line.endswith(("█", "*"))][1:]
    assert len(clocks) <= 16
    assert re.search(r"^\d+ more points \(use -o FILE or --json\)$", points, re.MULTILINE)
    goals = [line for line in best.splitlines() if line.startswith(("least", "at most"))]
    assert goals
    assert {re.split(r"  +", line)[1] for line in goals} <= set(clocks)
    assert re.search(r"\d % \(-?[\d.]+\.\.-?[\d.]+\)", best)


def test_every_cap_that_is_asked_for_is_shown(table: Path, command: Tool) -> None:
    made = command("sweep", table, "--gpu", "a100-sxm", "--power-cap", "200,250,300", COLUMNS="100")
    assert re.findall(r"^ +1410 +(200|250|300) ", made.stdout, re.MULTILINE) == ["200", "250", "300"]
