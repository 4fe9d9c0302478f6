"""Summary of a recording: idle power, the sampler's rhythm, its cost, what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tracetool.record.recording import POWER_LOG, read_events
from tracetool.tables.power_log import COLUMNS

_POWER = tuple(list(COLUMNS).index(c) for c in ("instant_mw", "average_mw", "draw_mw"))


@dataclass
class Summary:
    """Facts for the record and warnings for people."""

    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def _lines(log: Path) -> Iterator[str]:
    try:
        with log.open(encoding="utf-8", errors="replace") as f:
            yield from f
    except OSError:
        return


def _note(line: str) -> Mapping[str, Any]:
    try:
        note = json.loads(line[1:])
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def read_power(log: Path) -> tuple[list[tuple[int, int, int]], list[Mapping[str, Any]]]:
    """Return (time [ns], device, power [mW]) of every reading with power, and the notes of a log."""
    readings, notes = [], []
    for line in _lines(log):
        if line.startswith("#"):
            if note := _note(line):
                notes.append(note)
            continue
        cells = line.rstrip("\n").split(",")
        if len(cells) != len(COLUMNS):
            continue
        power = next((cells[i] for i in _POWER if cells[i]), "")
        if power and cells[0].isdigit() and cells[2].isdigit():
            readings.append((int(cells[0]), int(cells[2]), round(float(power))))
    return readings, notes


def _span(events: Sequence[Mapping[str, Any]], what: str) -> tuple[int, int] | None:
    begin = next((int(e["boot_ns"]) for e in events if e["what"] == f"{what}_begin"), None)
    end = next((int(e["boot_ns"]) for e in events if e["what"] == f"{what}_end"), None)
    return None if begin is None or end is None else (begin, end)


def summarize(folder: Path, *, disk_full: bool = False) -> Summary:
    """Return the summary of a recording; that of a cut or empty one has fewer entries.

    ``disk_full`` says that the sampler ended without space for all of its log.
    """
    events = read_events(folder)
    readings, notes = read_power(folder / POWER_LOG)
    summary = Summary()
    summary.facts["readings"] = len(readings)
    for what in ("idle_before", "idle_after"):
        span = _span(events, what)
        if span is None:
            continue
        # the second half: the first still holds the load before it, through the sensor's averaging
        start = (span[0] + span[1]) // 2
        powers_by_device: dict[int, list[int]] = {}
        for at, device, power in readings:
            if start <= at <= span[1]:
                powers_by_device.setdefault(device, []).append(power)
        summary.facts[f"{what}_w"] = {
            d: round(median(p) / 1e3, 2) for d, p in sorted(powers_by_device.items())
        }
    end = next((n for n in notes if n.get("what") == "end"), None)
    if end is None:
        cause = "the disk took no more of it" if disk_full else "its writer was killed"
        summary.warnings.append(f"the power log has no end: {cause}")
    else:
        wall = float(end.get("wall_s") or 0.0)
        summary.facts |= {
            "poll_jitter_us": end.get("jitter_us"),
            "read_delay_us": end.get("read_delay_us"),
            "sampler_cpu_share": round(float(end.get("cpu_s") or 0.0) / wall, 4) if wall else None,
        }
        if end.get("refused"):
            lost = f", {end['dropped']} lines lost" if end.get("dropped") else ", nothing lost"
            summary.warnings.append(f"the disk refused the power log for a while ({end['refused']}){lost}")
    for note in [n for n in notes if n.get("what") == "lost"][:3]:
        summary.warnings.append(f"GPU {note.get('device')} stopped answering: {note.get('error')}")
    return summary
