"""Arguments on the command line: what is refused before any work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import typer

from tracetool.core.errors import BadInput

if TYPE_CHECKING:
    from tracetool.tables.tariff import Tariff


def chosen_vendor(text: str | None) -> Literal["nvidia", "amd"] | None:
    """Return the requested vendor, None where none was given.

    Raises
    ------
    BadInput
        If no vendor is called so.
    """
    if text in ("nvidia", "amd"):
        return text  # type: ignore[return-value]
    if text:
        raise BadInput(f"no vendor called {text}", "known: nvidia, amd")
    return None


def chosen_devices(text: str | None) -> tuple[int, ...]:
    """Return the GPUs of ``0,2``; none where none is named.

    Raises
    ------
    BadInput
        If it is not a list of numbers from 0 up.
    """
    try:
        numbers = tuple(int(n) for n in (text or "").split(",") if n.strip())
    except ValueError as error:
        raise BadInput(f"--devices {text}: not a list of numbers", "write e.g. --devices 0,2") from error
    if any(n < 0 for n in numbers):
        raise BadInput(f"--devices {text}: GPUs are numbered from 0")
    return numbers


def finite(value: float | None) -> float | None:
    """Return the number of an option, None where it was not given; refuse what is none.

    A callback of :func:`typer.Option`. ``nan`` passes every bound, as it is neither below nor above it.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value:g} is not a finite number")
    return value


def refuse_given(options: Mapping[str, object], why: str, fix: str = "leave it out") -> None:
    """Refuse options that what else was asked for would pass over.

    Raises
    ------
    BadInput
        If one of ``options``, values by name, is not None.
    """
    for option, value in options.items():
        if value is not None:
            raise BadInput(f"{option} {why}", fix)


def tariff_of(price: float | None, gco2_per_kwh: float | None, pue: float | None) -> Tariff:
    """Return the cost of energy, from the options of the command line.

    Raises
    ------
    BadInput
        If ``--pue`` is given without anything to multiply.
    """
    from tracetool.tables.tariff import Tariff

    return Tariff(price, gco2_per_kwh, pue)
