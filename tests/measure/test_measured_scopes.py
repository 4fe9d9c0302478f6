"""Measured energies of kernels, copies and gaps of a run written down here, added up by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest

from tracetool.measure.measured_scopes import idle_outside_line, idle_watts, measured_scopes, scopes_line
from tracetool.measure.own_time import with_own_time
from tracetool.measure.signature_sums import SignatureSums
from tracetool.measure.timeline import ACTIVE_IDLE, IDLE
from tracetool.tables.run import Run

S = 1_000_000_000


class Stub:
    """Two kernels of 1 s, 3 s apart, and a copy of 0.5 s right after the second."""

    path = Path("run")
    info: dict[str, object] = {}  # noqa: RUF012
    memo: dict[object, object] = {}  # noqa: RUF012
    kernels = pl.DataFrame(
        {
            "name": ["k", "k", "c"],
            "device": [0, 0, 0],
            "start_ns": [0, 4 * S, 5 * S],
            "duration_ns": [S, S, S // 2],
        }
    )
    signatures = pl.DataFrame(
        {
            "signature": [0, 1],
            "kind": ["kernel", "memcpy"],
            "launches": [2, 1],
            "duration_ns": [2 * S, S // 2],
        }
    )


def _energy() -> pl.DataFrame:
    """Kernels 200 W, copies 100 W, soon after an activity 80 W, later 50 W; ends a tenth off."""
    watts = {
        "k": (0, 200.0, 2.0),
        "c": (1, 100.0, 0.5),
        ACTIVE_IDLE: (None, 80.0, 10.0),
        IDLE: (None, 50.0, 20.0),
    }
    return pl.DataFrame(
        [
            {
                "class": name, "signature": signature, "duration_ns": int(seconds * S),
                "energy_j": power * seconds, "energy_low_j": 0.9 * power * seconds,
                "energy_high_j": 1.1 * power * seconds, "power_w": power,
                "power_low_w": 0.9 * power, "power_high_w": 1.1 * power, "device": 0,
            }
            for name, (signature, power, seconds) in watts.items()
        ],
        schema_overrides={"signature": pl.UInt32},
    )  # fmt: skip


def test_scopes_are_what_their_seconds_and_watts_give() -> None:
    """400 J of kernels, 50 J of the copy; 3 s between, one of them at 80 W and two at 50 W."""
    scopes = measured_scopes(cast("Run", Stub()), _energy())
    told = {name: (one["launches"], one["time_ms"], one["energy_j"]) for name, one in scopes.items()}
    assert told == {
        "kernels": (2, 2000.0, pytest.approx(400.0)),
        "copies": (1, 500.0, pytest.approx(50.0)),
        "gaps": (1, pytest.approx(3000.0), pytest.approx(180.0)),
        "run": (3, pytest.approx(5500.0), pytest.approx(630.0)),
    }
    for one in scopes.values():
        assert one["measured_pct"] == pytest.approx(100.0)
        assert one["power_w"] == pytest.approx(1e3 * one["energy_j"] / one["time_ms"])
        assert one["energy_low_j"] == pytest.approx(0.9 * one["energy_j"])
        assert one["power_high_w"] == pytest.approx(1.1 * one["power_w"])


def test_kernels_that_overlap_are_measured_whole_in_the_sum_of_their_times() -> None:
    """The second kernel and the copy share a half of its second: attribution gives each half of that half."""

    class Overlapping(Stub):
        memo: dict[object, object] = {}  # noqa: RUF012
        kernels = Stub.kernels.with_columns(
            start_ns=pl.Series([0, 4 * S, 9 * S // 2]), signature=pl.Series([0, 0, 1])
        )

    own = _energy()
    shared_s = pl.when(pl.col("class") == "k").then(1.75).when(pl.col("class") == "c").then(0.25)
    shared = own.with_columns((S * shared_s).cast(pl.Int64).alias("shared"))
    shared = shared.with_columns(pl.coalesce("shared", "duration_ns").alias("duration_ns")).drop("shared")
    run = cast("Run", Overlapping())
    assert with_own_time(run, shared).equals(own)
    scopes = measured_scopes(run, shared)
    told = {name: (one["time_ms"], one["measured_pct"], one["energy_j"]) for name, one in scopes.items()}
    assert told["kernels"] == pytest.approx((2000.0, 100.0, 400.0))
    assert told["copies"] == pytest.approx((500.0, 100.0, 50.0))
    assert told["run"] == pytest.approx((5000.0, 100.0, 630.0))
    assert scopes["kernels"]["power_w"] == pytest.approx(200.0)


def test_gaps_of_a_gpu_without_readings_are_not_measured() -> None:
    """A second GPU runs beside the first for 1 s and idles for 4: 3 s of 7 are measured."""

    class Two(Stub):
        memo: dict[object, object] = {}  # noqa: RUF012
        second = pl.DataFrame({"name": ["k"], "device": [1], "start_ns": [0], "duration_ns": [S]})
        kernels = pl.concat([Stub.kernels.with_columns(duration_ns=pl.Series([S, S, 0])), second])

    gaps = measured_scopes(cast("Run", Two()), _energy())["gaps"]
    assert (gaps["time_ms"], gaps["measured_pct"]) == pytest.approx((7000.0, 300.0 / 7.0))
    assert gaps["energy_j"] == pytest.approx(180.0)


def test_intervals_of_sums_take_the_place_of_sums_of_ends() -> None:
    scopes = measured_scopes(cast("Run", Stub()), _energy(), half_shares={"run": 0.05, "copies": 1.5})
    assert (scopes["run"]["energy_low_j"], scopes["run"]["energy_high_j"]) == pytest.approx((598.5, 661.5))
    assert (scopes["copies"]["energy_low_j"], scopes["copies"]["power_high_w"]) == pytest.approx((0.0, 250.0))
    assert scopes["kernels"]["energy_low_j"] == pytest.approx(360.0)


def test_errors_of_a_scope_are_those_of_its_own_signatures() -> None:
    """A second of each signature: kernels are the first, copies the second, the run both and the gaps."""
    asked: dict[int, list[list[float]]] = {}

    def work_seconds(parts: pl.DataFrame, names: list[str]) -> dict[int, np.ndarray]:
        seconds = np.zeros((len(names), 4))
        for name, signature in parts.select("name", "signature").iter_rows():
            seconds[names.index(name), signature] = 1.0
        return {0: seconds}

    def half_shares(seconds: dict[int, np.ndarray]) -> np.ndarray:
        asked.update({device: rows.tolist() for device, rows in seconds.items()})
        return np.array([0.1, 0.2, 0.3, 0.4])

    sums = SimpleNamespace(classes={0: None}, work_seconds=work_seconds, half_shares=half_shares)
    scopes = measured_scopes(cast("Run", Stub()), _energy(), cast("SignatureSums", sums))
    assert asked == {0: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2], [1, 1, 1, 2]]}
    high = {name: one["energy_high_j"] / one["energy_j"] for name, one in scopes.items()}
    assert high == pytest.approx({"kernels": 1.1, "copies": 1.2, "gaps": 1.3, "run": 1.4})


def test_without_a_log_there_is_time_alone() -> None:
    scopes = measured_scopes(cast("Run", Stub()), None)
    assert scopes == {
        "kernels": {"launches": 2, "time_ms": 2000.0, "measured_pct": 0.0},
        "copies": {"launches": 1, "time_ms": 500.0, "measured_pct": 0.0},
    }


def test_a_run_with_kernels_left_out_has_no_energy_of_the_whole() -> None:
    half = _energy().with_columns(
        pl.when(pl.col("class") == "k")
        .then(pl.col("duration_ns") // 2)
        .otherwise("duration_ns")
        .alias("duration_ns")
    )
    scopes = measured_scopes(cast("Run", Stub()), half)
    assert scopes["kernels"]["measured_pct"] == pytest.approx(50.0)
    assert set(scopes) == {"kernels", "copies", "gaps"}


def test_without_time_far_from_work_its_power_is_that_of_the_gaps() -> None:
    near, far = idle_watts(_energy().filter(pl.col("class") != IDLE)) or ((), ())
    assert near == far == pytest.approx((80.0, 72.0, 88.0))
    assert idle_watts(_energy().filter(pl.col("class") != ACTIVE_IDLE)) is None


def test_a_run_that_the_log_covers_in_part_says_why_it_has_no_energy() -> None:
    part, whole = ({"time_ms": 9.0, "measured_pct": pct, "energy_j": 3.0} for pct in (41.4, 100.0))
    assert scopes_line({"kernels": part, "copies": whole, "gaps": whole}) == (
        "run: no energy of the whole run, the log covers 41 % of the time of kernels"
    )
    assert "shows no idle power" in scopes_line({"kernels": whole})
    assert not scopes_line({})


def test_idle_energy_outside_the_run_is_said_for_its_rows_are_of_the_whole_log() -> None:
    """The rows of idle classes add up to more than the run where its log goes on."""
    rows = pl.DataFrame({"class": ["k", ACTIVE_IDLE, IDLE], "energy_j": [70.0, 20.0, 30.0]})
    scopes = {"gaps": {"energy_j": 10.0}, "run": {"energy_j": 80.0}}
    assert idle_outside_line(rows, scopes).endswith(
        "are of the whole log: 40.00 J of them lie outside the run"
    )
    assert not idle_outside_line(rows, scopes | {"gaps": {"energy_j": 49.9}})
    assert not idle_outside_line(rows, {"gaps": {"energy_j": 10.0}}), "no run to lie outside of"
