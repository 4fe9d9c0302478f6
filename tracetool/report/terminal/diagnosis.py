"""How a diagnosis looks on the console."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from tracetool.core import escape
from tracetool.report.console import show_table
from tracetool.report.diagnosis_page import energy_line
from tracetool.report.sentences import open_console, with_short_names

if TYPE_CHECKING:
    from rich.console import Console

    from tracetool.replay.diagnosis.findings import Finding
    from tracetool.replay.diagnosis.latent import LatentFactors
    from tracetool.replay.diagnosis.ledger import Ledger
    from tracetool.replay.diagnosis.what_if import WhatIfAnswer

#: Columns a kernel's name takes in a sentence, and a line of one at most, however wide the terminal.
_NAME: Final = 40
_LINE: Final = 80
#: Groups shown.
_GROUPS: Final = 20


#: Latent factors shown on the console; all of them are in the outputs.
_FACTORS: Final = (
    "name", "energy_j", "energy_low_j", "energy_high_j", "share", "time_ms", "busy_share", "occupancy",
    "roofline_share", "padding_share", "flop_per_byte", "gflop_per_joule", "gflop_per_joule_low",
    "gflop_per_joule_high", "static_j", "static_low_j", "static_high_j",
)  # fmt: skip


def print_diagnosis(
    booked: Ledger,
    findings: Sequence[Finding],
    written: Sequence[str | os.PathLike[str]],
    *,
    what_if: WhatIfAnswer | None = None,
    factors: LatentFactors | None = None,
) -> None:
    """Print the causes, highest energy first, then each finding with its evidence and its replay.

    Then what was asked: the run with something otherwise, and the latent factors of its groups.
    """
    screen = open_console()
    say_plain(screen, energy_line(booked), "bold")
    show_causes(screen, booked.totals, ("energy_j", "energy_low_j", "energy_high_j", "share", "time_ms"))
    for place, finding in enumerate(findings, start=1):
        say_numbered(screen, place, finding.sentences, [row["name"] for row in finding.evidence])
    if not findings and not booked.withheld:
        say_plain(screen, "0 causes take 1 % of the energy or more")
    if what_if is not None:
        *alone, joint = what_if.sentences
        for text in alone:
            say_plain(screen, f"what if {text}")
        say_plain(screen, f"what if {joint}", "bold")
    if factors is not None:
        show_table(
            factors.frame.select(_FACTORS),
            console=screen,
            headers={"name": ", ".join(factors.keys)},
            limit=_GROUPS,
        )
    say_basis(screen, (*booked.notes, *(() if what_if is None else what_if.notes)), written)


def show_causes(
    screen: Console, totals: pl.DataFrame, columns: Sequence[str], headers: Mapping[str, str] | None = None
) -> None:
    """Print joules by cause as a table, shares in percent."""
    percent = (100.0 * pl.col("share")).alias("share_pct")
    show_table(
        totals.select(pl.col("cause").alias("name"), *(percent if c == "share" else c for c in columns)),
        console=screen,
        headers={"name": "cause", **(headers or {})},
        limit=None,
    )


def say_basis(screen: Console, notes: Sequence[str], written: Sequence[str | os.PathLike[str]]) -> None:
    """Print what figures rest on, and what was written."""
    for note in notes:
        say_plain(screen, f"note: {note}", "dim")
    for path in written:
        say_plain(screen, f"wrote {path}")


def say_numbered(screen: Console, place: int, sentences: Sequence[str], names: Sequence[str]) -> None:
    """Print a finding: its claim in bold with its number, what shows it below; long names are cut."""
    first, *more = (_shorter(text, names) for text in sentences)
    say_plain(screen, f"{place}. {first}", "bold", "   ")
    for text in more:
        say_plain(screen, f"   {text}", "", "     ")


def say_plain(screen: Console, text: str, style: str = "", indent: str = "  ") -> None:
    """Print a sentence in lines of at most 80 columns; no word is cut."""
    from rich.text import Text

    lines = textwrap.wrap(
        text,
        min(_LINE, screen.width),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    for line in lines or [""]:
        screen.print(Text(line, style=style), soft_wrap=True)


def _shorter(text: str, names: Sequence[str]) -> str:
    """Return a sentence with the names in it cut."""
    return escape.terminal(with_short_names(text, names, _NAME), 400)
