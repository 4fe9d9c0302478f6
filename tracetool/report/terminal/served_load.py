"""How the energy of a served load looks on the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

import polars as pl

from tracetool.core.interval import ENDS
from tracetool.core.number_text import number
from tracetool.report.sentences import open_console, say


def print_requests(
    phases: pl.DataFrame, notes: Sequence[str], written: Sequence[str | os.PathLike[str]]
) -> None:
    """Print joules a token and a request of each phase, and what they rest on."""
    screen = open_console()
    for row in phases.iter_rows(named=True):
        kind = "input" if row["phase"] == "prefill" else "output"
        say(
            screen,
            f"{row['phase']}: {_span(row, 'energy', 'J')} for {number(row['tokens'])} {kind} tokens",
            "bold",
        )
        if row["energy_per_token_j"] is not None:
            per_joule = f"; {number(row['tokens_per_joule'])} tokens per J" if row["tokens_per_joule"] else ""
            say(screen, f"  {_span(row, 'energy_per_token', f'J per {kind} token')}{per_joule}")
        if row["energy_per_request_j"] is not None:
            say(screen, f"  {_span(row, 'energy_per_request', 'J per request')}, {row['requests']} finished")
    for note in notes:
        say(screen, f"note: {note}", "dim")
    for path in written:
        say(screen, f"wrote {path}")


def _span(row: dict[str, object], stem: str, unit: str) -> str:
    """Return a value with its unit and interval."""
    values = [row[f"{stem}{end}_j"] for end in ENDS]
    if not all(isinstance(v, float) for v in values):
        return f"the log resolves no {unit}"
    middle, low, high = (number(float(str(v))) for v in values)
    return f"{middle} {unit} (90 %: {low} to {high})"
