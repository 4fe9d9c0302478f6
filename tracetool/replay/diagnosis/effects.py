"""Savings of a run under a change: joules with their interval, and the sentence stating them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tracetool.core.number_text import number
from tracetool.replay.diagnosis.ledger import Ledger

#: Share of time and energy below which an altered run is the recorded one. [1]
_NO_CHANGE: Final = 1e-6


@dataclass(frozen=True)
class Saving:
    """Energy saved, with its 90 % interval; negative where it costs. [J]"""

    saving_j: float
    saving_low_j: float
    saving_high_j: float


@dataclass(frozen=True)
class Effect(Saving):
    """The run with something otherwise, and what it saves of the recorded run's energy.

    Parameters
    ----------
    name : str
        What is otherwise.
    makespan_ms : float
        The replayed run: of ``work`` times the recorded work. [ms]
    energy_j, energy_low_j, energy_high_j : float
        Its energy, of the work the recorded run did, with the 90 % interval. [J]
    share : float
        Saving over the recorded run's energy. [1]
    work : float
        Work that the replayed run does over that of the recorded one. [1]
    """

    name: str
    makespan_ms: float
    energy_j: float
    energy_low_j: float
    energy_high_j: float
    share: float
    work: float = 1.0


def effect_of(
    booked: Ledger, name: str, makespan_ms: float, energy_j: float, *, half_j: float, work: float
) -> Effect:
    """Return an effect; a saving's interval is that of the model's change and of the run's own energy.

    Parameters
    ----------
    booked : Ledger
        The recorded run.
    name : str
        What is otherwise.
    makespan_ms, energy_j : float
        The altered run: its makespan [ms], and its energy for the recorded work [J].
    half_j : float
        Half-width at 90 % of what the model errs by in the change. [J]
    work : float
        Work of the altered run over that of the recorded one. [1]
    """
    run_totals = booked.totals.row(-1, named=True)
    saving = booked.energy_j - energy_j
    energy_half_share = (
        (run_totals["energy_high_j"] - run_totals["energy_low_j"]) / 2.0 / max(booked.energy_j, 1e-300)
    )
    saving_half = math.hypot(half_j, energy_half_share * saving)
    energy_half = math.hypot(half_j, energy_half_share * energy_j)
    return Effect(
        saving,
        saving - saving_half,
        saving + saving_half,
        name,
        makespan_ms,
        energy_j,
        max(energy_j - energy_half, 0.0),
        energy_j + energy_half,
        saving / booked.energy_j if booked.energy_j > 0 else 0.0,
        work,
    )


def saved(saving_j: float, low_j: float, high_j: float) -> str:
    """Return an energy that is saved, or costs, with its 90 % interval.

    >>> saved(2.0, 1.5, 2.5), saved(-2.0, -2.5, -1.5)
    ('saves 2.000 J (90 %: 1.500 to 2.500)', 'costs 2.000 J (90 %: 1.500 to 2.500)')
    """
    sign = 1.0 if saving_j >= 0 else -1.0
    low, high = sorted((sign * low_j, sign * high_j))
    word = "saves" if sign > 0 else "costs"
    return f"{word} {number(abs(saving_j))} J (90 %: {number(low)} to {number(high)})"


def sentence(one: Effect, makespan_ms: float, *, together: int = 1) -> str:
    """Return an effect in words, against the recorded run's makespan. [ms]"""
    lead = f"{together} together" if together > 1 else one.name
    took = f"{number(one.makespan_ms)} ms"
    if one.work != 1.0:
        took += f" for {one.work:g} times the work"
    if abs(one.share) < _NO_CHANGE and abs(one.makespan_ms - makespan_ms) < _NO_CHANGE * makespan_ms:
        return f"{lead}: no change: {took}, {number(one.energy_j)} J"
    return (
        f"{lead}: {took} in place of {number(makespan_ms)}, {number(one.energy_j)} J,"
        f" {saved(one.saving_j, one.saving_low_j, one.saving_high_j)},"
        f" {100 * abs(one.share):.1f} % of the run"
    )
