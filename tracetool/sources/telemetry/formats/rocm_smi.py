"""``rocm-smi --csv`` and ``--json`` logs: several tables in one file, stamped by whoever runs the loop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracetool.core.errors import BadInput
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import header_names
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.amd_log import knows, plain, readings, time_of
from tracetool.sources.telemetry.localtime import ALONE, stamped_lines


def _is_header(line: str) -> bool:
    if "device" not in line.lower():
        return False
    names = [plain(n) for n in header_names(line)]
    return "device" in names and len(names) > 1


def sniff(probe: Probe) -> float:
    """Score: a header whose column is ``device``, or documents of ``card`` entries."""
    lines = [line.text for line in stamped_lines("\n".join(probe.lines(60)))]
    heads = [line for line in lines if _is_header(line)]
    if heads and any(line.strip().startswith("card") for line in lines):
        return 0.9 if any(knows(header_names(h)) for h in heads) else 0.4
    joined = "".join(line.strip() for line in lines[:3])
    return 0.8 if joined.startswith(('{"card', '{"system')) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    text = read_text(path, options.max_ratio)
    first = next(
        (c for line in text.splitlines() if line.strip() and not ALONE.match(line) for c in line.strip()), ""
    )
    rows = list(_documents(path, text)) if first == "{" else list(_tables(text))
    return readings(path, rows, "rocm-smi")


def _tables(text: str) -> Iterator[dict[str, str | None]]:
    names: list[str] = []
    for line in stamped_lines(text):
        if _is_header(line.text):
            names = [plain(n) for n in header_names(line.text)]
            continue
        cells = [c.strip() for c in line.text.split(",")]
        row: dict[str, str | None] = dict(zip(names, cells, strict=False))
        if not (row.get("device") or "").lower().startswith("card"):  # a cut line ends before it
            continue
        yield row | {"stamp": time_of(row) or line.stamp, "line": str(line.number)}


def _documents(path: Path, text: str) -> Iterator[dict[str, str | None]]:
    """Yield the cards of JSON documents, one after another, stamps between them."""
    decoder = json.JSONDecoder()
    stamp: str | None = None
    at = 0
    while at < len(text):
        following = text[at : at + 200].lstrip()
        at += len(text[at : at + 200]) - len(following)
        if not following:
            at += 200
            continue
        line, _, _ = following.partition("\n")
        if match := ALONE.match(line):
            stamp = match[1]
            at += len(line)
            continue
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise BadInput.in_file(
                path, f"is broken JSON near character {at}: {error}", "log again"
            ) from error
        yield from _cards(document, stamp, at)


def _cards(document: Any, stamp: str | None, at: int) -> Iterator[dict[str, str | None]]:
    for card, values in document.items() if isinstance(document, dict) else ():
        if card.startswith("card") and isinstance(values, dict):
            row = {plain(str(k)): str(v) for k, v in values.items()}
            yield row | {"device": card, "stamp": time_of(row) or stamp, "line": f"{at} {card}"}


FORMAT = Format(
    title="rocm-smi log (CSV or JSON)",
    holds="telemetry",
    made_by="while true; do date +%s.%N; rocm-smi --showpower --showclocks --csv; sleep 0.1; done > smi.csv",
    tried="ROCm 4.3 to 6.1; stamps between the tables",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".csv", ".json", ".log"),
    memory_ratio=20.0,
)
