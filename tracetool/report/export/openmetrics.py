"""OpenMetrics text: energy, time and launches by GPU and family, for a push gateway or a file collector.

Reference: OpenMetrics 1.0 (RFC draft-richih-opsawg-openmetrics-00).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import polars as pl

from tracetool.core.interval import ENDS


@dataclass(frozen=True)
class Metric:
    """One family of metrics: a counter's samples end in ``_total``."""

    name: str
    kind: str
    unit: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def escaped(text: str) -> str:
    r"""Return a label's value as written between quotes.

    Examples
    --------
    >>> print(escaped('a"b\\c'))
    a\"b\\c
    """
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def write_openmetrics(
    families: pl.DataFrame, idle: pl.DataFrame | None, file: BinaryIO, work: pl.DataFrame | None = None
) -> None:
    """Write the sums of a run's activities.

    Parameters
    ----------
    families : DataFrame
        From :func:`tracetool.report.export.family_energy.family_sums`.
    idle : DataFrame, optional
        Measured energy of each GPU without activity: ``device``, ``class``, ``energy_j``.
    file : binary file
        Where to.
    work : DataFrame, optional
        Energy per unit of work, from :func:`tracetool.report.export.work_energy.work_energies`.
    """
    metrics = _metrics(families, idle) + ([] if work is None else _of_work(work))
    file.write("".join(f"{line}\n" for line in _lines(metrics)).encode())


def _metrics(sums: pl.DataFrame, idle: pl.DataFrame | None) -> list[Metric]:
    metrics = [
        Metric("tracetool_launches", "counter", "", "Kernels, copies and sets.", _samples(sums, "launches")),
        Metric(
            "tracetool_activity_seconds",
            "counter",
            "seconds",
            "Device time of kernels, copies and sets.",
            [(labels, ns / 1e9) for labels, ns in _samples(sums, "duration_ns")],
        ),
    ]
    for stem, words in (("", "Energy attributed from the power log"), ("predicted_", "Energy predicted")):
        for end in ENDS:
            column = f"{stem}energy{end}_j"
            if column not in sums.columns:
                continue
            side = {"": ".", "_low": ": low end of the 90 % interval.", "_high": ": high end of it."}[end]
            kind = "gauge" if end else "counter"
            name = f"tracetool_{stem}energy{end}_joules"
            metrics.append(Metric(name, kind, "joules", words + side, _samples(sums, column)))
    if idle is not None and idle.height:
        rows = [
            ({"gpu": str(r["device"]), "state": r["class"]}, r["energy_j"])
            for r in idle.iter_rows(named=True)
        ]
        help_text = "Energy of the power log without any activity."
        metrics.append(Metric("tracetool_idle_energy_joules", "counter", "joules", help_text, rows))
    return metrics


def _of_work(work: pl.DataFrame) -> list[Metric]:
    """Return the amount of work, and the energy per unit."""
    rows = work.to_dicts()
    labels = [{"work": row["work"], "phase": row["phase"]} for row in rows]
    amounts = [(label, float(row["amount"])) for label, row in zip(labels, rows, strict=True)]
    metrics = [Metric("tracetool_work", "counter", "", "Tokens, requests, steps or the like.", amounts)]
    for stem, source in (("", "measured"), ("predicted_", "predicted")):
        for end in ENDS:
            samples = [
                (label, float(row[f"energy{end}_j"]))
                for label, row in zip(labels, rows, strict=True)
                if row["source"] == source and row[f"energy{end}_j"] is not None
            ]
            side = {"": ".", "_low": ": low end of the 90 % interval.", "_high": ": high end of it."}[end]
            name = f"tracetool_{stem}energy_per_work{end}_joules"
            metrics.append(
                Metric(name, "gauge", "joules", f"Energy per unit of work, {source}{side}", samples)
            )
    return metrics


def _samples(sums: pl.DataFrame, column: str) -> list[tuple[Mapping[str, str], float]]:
    return [
        ({"gpu": str(device), "family": family}, float(value))
        for device, family, value in sums.select("device", "family", column).iter_rows()
        if value is not None and math.isfinite(value)
    ]


def _lines(metrics: Iterable[Metric]) -> Iterable[str]:
    for metric in metrics:
        if not metric.samples:
            continue
        yield f"# TYPE {metric.name} {metric.kind}"
        if metric.unit:
            yield f"# UNIT {metric.name} {metric.unit}"
        yield f"# HELP {metric.name} {metric.help}"
        suffix = "_total" if metric.kind == "counter" else ""
        for labels, value in metric.samples:
            inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
            yield f"{metric.name}{suffix}{{{inside}}} {value:.10g}"
    yield "# EOF"
