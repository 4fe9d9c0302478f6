"""Power over time on the terminal: peaks and ramps by window, and the spectrum in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tracetool.core.interval import ENDS
from tracetool.core.number_text import number
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say


def print_swings(records: Sequence[Mapping[str, Any]]) -> None:
    """Print peaks and ramps by window, and the spectrum of every clock."""
    screen = open_console()
    say(screen, "Power over time of all GPUs together (90 % interval), mean over windows", "bold")
    show_table(swing_rows(records), console=screen)
    for record in records:
        say(screen, swing_sentence(record))


def swing_rows(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return a row per clock and window: peak, lowest power and ramps."""
    rows = [
        {
            "clock MHz": f"{record['clock_mhz']:g}",
            "window": f"{window['window_ms']:g} ms",
            "peak W": _with_ends(window, "peak{}_w"),
            "lowest W": number(window["lowest_w"], 3),
            "ramp up W/ms": _with_ends(window, "ramp_up{}_w_per_ms"),
            "ramp down W/ms": _with_ends(window, "ramp_down{}_w_per_ms"),
        }
        for record in records
        for window in record["windows"]
    ]
    return pl.DataFrame(rows)


def swing_sentence(record: Mapping[str, Any]) -> str:
    """Return the spectrum of one clock in a sentence."""
    spectrum = record["spectrum"]
    if spectrum["swing_w"] is None:
        return f"{record['clock_mhz']:g} MHz: too short for a spectrum ({number(record['span_ms'])} ms)"
    swing_w = _with_ends(spectrum, "swing{}_w")
    text = f"{record['clock_mhz']:g} MHz: swings by {swing_w} W rms between 0.1 and 20 Hz"
    if spectrum["strongest_hz"] is None:
        return text
    return f"{text}, most at {spectrum['strongest_hz']:.3g} Hz ({number(spectrum['strongest_w'], 3)} W rms)"


def _with_ends(row: Mapping[str, Any], name: str) -> str:
    middle, low, high = (row[name.format(end)] for end in ENDS)
    return f"{number(middle, 3)} ({number(low, 3)}..{number(high, 3)})"
