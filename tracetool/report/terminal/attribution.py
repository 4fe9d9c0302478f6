"""How measured energies and identified power sensors look on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracetool.measure.measured_scopes import idle_outside_line, scopes_line
from tracetool.report.class_names import with_distinct_names
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say
from tracetool.report.terminal.cost import beside_energy, print_tariff
from tracetool.tables.tariff import NO_TARIFF, Tariff

if TYPE_CHECKING:
    from tracetool.measure.identify_sensor import IdentifiedSensor
    from tracetool.measure.sensor_from_wave import SensorCheck


def print_identified(
    sensors: Sequence[IdentifiedSensor], *, metered: bool, written: Sequence[str | os.PathLike[str]]
) -> None:
    """Print the fields of a log beside one another."""
    screen = open_console()
    columns = {one.field: list(one.in_words().values()) for one in sensors}
    show_table(pl.DataFrame({"": list(sensors[0].in_words()), **columns}), console=screen, all_with="--json")
    for row in (one.row() for one in sensors):
        if row["note"]:
            say(screen, f"{row['field']}: {row['note']}")
    say(
        screen,
        "in brackets: the 90 % interval"
        + (
            ""
            if metered
            else "; the gain is that of other GPUs: a meter identifies this one's (--meter METER.csv)"
        ),
    )
    for path in written:
        say(screen, f"wrote {path}: use it with --sensor")


def sensor_text(check: SensorCheck) -> str:
    """Return the sensor identified from a field, in a line."""
    identified = check.found
    phrases = []
    if identified.window_s:
        w = identified.window_s
        phrases.append(f"mean over {1e3 * w.value:.0f} ms ({1e3 * w.low:.0f} to {1e3 * w.high:.0f})")
    if identified.lag_s:
        g = identified.lag_s
        phrases.append(f"first-order lag of {1e3 * g.value:.0f} ms ({1e3 * g.low:.0f} to {1e3 * g.high:.0f})")
    if identified.update_s:
        phrases.append(f"an update every {1e3 * identified.update_s.value:.1f} ms")
    if identified.kind:
        phrases.append(f"{1e3 * identified.offset_s.value:.1f} ms after the activity")
    return "; ".join([*phrases, identified.reason] if identified.reason else phrases)


if TYPE_CHECKING:
    from tracetool.measure.attribution import Attribution

_SHOWN = (
    "class", "energy_j", "energy_low_j", "energy_high_j", "identified", "duration_ns", "launches", "power_w",
    "coverage", "prior_share",
)  # fmt: skip
_WAITED = ("wait_energy_j", "wait_energy_low_j", "wait_energy_high_j")


def print_attributed(
    attribution: Attribution, written: Sequence[str | os.PathLike[str]], tariff: Tariff = NO_TARIFF
) -> None:
    """Print the energy of the run and its scopes, the classes that ran, the windows and the notes.

    That a log is unusable comes before the energies it gives.
    """
    screen = open_console()
    first = 1 if attribution.verdict else 0  # its verdict is the first of the notes
    for note in attribution.notes[:first]:
        say(screen, f"note: {note}")
    say(screen, scopes_line(attribution.scopes) or "Measured energy (90 % interval)")
    ran = attribution.energy.filter(pl.col("duration_ns") > 0).sort(
        "energy_j", descending=True, nulls_last=True
    )
    ran = with_distinct_names(ran)
    waited = ran["wait_energy_j"].null_count() < ran.height
    shown = (*_SHOWN[:4], *_WAITED, *_SHOWN[4:]) if waited else _SHOWN
    rows = ran.select(shown)
    if ran["device"].n_unique() > 1:  # kernels of one name, each on its GPU
        rows.insert_column(1, ran["device"].alias("GPU"))
    rows, prices = beside_energy(rows, tariff)
    show_table(rows, console=screen, headers=prices)
    if attribution.windows is not None:
        windows, prices = beside_energy(attribution.windows, tariff)
        show_table(windows, title="windows", headers=prices, limit=10, console=screen)
    whole_run = [attribution.scopes["run"]] if "run" in attribution.scopes else []
    print_tariff(tariff, pl.DataFrame(tariff.priced_records(whole_run)))
    if outside := idle_outside_line(attribution.energy, attribution.scopes):
        say(screen, f"note: {outside}")
    for note in attribution.notes[first:]:
        say(screen, f"note: {note}")
    for path in written:
        say(screen, f"wrote {path}")
