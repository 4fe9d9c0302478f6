"""Energy, time and launches of a run by GPU and family: the figures of ``attribute --by gpu,family``."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.interval import ENDS
from tracetool.replay.energy_by import gpu_groups
from tracetool.replay.groups import NONE, groups_of
from tracetool.report.export.energies import Energies
from tracetool.tables.run import Run

#: What activities without a family count as.
NO_FAMILY: Final = "none"


def family_sums(run: Run, energies: Energies) -> pl.DataFrame:
    """Return energy, time and launches by GPU and family.

    Parameters
    ----------
    run : Run
        The run.
    energies : Energies
        What is known of its energy.

    Returns
    -------
    DataFrame
        ``device``, ``family``, ``launches``, ``duration_ns``; ``energy_j`` where a log measured it and
        ``predicted_energy_j`` where the GPU is known, each with its 90 % interval [J], null where unknown.

    Notes
    -----
    Ends are those of the sums: errors that cancel between a family's kernels do, so that an interval is
    narrower than the ends of single launches added up.
    """
    groups = groups_of(run, ["family"])
    names = pl.Series("name", groups.names, dtype=pl.String)
    activities = run.kernels.select("device", "duration_ns").with_columns(names.gather(groups.of_activity))
    timed = activities.group_by("device", "name", maintain_order=True).agg(
        pl.len().alias("launches"), pl.col("duration_ns").sum()
    )
    stems = [
        stem
        for stem, energies_of_kind in (("", energies.measured), ("predicted_", energies.predicted))
        if energies_of_kind is not None
    ]
    joules = [f"{stem}energy{end}_j" for stem in stems for end in ENDS]
    if joules:
        group_energies = gpu_groups(energies.of_sets(run), groups).filter(~pl.col("whole"))
        measured = pl.col("source") == "measured"
        energies_of_family = group_energies.select(
            "device",
            "name",
            *(c if c.startswith("predicted_") else pl.when(measured).then(c).alias(c) for c in joules),
        )
        timed = timed.join(energies_of_family, on=["device", "name"], how="left", nulls_equal=True)
    named = pl.col("name").is_not_null() & (pl.col("name") != NONE)
    family = pl.when(named).then("name").otherwise(pl.lit(NO_FAMILY)).alias("family")
    return timed.select("device", family, "launches", "duration_ns", *joules).sort("device", "family")
