"""How a sweep looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracetool.report.sentences import open_console, say
from tracetool.report.terminal.prediction import number

if TYPE_CHECKING:
    from tracetool.replay.sweep import Swept

_BAR = 28
#: Columns of the figures beside the bars.
_FIGURES = 54
_SHOWN = 45


def print_swept(swept: Swept, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print the points as a chart, the best of them, the families and the notes."""
    from rich.markup import escape

    from tracetool.report.layout import Table

    screen = open_console()
    grid = Table(title=f"Energy over clocks on {swept.gpu}")
    for head in ("clock MHz", "cap W", "makespan ms", "energy J", "mean W"):
        grid.add_column(head, justify="right")
    grid.add_column("* Pareto-optimal")
    most_bar = max(min(_BAR, screen.width - _FIGURES), 8)
    rows = swept.points.to_dicts()
    most = max((r["energy_j"] for r in rows), default=1.0) or 1.0
    for row in rows[:: max(1, -(-len(rows) // _SHOWN))]:
        bar = "█" * max(1, round(most_bar * row["energy_j"] / most)) + (" *" if row["pareto"] else "")
        cap = "" if row["power_cap_w"] is None else f"{row['power_cap_w']:g}"
        grid.add_row(
            f"{row['clock_mhz']:g}",
            cap,
            number(row["makespan_ms"]),
            number(row["energy_j"]),
            f"{row['mean_power_w']:.1f}",
            bar,
        )
    screen.print(grid)
    grid = Table(title=f"Best operating points, against {swept.info['reference_mhz']:g} MHz (90 % interval)")
    for head in ("goal", "clock MHz", "cap W", "makespan ms", "energy J", "energy saved", "slowdown"):
        grid.add_column(head, justify="left" if head == "goal" else "right", about=head == "slowdown")
    for row in swept.best.to_dicts():
        cap = "" if row["power_cap_w"] is None else f"{row['power_cap_w']:g}"
        grid.add_row(
            row["goal"],
            f"{row['clock_mhz']:g}",
            cap,
            number(row["makespan_ms"]),
            number(row["energy_j"]),
            _saved(row),
            f"{100 * row['slowdown']:.1f} %",
        )
    screen.print(grid)
    grid = Table(title="Each family alone, idle gaps excluded")
    for head in (
        "family",
        "share",
        "best MHz",
        "energy saved",
        "slowdown",
        "MHz within limit",
        "saved there",
    ):
        grid.add_column(head, justify="left" if head == "family" else "right")
    for row in swept.families.to_dicts():
        grid.add_row(
            escape(str(row["family"])),
            f"{100 * row['share']:.1f} %",
            f"{row['best_clock_mhz']:g}",
            _saved(row),
            f"{100 * row['slowdown']:.1f} %",
            f"{row['within_clock_mhz']:g}",
            f"{100 * row['within_saved']:.1f} %",
        )
    screen.print(grid)
    for note in swept.notes:
        say(screen, f"note: {note}")
    for path in written:
        say(screen, f"wrote {path}")


def _saved(row: dict[str, Any]) -> str:
    low, high = 100 * row["energy_saved_low"], 100 * row["energy_saved_high"]
    return f"{100 * row['energy_saved']:.1f} % ({low:.1f}-{high:.1f})"
