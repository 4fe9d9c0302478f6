"""How a sweep looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracetool.core.number_text import counted, share
from tracetool.report.sentences import open_console, say
from tracetool.report.terminal.prediction import number

if TYPE_CHECKING:
    from tracetool.replay.sweep import Swept

_BAR = 28
#: Columns of the figures beside the bars.
_FIGURES = 54
#: Points shown at most; of more, so many evenly over the clocks, and those that are named below them.
_SHOWN = 16
_EVENLY = 10


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
    shown = _points_shown(rows, swept)
    for row in shown:
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
    if len(shown) < len(rows):
        say(screen, f"{counted(len(rows) - len(shown), 'more point')} (use -o FILE or --json)", "dim")
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
        "of run",
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
            f"{share(100 * row['share'])} %",
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


def _points_shown(rows: Sequence[dict[str, Any]], swept: Swept) -> list[dict[str, Any]]:
    """Return so many points as leave the rest of a screen to the best of them, which are among them."""
    marks = {(row["clock_mhz"], row["power_cap_w"]) for row in swept.best.to_dicts()}
    marks.add((swept.info["reference_mhz"], None))
    even = len(rows) if len(rows) <= _SHOWN else _EVENLY
    places = {round(i * (len(rows) - 1) / max(even - 1, 1)) for i in range(even)}
    if sum(row["power_cap_w"] is not None for row in rows) <= _SHOWN:  # caps were asked for one by one
        places |= {i for i, row in enumerate(rows) if row["power_cap_w"] is not None}
    return [r for i, r in enumerate(rows) if i in places or (r["clock_mhz"], r["power_cap_w"]) in marks]


def _saved(row: dict[str, Any]) -> str:
    low, high = 100 * row["energy_saved_low"], 100 * row["energy_saved_high"]
    return f"{100 * row['energy_saved']:.1f} % ({low:.1f}..{high:.1f})"
