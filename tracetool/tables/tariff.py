"""Cost of energy in money and in CO2, from factors that the user states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS

#: One kilowatt-hour: 1000 W for 3600 s. [J]
_JOULES_PER_KWH: Final = 3.6e6
#: Names of energy columns by unit, with the place of ``_low`` and ``_high``, and the unit in joules.
_ENERGIES: Final = (("energy{}_j", 1.0), ("energy{}_mj", 1e-3))
#: Energies of a unit of work, the units that are priced together, and the columns of cost and CO2 [g].
_PER_UNIT: Final = (
    ("energy_per_token_j{}", 1e6, "cost_per_million_tokens{}", "co2_per_million_tokens_g{}"),
    ("energy_per_item_j{}", 1.0, "cost_per_item{}", "co2_per_item_g{}"),
)
#: Names of the columns that are added, with the place of ``_low`` and ``_high``.
_COST: Final = "cost{}"
_CO2: Final = "co2{}_g"
#: Options that add them.
_OPTIONS: Final = {_COST: "--price", _CO2: "--gco2-per-kwh"}


@dataclass(frozen=True)
class Tariff:
    """Cost of a kilowatt-hour in money and in CO2, and what the building adds to the GPU's energy.

    Parameters
    ----------
    price_per_kwh : float, optional
        Price of energy, in any currency; costs are in the same one. [currency/kWh]
    gco2_per_kwh : float, optional
        CO2 of energy. [g/kWh]
    pue : float, optional
        Power usage effectiveness: energy of the data center over that of its machines, 1 where not given.
        It multiplies cost and CO2 only; columns of energy stay those of the GPU. [1]

    Raises
    ------
    BadInput
        If a factor is negative or no number, the PUE below 1, or a PUE is given without anything to multiply.

    Examples
    --------
    >>> Tariff(price_per_kwh=0.25, pue=1.2).priced(pl.DataFrame({"energy_j": [3.6e6]}))["cost"].to_list()
    [0.3]
    """

    price_per_kwh: float | None = None
    gco2_per_kwh: float | None = None
    pue: float | None = None

    def __post_init__(self) -> None:
        """Refuse factors that are none."""
        for option, value, least in (
            (_OPTIONS[_COST], self.price_per_kwh, 0.0),
            (_OPTIONS[_CO2], self.gco2_per_kwh, 0.0),
            ("--pue", self.pue, 1.0),
        ):
            if value is not None and not (math.isfinite(value) and value >= least):
                raise BadInput(f"{option} {value:g}: not a finite number of at least {least:g}")
        if self.pue is not None and not self:
            raise BadInput(
                "--pue multiplies cost and CO2, and neither is asked for", "add --price or --gco2-per-kwh"
            )

    def __bool__(self) -> bool:
        """Whether a price or a carbon intensity is stated."""
        return self.price_per_kwh is not None or self.gco2_per_kwh is not None

    def factors(self) -> dict[str, Any]:
        """Return the three factors as the JSON document states them, under ``tariff``; empty without any."""
        return {"tariff": {**asdict(self), "pue": self._pue()}} if self else {}

    def sentence(self) -> str:
        """Return a sentence on the basis of the columns."""
        phrases = []
        if self.price_per_kwh is not None:
            phrases.append(f"cost in the currency of --price ({self.price_per_kwh:g} per kWh)")
        if self.gco2_per_kwh is not None:
            phrases.append(f"CO2 at {self.gco2_per_kwh:g} g/kWh")
        return f"{', '.join(phrases)}, PUE {self._pue():g}; energy is that of the GPUs, without PUE"

    def priced(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a table with ``cost`` and ``co2_g`` of its ``energy_j`` or ``energy_mj``, at the end.

        Each has the ``_low`` and ``_high`` that the energy has; without energy the table stays as it is.

        Raises
        ------
        BadInput
            If the table, a user's own, has such a column already.
        """
        added = self._columns(frame.columns)
        if present_already := [name for name in added if name in frame.columns]:
            name = present_already[0]
            option = next(o for stem, o in _OPTIONS.items() if name in map(stem.format, ENDS))
            raise BadInput(f"the table has a column {name} already", f"rename it, or leave out {option}")
        return frame.with_columns(**added)

    def priced_units(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a table with cost and CO2 of its energies per token and per item, at the end.

        Of tokens a million is priced: ``cost_per_million_tokens``, ``co2_per_million_tokens_g``; of images,
        videos and samples one: ``cost_per_item``, ``co2_per_item_g``. Each has its energy's interval.

        >>> energies = pl.DataFrame({"energy_per_token_j": [0.36]})
        >>> round(Tariff(0.25, pue=1.2).priced_units(energies)[0, "cost_per_million_tokens"], 6)
        0.03
        """
        added: dict[str, pl.Expr] = {}
        for energy, units, cost, co2 in _PER_UNIT:
            for column, per_kwh in ((cost, self.price_per_kwh), (co2, self.gco2_per_kwh)):
                if per_kwh is None:
                    continue
                factor = units * per_kwh * self._pue() / _JOULES_PER_KWH
                added |= {
                    column.format(end): pl.col(energy.format(end)) * factor
                    for end in ENDS
                    if energy.format(end) in frame.columns
                }
        return frame.with_columns(**added)

    def priced_records(self, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return records with the same figures added to each."""
        if not self:
            return [dict(record) for record in records]
        names = [stem.format(end) for stem, _ in _ENERGIES for end in ENDS]
        energies = [{n: r[n] for n in names if n in r} for r in records]
        energies_table = pl.DataFrame(energies, infer_schema_length=None)
        added = self.priced(energies_table).drop(energies_table.columns).to_dicts()
        return [{**record, **more} for record, more in zip(records, added, strict=True)]

    def _pue(self) -> float:
        return 1.0 if self.pue is None else self.pue

    def _columns(self, names: Sequence[str]) -> dict[str, pl.Expr]:
        """Return the columns that are added to a table of these columns."""
        energy = next(((stem, joules) for stem, joules in _ENERGIES if stem.format("") in names), None)
        if energy is None:
            return {}
        stem, joules = energy
        added: dict[str, pl.Expr] = {}
        for column, per_kwh in ((_COST, self.price_per_kwh), (_CO2, self.gco2_per_kwh)):
            if per_kwh is not None:
                factor = per_kwh * self._pue() * joules / _JOULES_PER_KWH
                ends = [end for end in ENDS if stem.format(end) in names]
                added |= {column.format(e): pl.col(stem.format(e)).cast(pl.Float64) * factor for e in ends}
        return added


#: No price and no carbon intensity: nothing is added.
NO_TARIFF: Final = Tariff()
