"""Errors of compared energies that come from the power logs, without the sensor's gain and offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import polars as pl
from scipy import sparse

from tracetool.compare.spread import repeated
from tracetool.core.arrays import Floats, Ints

if TYPE_CHECKING:
    from tracetool.measure.attribution import Attribution

#: Figures worked on at once, which bounds memory. [1] By definition without effect on results.
_AT_ONCE: Final = 512


@dataclass(frozen=True)
class ReadingsError:
    """Errors of the measured energies of one run's classes.

    Parameters
    ----------
    signature : array of int, shape (rows,)
        Signature of each row of the run's classes.
    launches : array, shape (rows,)
        Launches of each row over those of its signature that were measured; 0 where none were. [1]
    devices : tuple of (array of int, shape (k,); array, shape (k, k); array, shape (2, k))
        Of each GPU: signatures of its classes, the covariance of their energies [J^2], and what a deviation
        of gain, and of offset, makes of each [J].
    """

    signature: Ints
    launches: Floats
    devices: tuple[tuple[Ints, Floats, Floats], ...]

    @classmethod
    def of(cls, attribution: Attribution, rows: pl.DataFrame) -> ReadingsError:
        """Return the errors of a run's classes, ``rows`` of ``signature`` and ``launches``."""
        measured = attribution.energy.filter(
            pl.col("signature").is_not_null() & pl.col("energy_j").is_not_null()
        )
        counts = measured.group_by("signature", maintain_order=True).agg(
            pl.col("launches").sum().alias("all")
        )
        counted = rows.select("signature", "launches").join(
            counts, on="signature", how="left", maintain_order="left"
        )
        share = pl.when(pl.col("all") > 0).then(pl.col("launches") / pl.col("all")).otherwise(0.0)
        devices = tuple(
            (
                ids,
                np.nan_to_num(c.covariance[: len(ids), : len(ids)]),
                np.nan_to_num(c.sensor_j[:, : len(ids)]),
            )
            for device, c in attribution.sums.classes.items()
            for ids in (attribution.sums.signature[device],)
        )
        return cls(counted["signature"].to_numpy(), counted.select(share.alias("s"))["s"].to_numpy(), devices)

    def variance_j2(self, at: Ints, row: Ints, share: Floats, count: int) -> Floats:
        """Return the variance of figures, each a sum of shares of rows. Shape (count,). [J^2]

        Parameters
        ----------
        at, row : array of int, shape (m,)
            The figure, 0 to ``count - 1``, and the row that is part of it.
        share : array, shape (m,)
            Part of the row. [1]
        """
        out = np.zeros(count)
        for ids, covariance, sensor in self.devices:
            if not len(ids):
                continue
            column = np.minimum(np.searchsorted(ids, self.signature[row]), len(ids) - 1)
            weight = np.where(ids[column] == self.signature[row], share * self.launches[row], 0.0)
            parts = sparse.csr_matrix((weight, (at, column)), (count, len(ids)))
            for first in range(0, count, _AT_ONCE):
                some = parts[first : first + _AT_ONCE]
                whole = np.asarray(some.multiply(some @ covariance).sum(axis=1)).ravel()
                of_sensor = np.square(some @ sensor.T).sum(axis=1)
                out[first : first + _AT_ONCE] += np.maximum(whole - of_sensor, 0.0)
        return out


class MeasuredRun(Protocol):
    """A run of a side."""

    @property
    def steps(self) -> int:
        """Steps the run names."""

    @property
    def open_energy(self) -> ReadingsError | None:
        """Errors of its measured energies."""


class MeasuredSide(Protocol):
    """A side of a comparison."""

    @property
    def runs(self) -> Sequence[MeasuredRun]:
        """Its runs."""

    @property
    def unit(self) -> str:
        """What figures are per: ``step`` or ``run``."""

    @property
    def placed(self) -> Sequence[pl.Series]:
        """The class of each row of each run's classes."""


def readings_error(
    sides: Sequence[MeasuredSide], members: Sequence[pl.DataFrame], count: int
) -> Floats | None:
    """Return the standard error that readings leave in the change of k figures. Shape (k,). [J]

    Parameters
    ----------
    sides : sequence of sides
        Both sides.
    members : sequence of DataFrame
        As for :func:`tracetool.compare.steps.step_sums`.
    count : int
        k.

    Returns
    -------
    array or None
        None where no run is measured, and where repeated runs show what readings leave open themselves.
    """
    if repeated(*(len(side.runs) for side in sides)):
        return None
    if all(run.open_energy is None for side in sides for run in side.runs):
        return None
    variance = np.zeros(count)
    for side, places in zip(sides, members, strict=True):
        whole = pl.lit(1.0).alias("share")
        parts = places.select("class", "at", "share" if "share" in places.columns else whole)
        for run, placed in zip(side.runs, side.placed, strict=True):
            if run.open_energy is None:
                continue
            rows = placed.alias("class").to_frame().with_row_index("row").join(parts, on="class", how="inner")
            at, row = (rows[c].to_numpy().astype(np.int64) for c in ("at", "row"))
            units = float(run.steps) if side.unit == "step" else 1.0
            of_run = run.open_energy.variance_j2(at, row, rows["share"].to_numpy(), count)
            variance += of_run / (units * len(side.runs)) ** 2
    return np.sqrt(variance)
