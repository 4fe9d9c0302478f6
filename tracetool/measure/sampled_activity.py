"""Activity of SMs, tensor cores and DRAM that hardware counters sampled beside a run."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.figures import counted, number

#: Column to what it is a share of.
SHARES: Final = {"act_sm": "SMs active", "act_tensor": "tensor cores", "act_dram": "DRAM bandwidth"}


def sampled_activity(telemetry: pl.DataFrame) -> str:
    """Return mean shares and the clocks of one GPU's samples in words; nothing where none has a share.

    Parameters
    ----------
    telemetry : DataFrame
        ``telemetry`` schema, one GPU; tables of earlier versions have no such columns.

    Notes
    -----
    Samples are taken at even spacing, so their mean is that of the time they span.
    """
    shares = {c: words for c, words in SHARES.items() if c in telemetry.columns}
    if not shares:
        return ""
    samples = telemetry.filter(pl.any_horizontal(pl.col(c).is_not_null() for c in shares))
    if not samples.height:
        return ""
    means = samples.select(pl.col(c).mean() for c in shares).row(0, named=True)
    parts = [
        f"{words} {number(100.0 * means[c], 3)} %" for c, words in shares.items() if means[c] is not None
    ]
    clocks = samples["clock_mhz"].drop_nulls()
    if len(clocks):
        low, high = (number(float(clocks.quantile(q) or 0.0)) for q in (0.05, 0.95))
        parts.append(
            f"clock {low} MHz" if low == high else f"clock {low} to {high} MHz (5 to 95 % of samples)"
        )
    return f"{', '.join(parts)}; mean of {counted(samples.height, 'sample')}"


def activity_notes(telemetry: pl.DataFrame) -> list[str]:
    """Return a sentence on the sampled activity of each GPU."""
    parts = telemetry.partition_by("device", as_dict=True, maintain_order=True) if telemetry.height else {}
    sentences = {device: sampled_activity(part) for (device,), part in parts.items()}
    shown = {d: s for d, s in sentences.items() if s}
    of = {d: f" of GPU {d}" if len(shown) > 1 else "" for d in shown}
    return [f"measured activity{of[d]}: {sentence}" for d, sentence in shown.items()]
