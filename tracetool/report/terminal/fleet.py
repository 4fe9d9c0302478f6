"""How tasks over many jobs, and answers about them, look on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from tracetool.core.figures import counted, number
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Failed jobs named at once.
_NAMED: Final = 10


def print_jobs(
    where: str,
    task: str,
    done: int,
    skipped: int,
    failed: Mapping[str, str],
    kernels: int,
    seconds: float,
    written: Sequence[str | os.PathLike[str]],
) -> None:
    """Print how many jobs were done, and the failed ones with the reason."""
    screen = open_console()
    speed = f"; {done / seconds:.1f} jobs/s" if done and seconds else ""
    counted_kernels = f", {kernels:,} kernels" if kernels else ""
    say(
        screen,
        f"{where}: {task} of {counted(done, 'job')} done{counted_kernels} in {number(seconds, 3)} s{speed};"
        f" {skipped} done before, {len(failed)} failed",
    )
    for job, reason in list(failed.items())[:_NAMED]:
        say(screen, f"failed: {job}: {reason}", "yellow")
    if len(failed) > _NAMED:
        say(screen, f"{len(failed) - _NAMED} more failed: -o FILE lists them", "dim")
    for path in written:
        say(screen, f"wrote {path}")


def print_answer(title: str, table: pl.DataFrame, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print a question's answer."""
    screen = open_console()
    shown = table
    if "share" in table.columns:
        share = (100.0 * pl.col("share")).alias("share_pct")
        shown = table.with_columns(share).select(
            "name", "energy_j", "energy_low_j", "energy_high_j", "share_pct",
            pl.exclude("name", "energy_j", "energy_low_j", "energy_high_j", "share_pct", "share"),
        )  # fmt: skip
    if "name" in shown.columns:
        shown = shown.with_columns(pl.col("name").fill_null("(not known)"))
    say(screen, title if table.height else f"{title}: none", "bold")
    if table.height:
        show_table(shown, console=screen)
    for path in written:
        say(screen, f"wrote {path}")
