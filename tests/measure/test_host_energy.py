"""Energy of sockets and nodes around the GPUs: exact where meters are, with intervals, else absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

from tracetool.measure.host_energy import REST, _without_gpus, host_energy

S = 10**9


@dataclass
class _Run:
    """The two tables that are read."""

    telemetry: pl.DataFrame
    kernels: pl.DataFrame

    def table(self, name: str) -> pl.DataFrame:
        assert name == "telemetry"
        return self.telemetry


def _rows(
    scope: str, times: np.ndarray[Any, Any], column: str, values: Any, source: str = "m", field: str = "f"
) -> pl.DataFrame:
    return pl.DataFrame(
        {"time_ns": (np.asarray(times) * S).astype(np.int64), "power_w": [None] * len(times),
         "energy_j": [None] * len(times), "scope": [scope] * len(times), "source": [source] * len(times),
         "field": [field] * len(times)},
        schema_overrides={"power_w": pl.Float64, "energy_j": pl.Float64},
    ).with_columns(pl.Series(column, values, dtype=pl.Float64))  # fmt: skip


def _run(*parts: pl.DataFrame, start: float = 10.0, end: float = 30.0) -> Any:
    kernels = pl.DataFrame({"start_ns": [int(start * S)], "duration_ns": [int((end - start) * S)]})
    return _Run(pl.concat(parts), kernels)


def test_power_and_counters_integrate_over_the_run_alone() -> None:
    time = np.arange(0.0, 41.0)
    rows, _ = host_energy(
        _run(
            _rows("node", time, "power_w", 500.0 + 10.0 * time),
            _rows("socket", time, "energy_j", 120.0 * time, field="package-0"),
            _rows("socket", time, "energy_j", 80.0 * time + 7.0, field="package-1"),
        ),
        {"energy_j": 6000.0, "energy_low_j": 5900.0, "energy_high_j": 6100.0},
    )
    energy = {r["scope"]: r["energy_j"] for r in rows}
    assert energy["node"] == pytest.approx((500 + 200) * 20.0)
    assert energy["socket"] == pytest.approx(200.0 * 20.0)
    assert energy[REST] == pytest.approx(energy["node"] - 6000.0)
    for row in rows:
        assert row["energy_low_j"] < row["energy_j"] < row["energy_high_j"]
        assert row["power_w"] == pytest.approx(row["energy_j"] / 20.0)


def test_a_counter_that_restarts_loses_that_second_alone() -> None:
    """100 W over 200 s, one reading a second: 1 s of 200 is unseen, within what a row may leave out."""
    time = np.arange(0.0, 241.0)
    joules = 100.0 * np.where(time > 100.0, time - 101.0, time)
    rows, _ = host_energy(_run(_rows("node", time, "energy_j", joules), start=20.0, end=220.0))
    assert rows[0]["energy_j"] == pytest.approx(100.0 * 199.0)
    short, notes = host_energy(_run(_rows("node", time, "energy_j", joules), start=90.0, end=110.0))
    assert short == []
    assert any("covers 95 %" in note for note in notes)


def test_intervals_hold_the_energy_of_steps_between_readings() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        edges = np.sort(rng.uniform(0.0, 40.0, 8))
        levels = rng.uniform(200.0, 900.0, 9)
        fine = np.arange(0.0, 40.0, 0.002)
        power = levels[np.searchsorted(edges, fine)]
        inside = (fine >= 10.0) & (fine < 30.0)
        truth = float(power[inside].sum() * 0.002)
        polls = np.arange(rng.uniform(0.0, 1.0), 40.0, 1.0)
        gain = 1.0 + 0.03 * rng.standard_normal()
        shown = gain * levels[np.searchsorted(edges, polls)]
        rows, _ = host_energy(_run(_rows("node", polls, "power_w", shown)))
        held += rows[0]["energy_low_j"] <= truth <= rows[0]["energy_high_j"]
    assert 170 <= held <= 196


def test_the_run_ends_with_its_last_kernel_and_rare_readings_are_named() -> None:
    """Kernels from 10 to 20 and from 25 to 30 s; a reading every 12 s shows no ups and downs of 20 s."""
    rare = _rows("node", np.arange(0.0, 49.0, 12.0), "power_w", np.full(5, 700.0))
    often = _rows("node", np.arange(0.0, 49.0, 8.0), "power_w", np.full(7, 700.0))
    kernels = pl.DataFrame({"start_ns": [10 * S, 25 * S], "duration_ns": [10 * S, 5 * S]})
    for rows, named in ((rare, True), (often, False)):
        told, notes = host_energy(_Run(rows, kernels))  # type: ignore[arg-type]
        assert told[0]["energy_j"] == pytest.approx(14_000.0)
        assert any("a reading every 12" in note for note in notes) == named
        assert any("not resolved" in note for note in notes) == named


def test_two_tools_on_one_node_are_not_added() -> None:
    time = np.arange(0.0, 41.0)
    one = _rows("node", time, "power_w", np.full(41, 700.0), "a.txt", "node.IPMI")
    other = _rows("node", time, "power_w", np.full(41, 710.0), "b.txt", "node.Redfish")
    rows, notes = host_energy(_run(one, other))
    assert [r["energy_j"] for r in rows] == pytest.approx([14_000.0])
    assert any("b.txt measure it too" in n for n in notes)
    second_host = _rows("node", time, "power_w", np.full(41, 710.0), "b.txt", "node.IPMI")
    assert host_energy(_run(one, second_host))[0][0]["energy_j"] == pytest.approx(28_200.0)


def test_a_meter_that_leaves_part_of_the_run_out_gives_no_energy() -> None:
    rows, notes = host_energy(_run(_rows("node", np.arange(15.0, 41.0), "power_w", np.full(26, 700.0))))
    assert rows == []
    assert any("covers 75 %" in n for n in notes)


def test_a_run_without_such_meters_has_no_rows() -> None:
    assert host_energy(_run(_rows("gpu", np.arange(41.0), "power_w", np.full(41, 1.0)))) == ([], [])


def test_the_rest_of_a_node_errs_as_the_node_and_its_gpus_do() -> None:
    """100 J, 10 less or 12 more, in 4 s; 60 of them the GPUs', 3 less or 4 more."""
    node = {"energy_j": 100.0, "energy_low_j": 90.0, "energy_high_j": 112.0, "power_w": 25.0, "meter": "m"}
    gpus = {"energy_j": 60.0, "energy_low_j": 57.0, "energy_high_j": 64.0}
    rest = _without_gpus(node, gpus)
    assert (rest["energy_j"], rest["power_w"], rest["meter"]) == (40.0, 10.0, "m")
    assert rest["energy_low_j"] == pytest.approx(40.0 - (10.0**2 + 4.0**2) ** 0.5)
    assert rest["energy_high_j"] == pytest.approx(40.0 + (12.0**2 + 3.0**2) ** 0.5)
    still = _without_gpus({**node, "energy_j": 0.0, "power_w": 0.0}, {**gpus, "energy_j": 0.0})
    assert still["power_w"] is None
