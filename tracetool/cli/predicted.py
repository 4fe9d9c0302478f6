"""How predictions look on the console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tracetool.cli.output import console
from tracetool.report.coverage import coverage_line
from tracetool.report.escape import terminal

#: Clocks shown on the console; all of them are in the file and the JSON document.
_SHOWN = 40
#: Units a thousand apart; the middle one unless figures get longer than five digits or below a tenth.
_TIMES = ("µs", "ms", "s")
_ENERGIES = ("mJ", "J", "kJ")
_SHORTEST, _LONGEST = 0.1, 1e5
_REASONS = {
    "host": "host-bound",
    "sync": "synchronisation",
    "communication": "communication",
    "dependency": "dependency",
    "tail": "tail",
    "unknown": "unexplained",
}


class Predicted(Protocol):
    """What is printed of a table or a run."""

    @property
    def gpu(self) -> str:
        """Name of the GPU."""

    @property
    def totals(self) -> list[dict[str, Any]]:
        """One record per clock."""

    @property
    def info(self) -> Mapping[str, Any]:
        """What was asked, and what is predicted from what."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""


def print_totals(made: Predicted, out: Path | None) -> None:
    """Print the totals of every clock, the parts of the energy, the gaps and the notes."""
    from rich.markup import escape
    from rich.table import Table

    shown = made.totals[:_SHOWN]
    scaled = bool(shown) and bool(shown[0]["anchored"])
    title = f"Predicted on {escape(made.gpu)}, {'anchored' if scaled else 'unanchored'} (90 % interval)"
    grid = Table(title=title, title_justify="left", box=None)
    time, times = _unit((t["makespan_ms"] for t in shown), _TIMES)
    joules, energies = _unit((t["energy_j"] for t in shown), _ENERGIES)
    heads = (f"kernels {time}", f"makespan {time}", f"energy {joules}", "mean W", "peak W", "throttled")
    for head in ("clock MHz", *heads):
        grid.add_column(head, justify="right", no_wrap=True)
    for t in shown:
        grid.add_row(
            f"{t['clock_mhz']:g}",
            number(t["kernel_time_ms"] * times),
            _with_range(t, "makespan", "ms", times),
            _with_range(t, "energy", "j", energies),
            f"{t['mean_power_w']:.1f}",
            f"{t['peak_power_w']:.1f}",
            f"{100 * t['throttled_share']:.0f} %",
        )
    screen = console()
    screen.print(grid)
    if len(made.totals) > _SHOWN:
        screen.print(f"... and {len(made.totals) - _SHOWN} more clocks (-o FILE or --json has them all)")
    screen.print(escape(coverage_line(made.info.get("coverage", {}))), soft_wrap=True)
    _print_scopes(shown)
    _print_devices(shown)
    _print_shares(shown)
    if shown and "gaps_ms" in shown[0]:
        _print_gaps(shown)
    for note in made.notes:
        screen.print(f"note: {escape(note)}", soft_wrap=True)
    if out is not None:
        screen.print(f"wrote {escape(str(out))}", soft_wrap=True)


def _print_devices(totals: Sequence[dict[str, Any]]) -> None:
    """Print the totals of each GPU, where there are several."""
    from rich.table import Table

    if not totals or len(totals[0].get("devices", ())) < 2:
        return
    records = [(t["clock_mhz"], d) for t in totals for d in t["devices"]][:_SHOWN]
    time, times = _unit((d["busy_ms"] for _, d in records), _TIMES)
    joules, energies = _unit((d["energy_j"] for _, d in records), _ENERGIES)
    grid = Table(title="Each GPU (above: all of them together)", title_justify="left", box=None)
    for head in ("clock MHz", "GPU", f"busy {time}", f"energy {joules}", "mean W", "peak W"):
        grid.add_column(head, justify="right", no_wrap=True)
    for clock, d in records:
        grid.add_row(
            f"{clock:g}",
            str(d["device"]),
            number(d["busy_ms"] * times),
            number(d["energy_j"] * energies),
            f"{d['mean_power_w']:.1f}",
            f"{d['peak_power_w']:.1f}",
        )
    console().print(grid)


def number(value: float) -> str:
    """Return a number with four significant digits, without exponent where that is short."""
    if 1e4 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.2e}"


def _with_range(record: dict[str, Any], stem: str, unit: str, factor: float) -> str:
    low, high = (number(record[f"{stem}_{end}_{unit}"] * factor) for end in ("low", "high"))
    return f"{number(record[f'{stem}_{unit}'] * factor)} ({low}-{high})"


def _unit(values: Iterable[float], units: tuple[str, str, str]) -> tuple[str, float]:
    """Return the unit in which the largest value is short, and the factor to it; the middle one as a rule."""
    largest = max((abs(v) for v in values), default=0.0)
    small, usual, large = units
    if largest >= _LONGEST:
        return large, 1e-3
    return (small, 1e3) if 0.0 < largest < _SHORTEST else (usual, 1.0)


def _print_scopes(totals: Sequence[dict[str, Any]]) -> None:
    """Print what the run's time and energy are made of."""
    from rich.table import Table

    grid = Table(title="Time and energy by scope: ms (J)", title_justify="left", box=None)
    for head in ("clock MHz", "kernels", "copies", "gaps", "run"):
        grid.add_column(head, justify="right", no_wrap=True)
    keys = (
        ("kernel_time_ms", "kernel_energy_j"),
        ("copy_time_ms", "copy_energy_j"),
        ("gap_ms", "gap_energy_j"),
        ("makespan_ms", "energy_j"),
    )
    for t in totals:
        cells = (f"{_little(t[time])} ({_little(t[energy])})" for time, energy in keys)
        grid.add_row(f"{t['clock_mhz']:g}", *cells)
    console().print(grid)


def _print_shares(totals: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    names = list(totals[0]["energy_parts_j"]) if totals else []
    grid = Table("clock MHz", *names, title="Where the energy goes", title_justify="left", box=None)
    for t in totals:
        whole = t["energy_j"] or 1.0
        grid.add_row(f"{t['clock_mhz']:g}", *(f"{100 * t['energy_parts_j'][n] / whole:.1f} %" for n in names))
    console().print(grid)


def _print_gaps(totals: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    names = [n for n in totals[0]["gaps_ms"] if any(t["gaps_ms"][n] for t in totals)]
    if not names:
        return
    heads = [_REASONS.get(n, n) for n in names]
    grid = Table("clock MHz", *heads, title="Idle gaps: ms (J)", title_justify="left", box=None)
    for t in totals:
        cells = (f"{_little(t['gaps_ms'][n])} ({_little(t['gaps_j'][n])})" for n in names)
        grid.add_row(f"{t['clock_mhz']:g}", *cells)
    console().print(grid)


def _little(value: float) -> str:
    return "<0.001" if 0.0 < value < 1e-3 else number(value)


def print_rows(table: Any) -> None:
    """Print the first rows of a breakdown."""
    from rich.table import Table
    from rich.text import Text

    screen = console()
    nested = "depth" in table.columns and "name" in table.columns
    columns = [c for c in table.columns if not (nested and c in {"path", "depth"})]
    grid = Table(box=None)
    for column in columns:
        text = column in {"name", "family", "reason", "bound", "kind", "basis"}
        grid.add_column(column, justify="left" if text else "right", no_wrap=True, overflow="ellipsis")
    for row in table.head(_SHOWN).iter_rows(named=True):
        cells = []
        for column in columns:
            value = row[column]
            lead = "  " * min(row["depth"], 12) if nested and column == "name" else ""
            cell = number(value) if isinstance(value, float) else terminal(str(value))
            cells.append(Text(lead + cell))
        grid.add_row(*cells)
    screen.print(grid)
    if table.height > _SHOWN:
        screen.print(f"... and {table.height - _SHOWN} more rows (-o FILE has them all)")
