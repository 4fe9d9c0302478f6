"""Fit the core voltage curves of architectures to public readings of clock and voltage.

usage: python benchmarks/fit_voltage.py [READINGS]      default: voltage_readings.csv beside this file

A curve belongs to the process and to the lowest voltage a card runs at, so the cards of one architecture
and segment are fitted together, each card counting alike, with a robust loss. Averages over many games, and
readings of cards slowed by their limit far below what others reach at that voltage, are not in the table:
they are no points of a curve.

Prints of each curve its numbers, the range of each over cards drawn anew (90 %), the spread between cards
and the residuals, then the clocks read in games over the rated boost clock. `architectures/*.toml` holds the
curves and `gpus/*.toml` the boost clocks, rounded.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import least_squares

from tracetool.calibrate.voltage_fit import fit_voltage_readings
from tracetool.core.arrays import Floats
from tracetool.hardware.load import load_gpu
from tracetool.hardware.names import asked_gpu
from tracetool.hardware.voltage import VoltageCurve

READINGS = Path(__file__).with_name("voltage_readings.csv")
#: Residual from which on a reading counts less: twice the step of a regulator, the spread in an average. [V]
USUAL_V = 0.015
#: Times cards are drawn anew.
DRAWS = 100
#: Knees a fit starts from.
STARTS = 4
NAMES = ("floor_v", "knee_mhz", "slope_v_per_ghz", "curve_v_per_ghz2")


@dataclass(frozen=True)
class Family:
    """Readings that share a curve: an architecture, its segments or one GPU, bounds of what is left open."""

    architecture: str
    segments: tuple[str, ...]
    knee_mhz: tuple[float, float]
    #: Readings of other segments count from this clock on, where their cards have left their floor. [MHz]
    others_from_mhz: float = np.inf
    #: Bounds of the first slope. [V/GHz]
    slope: tuple[float, float] = (0.0, 2.0)
    #: How the names of its GPUs begin, where the curve is for one of them alone.
    gpu: str = ""

    def rows(self, readings: pl.DataFrame) -> pl.DataFrame:
        """Return the readings of the family."""
        own = pl.col("segment").is_in(self.segments)
        return readings.filter(
            (pl.col("architecture") == self.architecture)
            & pl.col("gpu").str.starts_with(self.gpu)
            & (own | (pl.col("clock_mhz") >= self.others_from_mhz).fill_null(value=False))
        )


#: Where readings leave the knee open it is held: of the low-power Ada GPUs at what metered power says, with
#: its slope; of Turing and Pascal, of which only floor and top were read, up to 1 GHz, near GA10x;
#: of the RTX 5090 between the clocks of its table; of single cards near the guess of before.
FAMILIES = (
    Family("ada", ("geforce", "professional"), (1500, 2500)),
    Family("ada", ("low power",), (1540, 1541), others_from_mhz=2500, slope=(0.19, 0.191)),
    Family("ampere-ga10x", ("geforce", "professional"), (600, 1500)),
    Family("turing", ("geforce",), (800, 1000)),
    Family("pascal", ("geforce",), (800, 1000)),
    Family("blackwell-gb20x", ("geforce", "gb202"), (434, 2300)),
    Family("blackwell-gb20x", ("gb202",), (1875, 2100)),
    Family("rdna3", ("radeon",), (1280, 2000)),
    Family("rdna3", ("radeon",), (1280, 2000), gpu="RX 7900 XTX"),
    Family("rdna2", ("radeon",), (1317, 1783)),
    Family("vega20", ("radeon",), (892, 1208)),
)


def fitted(rows: pl.DataFrame, family: Family) -> VoltageCurve:
    """Return the curve through readings, robustly; a reading without a clock is one of the floor."""
    clock = rows["clock_mhz"].cast(pl.Float64).fill_null(0.0).to_numpy()
    volt = rows["voltage_v"].to_numpy()
    weight = 1.0 / np.sqrt(rows.select(pl.len().over("gpu")).to_series().to_numpy())
    start, _ = fit_voltage_readings(clock, volt)
    low, high = np.array([[0.55, 1.1], family.knee_mhz, family.slope, [0.0, 4.0]], np.float64).T
    first = [start.floor_v, start.knee_mhz, start.slope_v_per_ghz, start.curve_v_per_ghz2]

    def residual(x: Floats) -> Floats:
        return np.asarray(weight * (VoltageCurve(*x, 2.0, True).at(clock) - volt))

    best = min(
        (
            least_squares(
                residual,
                np.clip([first[0], knee, first[2], first[3]], low + 1e-6, high - 1e-6),
                bounds=(low, high),
                loss="soft_l1",
                f_scale=USUAL_V,
                x_scale=[0.1, 100.0, 0.3, 0.5],
            )
            for knee in np.linspace(*family.knee_mhz, STARTS)
        ),
        key=lambda found: float(found.cost),
    )
    return VoltageCurve(*(float(v) for v in best.x), float(volt.max()), True)


def numbers(curve: VoltageCurve) -> Floats:
    """Return the curve's four numbers."""
    return np.array([getattr(curve, name) for name in NAMES])


def report(family: Family, readings: pl.DataFrame) -> None:
    """Print the curve of a family."""
    rows = family.rows(readings)
    points = rows.filter(pl.col("state") != "highest")
    curve = fitted(points, family)
    cards = points["gpu"].unique(maintain_order=True).to_list()
    name = f"{family.architecture}, {family.gpu or ' and '.join(family.segments)}"
    print(f"\n{name}: {points.height} readings of {len(cards)} cards")
    rng = np.random.default_rng(25)
    draws = []
    for _ in range(DRAWS if len(cards) > 2 else 0):
        drawn = [points.filter(pl.col("gpu") == cards[i]) for i in rng.integers(0, len(cards), len(cards))]
        drawn = [part.with_columns(gpu=pl.lit(str(i))) for i, part in enumerate(drawn)]
        draws.append(numbers(fitted(pl.concat(drawn), family)))
    ends = np.quantile(draws, (0.05, 0.95), axis=0).T if draws else np.full((4, 2), np.nan)
    for name, value, (low, high) in zip(NAMES, numbers(curve), ends, strict=True):
        print(f"  {name:18s} {value:9.4f}   {low:9.4f} to {high:9.4f}")
    print(f"  {'max_v':18s} {rows['voltage_v'].max():9.4f}")
    points = points.with_columns(
        off=points["voltage_v"] - curve.at(points["clock_mhz"].cast(pl.Float64).fill_null(0.0).to_numpy()),
        flat=pl.col("clock_mhz").fill_null(0) <= curve.knee_mhz,
    )
    for flat, where in ((True, "up to the knee"), (False, "above it")):
        off = (
            points.filter(pl.col("flat") == flat).group_by("gpu").agg(pl.col("off").mean())["off"].to_numpy()
        )
        if len(off):
            spread = float(np.sqrt(np.mean(off**2)))
            ends = f"{1e3 * off.min():+.0f} to {1e3 * off.max():+.0f}"
            print(f"  cards {where}: {len(off)}, {1e3 * spread:.0f} mV about the curve, {ends}")
    for row in points.iter_rows(named=True):
        clock = "   -" if row["clock_mhz"] is None else f"{row['clock_mhz']:4d}"
        read = f"{row['voltage_v']:.3f} V  {1e3 * row['off']:+4.0f} mV"
        print(f"    {row['gpu']:28s} {clock} MHz  {read}  {row['state']}")


def rated_mhz(card: str) -> float | None:
    """Return the rated boost clock of the GPU a card's name begins with, None if no sheet states it. [MHz]"""
    words = card.replace(" GB", "GB").split()
    named = (asked_gpu(" ".join(words[:count])) for count in range(len(words), 1, -1))
    name = next((name for name in named if name), None)
    return load_gpu(name).clock_rated_mhz if name else None


def report_boost(readings: pl.DataFrame) -> None:
    """Print the clocks read in games over the rated one, of those above it: the others were held back."""
    games = readings.filter((pl.col("state") == "game") & (pl.col("segment") == "geforce"))
    rated = pl.Series("rated", [rated_mhz(card) for card in games["gpu"]], dtype=pl.Float64)
    games = games.with_columns(over=pl.col("clock_mhz") / rated).filter(pl.col("over") > 1)
    print("\nclock in games over the rated boost clock")
    for (name,), rows in games.group_by("architecture", maintain_order=True):
        low, high = rows["over"].min(), rows["over"].max()
        middle = f"median {rows['over'].median():.3f}, {low:.3f} to {high:.3f}"
        print(f"  {name:18s} {middle}, {rows.height} readings")


def main() -> None:
    """Print every curve, and how far cards exceed their rated clock."""
    readings = pl.read_csv(sys.argv[1] if len(sys.argv) > 1 else READINGS)
    for family in FAMILIES:
        report(family, readings)
    report_boost(readings)


if __name__ == "__main__":
    main()
