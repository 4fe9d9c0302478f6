"""How the time budget of a run looks on the console."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tracetool.core.interval import ENDS
from tracetool.core.number_text import counted, number
from tracetool.measure.host_energy import host_lines
from tracetool.replay.energy_source import joules_by_source
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say
from tracetool.report.terminal.cost import beside_energy, print_tariff
from tracetool.tables.tariff import NO_TARIFF, Tariff

if TYPE_CHECKING:
    from tracetool.replay.energy_by import EnergyBy
    from tracetool.replay.time_budget import TimeBudget

_HEADERS: Final = {
    "name": "part",
    "power_w": "mean power",
    "energy_more_pct": "vs others",
    "wait_energy_j": "waiting",
    "wait_ms": "waiting",
    "caused_wait_energy_j": "others waited",
}


def budget_rows(budget: TimeBudget) -> pl.DataFrame:
    """Return the parts that took any time, the whole last, as people read them: energy and share first."""
    rows = budget.together().filter(pl.col("time_ms") > 0)
    return rows.select(
        pl.col("part").alias("name"),
        "energy_j",
        "energy_low_j",
        "energy_high_j",
        (100.0 * pl.col("share")).alias("share_pct"),
        "time_ms",
        (100.0 * pl.col("time_share")).alias("time_share_pct"),
        "power_w",
        "predicted_energy_j",
    )


def throttled_line(record: Mapping[str, Any]) -> str:
    """Return the throttled share of kernel time in a sentence."""
    share, low, high = (f"{100 * record[f'throttled_share{end}']:.0f}" for end in ENDS)
    where = "" if record["device"] is None else f" on GPU {record['device']}"
    return f"throttled for {share} % of kernel time (90 %: {low} to {high} %){where}, {record['source']}"


def gpu_rows(gpus: pl.DataFrame) -> pl.DataFrame:
    """Return the GPUs as people read them, highest energy at equal work first; waits where there are any."""
    rank = pl.when(pl.col("rank").is_not_null()).then(pl.format(" rank {}", "rank")).otherwise(pl.lit(""))
    waits = ("wait_energy_j", "wait_energy_low_j", "wait_energy_high_j", "wait_ms", "caused_wait_energy_j")
    more = [f"work_energy_more{end}_pct" for end in ENDS]
    shown = gpus.select(
        pl.concat_str(pl.format("GPU {}", "device"), rank).alias("name"),
        "energy_j",
        "energy_low_j",
        "energy_high_j",
        (100.0 * pl.col("share")).alias("share_pct"),
        *(waits if float(gpus["wait_ms"].sum()) > 0 else ()),
        *(pl.col(c).alias(c.removeprefix("work_")) for c in more),
    )
    return shown.drop(c for c in shown.columns if shown[c].null_count() == shown.height)


def print_budget(
    budget: TimeBudget, written: Sequence[str | os.PathLike[str]], tariff: Tariff = NO_TARIFF
) -> None:
    """Print the parts of a run."""
    screen = open_console()
    run_row = budget.together().row(-1, named=True)
    energy = ""
    if run_row["energy_j"] is not None:
        ends = f"{number(run_row['energy_low_j'])} to {number(run_row['energy_high_j'])}"
        energy = f"; {budget.energy_words} (90 %: {ends})"
    gpus = f" on {counted(budget.devices, 'GPU')}" if budget.devices > 1 else ""
    say(screen, f"Run of {number(budget.span_ms)} ms{gpus}{energy}", "bold")
    rows = budget_rows(budget)
    if run_row["source"] != "measured":
        rows = rows.drop("predicted_energy_j")
    rows, prices = beside_energy(rows, tariff)
    show_table(rows, console=screen, headers={**_HEADERS, **prices})
    print_tariff(tariff, tariff.priced(budget.together()).tail(1))
    if budget.devices > 1:
        say(screen, f"times are summed over {budget.devices} GPUs; -o or --json has each")

        gpus_priced, prices = beside_energy(gpu_rows(budget.gpus), tariff)
        show_table(
            gpus_priced,
            console=screen,
            headers={**_HEADERS, **prices, "name": "GPU"},
            all_with="--by-gpu -o FILE",
        )
    for line in host_lines(list(budget.hosts)):
        say(screen, line)
    noted = any(": throttled for" in note for note in budget.notes)
    for record in budget.throttled:
        if record["source"] != "measured" or not noted:  # else the note says it, with its readings
            say(screen, throttled_line(record))
    for note in budget.notes:
        say(screen, f"note: {note}", "dim")
    for path in written:
        say(screen, f"wrote {path}")


def _groups_line(grouped: EnergyBy) -> str:
    """Return the energy of a run and by what it is divided, in a sentence."""
    run_row = grouped.frame.row(-1, named=True)
    by = f"by {', '.join(grouped.keys)}"
    if run_row["energy_j"] is None:
        return f"Energy {by} (90 % interval)"
    joules = joules_by_source(run_row["energy_j"], run_row["source"], run_row["measured_j"] or 0.0)
    return f"{joules} (90 %: {number(run_row['energy_low_j'])} to {number(run_row['energy_high_j'])}), {by}"


def print_groups(
    grouped: EnergyBy, written: Sequence[str | os.PathLike[str]], tariff: Tariff = NO_TARIFF
) -> None:
    """Print the groups of a run with most energy, the run, and what they rest on."""
    screen = open_console()
    say(screen, _groups_line(grouped), "bold")
    rows = grouped.frame.drop("source", "measured_j", "unit", "^set_energy.*$").with_columns(
        pl.col("share") * 100.0
    )
    rows = rows.rename({"time_ms": "device_time_ms"})  # without idle time, which the power is over too
    unit = next(iter(grouped.work), "")
    headers = {"energy_per_unit_j": f"energy per {unit.removesuffix('s')}", "work": unit}
    headers["units_per_joule"] = f"{unit} per J"
    rows, prices = beside_energy(rows.rename({"share": "share_pct"}), tariff)
    show_table(rows, console=screen, headers={**headers, **prices})
    print_tariff(tariff, tariff.priced(grouped.frame).tail(1))
    for note in grouped.notes:
        say(screen, f"note: {note}", "dim")
    for path in written:
        say(screen, f"wrote {path}")
