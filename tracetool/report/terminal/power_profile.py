"""How the power profile of a kernel, and those of several, look on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence

import polars as pl
from rich.console import Console

from tracetool.measure.fingrav.campaign import Profiled, context_table, summary
from tracetool.measure.fingrav.side_by_side import SideBySide
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say


def print_profiled(profiled: Profiled, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print what the profile rests on, its curves, and power by what ran before."""
    screen = open_console()
    _say_golden(screen, profiled)
    for note in profiled.notes:
        say(screen, note)
    show_table(summary(profiled), console=screen)
    among = context_table(profiled)
    if among is not None:
        show_table(among, title="by what ran before", console=screen)
    for path in written:
        say(screen, f"wrote {path}")


def print_side_by_side(of: SideBySide, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print each kernel in a line, the components side by side and what sets the kernels apart."""
    screen = open_console()
    for one in of.profiles:
        _say_golden(screen, one)
    for sentence in of.sentences:
        say(screen, sentence)
    show_table(_by_component(of), limit=None, console=screen)
    if of.contexts is not None:
        show_table(of.contexts, title="by what ran before", limit=None, console=screen)
    for one in of.profiles:
        for note in one.notes:
            say(screen, f"{one.kernel}: {note}")
    for path in written:
        say(screen, f"wrote {path}")


def _by_component(of: SideBySide) -> pl.DataFrame:
    """Return one row per kernel and kind, a column of mean power per component with its interval."""
    columns = []
    for component in of.components:
        own = pl.col("component") == component
        name = component.replace("_w", "")
        columns += [
            pl.col(c).filter(own).first().alias(f"{name}{end}_w")
            for c, end in (("mean_w", ""), ("mean_low_w", "_low"), ("mean_high_w", "_high"))
        ]
    keys = ["kernel", "kind"]
    return of.frame.group_by(keys, maintain_order=True).agg(*columns)


def _say_golden(screen: Console, profiled: Profiled) -> None:
    fine = profiled.profile
    say(
        screen,
        f"{profiled.kernel}: {fine.duration_s * 1e6:.1f} us, {int(fine.golden.sum())} of {fine.runs}"
        f" runs golden (margin {fine.guide.margin:.0%}); steady from execution {fine.sse + 1} (time) and"
        f" {fine.ssp + 1} (power)",
    )
