"""How classified kernels, and the tokens of one name, look on the console."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tracetool.core.number_text import share
from tracetool.report.layout import Table
from tracetool.report.sentences import open_console, say


def print_families(shares: pl.DataFrame, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print the share of each family in time, or in rows where no times are known."""
    from rich.markup import escape

    timed = "time_ms" in shares.columns
    total = float(shares["time_ms"].sum()) if timed else float(shares["rows"].sum())
    grid = Table("family")
    for heading in (
        "of time" if timed else "of rows",
        *(["time ms"] if timed else []),
        "launches" if timed else "rows",
        "names",
    ):
        grid.add_column(heading, justify="right")
    for row in shares.iter_rows(named=True):
        pct = 100.0 * (row["time_ms"] if timed else row["rows"]) / total if total else 0.0
        times = [f"{row['time_ms']:,.3f}"] if timed else []
        grid.add_row(
            escape(row["family"]), f"{share(pct)} %", *times, f"{row['rows']:,}", f"{row['names']:,}"
        )
    screen = open_console()
    screen.print(grid)
    for path in written:
        say(screen, f"wrote {path}")


def print_explained(explained: Mapping[str, Any], written: Sequence[str | os.PathLike[str]]) -> None:
    """Print the tokens of a name and what they state."""
    from rich.markup import escape

    screen = open_console()
    say(screen, f"library  {explained['title']}")
    say(screen, f"source   {explained['source']}")
    grid = Table("token", all_with="--json")
    grid.add_column("means", prose=True)
    for token, meaning in explained["tokens"]:
        grid.add_row(escape(token), escape(meaning))
    screen.print(grid)
    facts = Table("attribute", "value", all_with="--json")
    facts.add_column("what it is", prose=True)
    for fact in explained["attributes"]:
        facts.add_row(escape(fact["attribute"]), escape(str(fact["value"])), escape(fact["meaning"]))
    screen.print(facts)
    for path in written:
        say(screen, f"wrote {path}")
