"""How tasks over many jobs, and answers about them, look on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from tracetool.core.number_text import counted, number
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Failed jobs named at once.
_NAMED: Final = 10
#: Rows of each question where several are answered at once.
_EACH: Final = 5
#: Shares here are of all jobs, not of one run.
_OF_ALL: Final = {"share_pct": "of all"}
#: What a table of savings is for: the clock to set.
_ABOUT: Final = ("clock_mhz",)
#: A measured share above this is all of the energy. [%] Rounding.
_WHOLE_PCT: Final = 99.95


def print_jobs(
    where: str,
    task: str,
    done: int,
    skipped: int,
    failed: Mapping[str, str],
    kernels: int,
    seconds: float,
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


def print_notes(notes: Sequence[str]) -> None:
    """Print sentences on what was left out."""
    screen = open_console()
    for note in notes:
        say(screen, note, "yellow")


def print_reasons(
    reasons: Mapping[str, Mapping[str, str]], written: Sequence[str | os.PathLike[str]]
) -> None:
    """Print why jobs have no energy, or none measured, each reason once with its jobs, and files written.

    ``reasons`` holds, by what became of them, the reason of each job.
    """
    screen = open_console()
    for fate, of_jobs in reasons.items():
        by_reason: dict[str, list[str]] = {}
        for job, reason in of_jobs.items():
            by_reason.setdefault(reason, []).append(job)
        for reason, jobs in by_reason.items():
            several = f" ({counted(len(jobs), 'job')} in all)" if len(jobs) > 1 else ""
            say(screen, f"{fate}: {jobs[0]}{several}: {reason}", "yellow")
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
    bounded = " (90 % interval)" if any("_low" in column for column in table.columns) else ""
    say(screen, f"{title}{bounded}" if table.height else f"{title}: none", "bold")
    if "question" in shown.columns:  # each has the whole of the energy
        for (question,), rows in shown.group_by("question", maintain_order=True):
            answer = rows.drop("question")
            show_table(answer, title=str(question), limit=_EACH, console=screen, headers=_OF_ALL)
    elif table.height:
        show_table(shown, console=screen, headers=_OF_ALL, about=_ABOUT)
    if "measured_pct" in table.columns and table["energy_j"].count():
        say(screen, _measured_share(table))
    for path in written:
        say(screen, f"wrote {path}")


def _measured_share(table: pl.DataFrame) -> str:
    """Return what the energies of a table rest on, in a sentence."""
    energy = float(table["energy_j"].sum())
    weighted = float((table["energy_j"] * table["measured_pct"]).sum())
    share = weighted / energy if energy else 0.0
    if share > _WHOLE_PCT:
        return "All of this energy is measured by power logs"
    if share <= 0.0:
        return "All of this energy is predicted: no power log determines it"
    return f"Power logs measure {number(share, 3)} % of this energy; the rest is predicted"
