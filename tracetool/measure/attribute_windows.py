"""Energies measured window by window of a large run, added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.tables.windows import Window, windows_of


class Measured(Protocol):
    """Sums of a window's measurement."""

    @property
    def energy(self) -> pl.DataFrame:
        """One row per GPU and class."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on the basis of the figures."""

    @property
    def scopes(self) -> Mapping[str, Mapping[str, Any]]:
        """Measured kernels, copies, gaps and all, with the intervals of these sums."""


A = TypeVar("A", bound=Measured)
#: Windows named in a note, at most.
_NAMED: Final = 9
#: Columns that are means over the time of a class.
_BY_TIME: Final = (
    "coverage",
    "prior_share",
    "throttled_share",
    "throttled_share_low",
    "throttled_share_high",
)


@dataclass(frozen=True)
class AddedWindows(Generic[A]):
    """Measurement of a large run, added up over its windows.

    ``first`` is what its first window gave, ``energy`` one row per GPU and class of all windows, and
    ``half_shares`` half the 90 % interval of each scope as a share of its energy. [1]
    """

    first: A
    energy: pl.DataFrame
    notes: tuple[str, ...]
    half_shares: Mapping[str, float]


def attributed_windows(run: Run, attribute: Callable[[Window], A]) -> AddedWindows[A]:
    """Return the measurement of a large run, window by window.

    Parameters
    ----------
    run : Run
        The run.
    attribute : callable
        Returns what was measured of a window.

    Raises
    ------
    BadInput
        If no window can be measured: the reason of the first.

    Notes
    -----
    One sensor measured all windows, so half widths add up; errors of classes that cancel within a window do
    so in its scopes. A class that the log of a window does not separate
    from others takes the power it drew in the windows that do.
    """
    window_energies, scopes, lost, reason = [], [], [], None
    first: A | None = None
    for window in windows_of(run):
        try:
            measured = attribute(window)
        except BadInput as error:
            lost.append(window.number)
            reason = reason or error
            continue
        numbers = window.numbers
        energy = measured.energy
        window_energies.append(
            energy.with_columns(
                numbers.gather(energy["signature"]).cast(pl.Int64).alias("signature")
            ).with_columns(pl.lit(window.number).alias("window"))
        )
        scopes.append(measured.scopes)
        first = first or measured
    if first is None:
        raise reason or BadInput.in_file(run.path, "holds no activities")
    count = len(window_energies) + len(lost)
    notes = [
        *first.notes,
        f"measured in {len(window_energies)} of {count} windows of the run, each solved by itself",
    ]
    if lost:
        which = ", ".join(str(n + 1) for n in lost[:_NAMED]) + (", ..." if len(lost) > _NAMED else "")
        one = len(lost) == 1
        words = (
            f"window {which} was not measured: its" if one else f"windows {which} were not measured: their"
        )
        notes.append(f"{words} energy is not in the sums")
    return AddedWindows(first, _added(pl.concat(window_energies)), tuple(notes), _half_shares(scopes))


def _half_shares(windows: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, float]:
    """Return half the 90 % interval of each scope that every window measured. [1]"""
    energy_j: dict[str, float] = {}
    half_j: dict[str, float] = {}
    for scopes in windows:
        for name, scope in scopes.items():
            if scope.get("energy_j"):
                energy_j[name] = energy_j.get(name, 0.0) + scope["energy_j"]
                half_j[name] = half_j.get(name, 0.0) + scope["energy_high_j"] - scope["energy_j"]
    return {name: half_j[name] / energy_j[name] for name in energy_j}


def _added(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per GPU and class from those of the windows."""
    time, measured = pl.col("duration_ns"), pl.col("energy_j").is_not_null()
    told_ns = time.filter(measured).sum()
    scale = pl.when(told_ns > 0).then(time.sum() / told_ns)
    energies = [(pl.col(f"energy{e}_j").filter(measured).sum() * scale).alias(f"energy{e}_j") for e in ENDS]
    means = [
        pl.when(time.sum() > 0)
        .then((pl.col(c).fill_null(0.0) * time).sum() / time.sum())
        .otherwise(0.0)
        .alias(c)
        for c in _BY_TIME
    ]
    waits = [
        pl.when(pl.col(c).is_not_null().any()).then(pl.col(c).sum()).alias(c)
        for c in ("wait_ns", *(f"wait_energy{e}_j" for e in ENDS))
    ]
    keys = ["device", "signature", "class"]
    added = rows.group_by(keys, maintain_order=True).agg(
        pl.col("family").first(), pl.col("launches").sum(), time.sum(), *energies, *means, *waits,
        pl.col("identified").all(), pl.col("reason").drop_nulls().first(),
    )  # fmt: skip
    throttled = [c for c in _BY_TIME if c.startswith("throttled") and rows[c].null_count() == rows.height]
    seconds = pl.col("duration_ns") / 1e9
    watts = [pl.when(seconds > 0).then(pl.col(f"energy{e}_j") / seconds).alias(f"power{e}_w") for e in ENDS]
    return load_schema("energy").conform(added.drop(throttled).with_columns(watts))
