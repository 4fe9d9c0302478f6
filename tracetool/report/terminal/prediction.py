"""How predictions look on the console."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tracetool.core.number_text import counted, share
from tracetool.core.number_text import number as significant
from tracetool.replay.gap_causes import WORDS
from tracetool.report.layout import rank_of
from tracetool.report.sentences import coverage_line, open_console, say

if TYPE_CHECKING:
    import polars as pl

#: Clocks shown on the console; all of them are in the file and the JSON document.
_SHOWN = 40
#: Columns of rows that are for files: keys and what another column says already.
_FILE_ONLY = {"signature", "kind", "inferred", "clock_actual_mhz", "flops", "throttled", "recorded_time_ms"}
#: Headings of rates achieved.
_HEADINGS = {
    "tflops": "TFLOP/s", "tbps": "TB/s", "flop_per_byte": "FLOP/B", "gflop_per_joule": "GFLOP/J",
    "roofline_share": "of roof",
}  # fmt: skip
#: Units a thousand apart; the middle one unless figures get longer than five digits or below a tenth.
_TIMES = ("µs", "ms", "s")
_ENERGIES = ("mJ", "J", "kJ")
_SHORTEST, _LONGEST = 0.1, 1e5
#: What times rest on that are not the measured ones, by ``anchor``.
_ANCHORS = {"others": "from others"}
_REASONS = {reason.name.lower(): word for reason, word in WORDS.items()}


class Predicted(Protocol):
    """Output of the prediction of a table or a run."""

    @property
    def gpu(self) -> str:
        """Name of the GPU."""

    @property
    def totals(self) -> list[dict[str, Any]]:
        """One record per clock."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""


def print_totals(
    predicted: Predicted,
    coverage: Mapping[str, float],
    written: Sequence[str | os.PathLike[str]],
    anchor: str = "",
) -> None:
    """Print the totals of every clock, the parts of the energy, the gaps and the notes.

    ``anchor`` is what was asked for, where the measured times were not scaled.
    """
    from tracetool.report.layout import Table

    shown = predicted.totals[:_SHOWN]
    scaled = bool(shown) and bool(shown[0]["anchored"])
    times_from = "anchored" if scaled else _ANCHORS.get(anchor, "unanchored")
    title = f"Predicted on {predicted.gpu}, {times_from} (90 % interval)"
    grid = Table(title=title, all_with="--json")
    time, times = _unit((t["makespan_ms"] for t in shown), _TIMES)
    joules, energies = _unit((t["energy_j"] for t in shown), _ENERGIES)
    heads = (f"kernels {time}", f"makespan {time}", f"energy {joules}", "mean W", "peak W", "throttled")
    for head in ("clock MHz", *heads):
        grid.add_column(head, justify="right")
    for t in shown:
        grid.add_row(
            f"{t['clock_mhz']:g}",
            number(t["kernel_time_ms"] * times),
            _with_range(t, "makespan", "ms", times),
            _with_range(t, "energy", "j", energies),
            f"{t['mean_power_w']:,.1f}",
            f"{t['peak_power_w']:,.1f}",
            f"{100 * t['throttled_share']:.0f} %",
        )
    screen = open_console()
    screen.print(grid)
    if len(predicted.totals) > _SHOWN:
        say(screen, f"{counted(len(predicted.totals) - _SHOWN, 'more clock')} (use -o FILE or --json)")
    say(screen, coverage_line(coverage))
    _print_scopes(shown)
    _print_devices(shown)
    _print_shares(shown)
    if shown and "gaps_ms" in shown[0]:
        _print_gaps(shown)
    for note in predicted.notes:
        say(screen, f"note: {note}")
    for path in written:
        say(screen, f"wrote {path}")


def _print_devices(totals: Sequence[dict[str, Any]]) -> None:
    """Print the totals of each GPU, where there are several."""
    from tracetool.report.layout import Table

    if not totals or len(totals[0].get("devices", ())) < 2:
        return
    records = [(t["clock_mhz"], d) for t in totals for d in t["devices"]][:_SHOWN]
    time, times = _unit((d["busy_ms"] for _, d in records), _TIMES)
    joules, energies = _unit((d["energy_j"] for _, d in records), _ENERGIES)
    grid = Table(title="Each GPU (above: all of them together)", all_with="--json")
    for head in ("clock MHz", "GPU", f"busy {time}", f"energy {joules}", "mean W", "peak W"):
        grid.add_column(head, justify="right")
    for clock, d in records:
        grid.add_row(
            f"{clock:g}",
            str(d["device"]),
            number(d["busy_ms"] * times),
            number(d["energy_j"] * energies),
            f"{d['mean_power_w']:,.1f}",
            f"{d['peak_power_w']:,.1f}",
        )
    open_console().print(grid)


def number(value: float) -> str:
    """Return a number as other commands do: four digits, thousands separated, tiny ones with six decimals."""
    return significant(value) if value == 0 or abs(value) >= 1e-3 else significant(value, 3, 6)


def _with_range(record: dict[str, Any], stem: str, unit: str, factor: float) -> str:
    low, high = (number(record[f"{stem}_{end}_{unit}"] * factor) for end in ("low", "high"))
    return f"{number(record[f'{stem}_{unit}'] * factor)} ({low}..{high})"


def _unit(values: Iterable[float], units: tuple[str, str, str]) -> tuple[str, float]:
    """Return the unit in which the largest value is short, and the factor to it; the middle one as a rule."""
    largest = max((abs(v) for v in values), default=0.0)
    small, usual, large = units
    if largest >= _LONGEST:
        return large, 1e-3
    return (small, 1e3) if 0.0 < largest < _SHORTEST else (usual, 1.0)


def _print_scopes(totals: Sequence[dict[str, Any]]) -> None:
    """Print what the run's time and energy are made of."""
    from tracetool.report.layout import Table

    grid = Table(title="Time and energy by scope: ms (J)", all_with="--json")
    for head in ("clock MHz", "kernels", "copies", "gaps", "run"):
        grid.add_column(head, justify="right")
    keys = (
        ("kernel_time_ms", "kernel_energy_j"),
        ("copy_time_ms", "copy_energy_j"),
        ("gap_ms", "gap_energy_j"),
        ("makespan_ms", "energy_j"),
    )
    for t in totals:
        cells = (f"{number(t[time])} ({number(t[energy])})" for time, energy in keys)
        grid.add_row(f"{t['clock_mhz']:g}", *cells)
    open_console().print(grid)


def _print_shares(totals: Sequence[dict[str, Any]]) -> None:
    from tracetool.report.layout import Table

    names = list(totals[0]["energy_parts_j"]) if totals else []
    grid = Table(title="Where the energy goes", all_with="--json")
    for head in ("clock MHz", *names):
        grid.add_column(head, justify="right")
    for t in totals:
        total_j = t["energy_j"] or 1.0
        grid.add_row(
            f"{t['clock_mhz']:g}", *(f"{share(100 * t['energy_parts_j'][n] / total_j)} %" for n in names)
        )
    open_console().print(grid)


def _print_gaps(totals: Sequence[dict[str, Any]]) -> None:
    from tracetool.report.layout import Table

    names = [n for n in totals[0]["gaps_ms"] if any(t["gaps_ms"][n] for t in totals)]
    if not names:
        return
    heads = [_REASONS.get(n, n) for n in names]
    grid = Table(title="Idle gaps: ms (J)", all_with="--json")
    for head in ("clock MHz", *heads):
        grid.add_column(head, justify="right")
    for t in totals:
        cells = (f"{number(t['gaps_ms'][n])} ({number(t['gaps_j'][n])})" for n in names)
        grid.add_row(f"{t['clock_mhz']:g}", *cells)
    open_console().print(grid)


def print_rows(table: pl.DataFrame) -> None:
    """Print the first rows of a breakdown: what names the row, energy, share, time, then the rest."""
    import polars as pl

    from tracetool.report.console import show_table
    from tracetool.report.terminal.cost import scaled_prices

    table, prices = scaled_prices(table)
    nested = {"path", "depth", "name"} <= set(table.columns)
    if nested:
        lead = pl.lit("  ").repeat_by(pl.col("depth").clip(0, 12)).list.join("")
        table = table.with_columns(pl.concat_str(lead, "name").alias("name")).drop("path", "depth")
    left_out = [c for c in table.columns if c in _FILE_ONLY or c.startswith("util_") or c.endswith("_bytes")]
    shown = table.drop(left_out)
    if shown["clock_mhz"].n_unique() < 2 and "name" in shown.columns:
        shown = shown.drop("clock_mhz")
    leading = ["clock_mhz", "name", "iteration", "family", "reason", "device", "time_ms"]
    order = {c: leading.index(c) if c in leading else len(leading) + rank_of(c) for c in shown.columns}
    ordered = sorted(order, key=lambda column: order[column])
    show_table(shown.select(ordered), limit=_SHOWN, headers={**_HEADINGS, **prices}, console=open_console())
    if left_out:
        named = ": utilization, operations, bytes" if "flops" in left_out else ""
        say(open_console(), f"{counted(len(left_out), 'more column')} with -o FILE{named}")
