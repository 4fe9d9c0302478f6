"""The headline figures of a run's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tracetool.compare.accuracy import Accuracy
from tracetool.core.number_text import number
from tracetool.measure.measured_scopes import WHOLE_PCT
from tracetool.replay.energy_source import MEASURED
from tracetool.replay.sweep import Swept
from tracetool.replay.time_budget import TimeBudget
from tracetool.report.page_tables import Gaps
from tracetool.report.run_page import Fact

#: Label of the measured energy of a run.
_MEASURED_RUN: Final = "Energy of the run, measured"


def with_budget(facts: Sequence[Fact], budget: TimeBudget) -> tuple[Fact, ...]:
    """Return the facts with the energy of the run as its budget has it, where a log measured any."""
    if budget.measured_j <= 0.0:
        return tuple(facts)
    row = budget.together().row(-1, named=True)
    words = budget.energy_words.removeprefix(f"{number(row['energy_j'])} J").lstrip(" ,")
    ends = _between(row["energy_low_j"], row["energy_high_j"])
    whole = row["source"] == MEASURED
    fact = Fact(
        _MEASURED_RUN if whole else "Energy of the run",
        f"{number(row['energy_j'])} J",
        ends if whole else f"{ends}; {words}",
    )
    return (fact, *(f for f in facts if f.label != _MEASURED_RUN))


def run_facts(
    accuracy: Accuracy, total: Mapping[str, Any], gaps: Gaps, swept: Swept | None
) -> tuple[Fact, ...]:
    """Return a run's headline figures: energy and time, measured and predicted, and its best clock."""
    scopes = [row for level in ("kernels", "copies", "gap") if (row := accuracy.scope(level)) is not None]
    kernels = scopes[0]
    measured = kernels["energy_j"] is not None
    facts = []
    if measured:
        value, low, high = (
            float(accuracy.whole.get(key) or sum(row[key] or 0.0 for row in scopes))  # type: ignore[misc]
            for key in ("energy_j", "energy_low_j", "energy_high_j")
        )
        times = np.array([[row["time_ms"], row["measured_pct"] or 0.0] for row in scopes], np.float64)
        pct = float(np.average(times[:, 1], weights=times[:, 0]))
        coverage_text = "" if pct >= WHOLE_PCT else f", in the {pct:.0f} % of the time that was measured"
        facts.append(Fact(_MEASURED_RUN, f"{number(value)} J", _between(low, high) + coverage_text))
    facts.append(
        Fact(
            "Energy of the run, predicted",
            f"{number(total['energy_j'])} J",
            f"{_between(total['energy_low_j'], total['energy_high_j'])}, anchored: kernels"
            f" {number(total['kernel_energy_j'])} J, copies {number(total['copy_energy_j'])} J,"
            f" gaps {number(total['gap_energy_j'])} J",
        )
    )
    facts.append(
        Fact(
            "Time of kernels, measured",
            f"{number(kernels['time_ms'])} ms",  # type: ignore[arg-type]
            f"summed over launches; {number(gaps.total_ms)} ms of gaps beside them",
        )
    )
    facts.append(_power_fact(kernels, total, measured=measured))
    if swept is None:
        return tuple(facts)
    best = swept.best.row(0, named=True)
    facts.append(
        Fact(
            "Clock of least energy",
            f"{best['clock_mhz']:.0f} MHz",
            f"{-100 * best['energy_saved']:+.1f} % energy ({-100 * best['energy_saved_high']:+.1f} to"
            f" {-100 * best['energy_saved_low']:+.1f} %), {100 * best['slowdown']:+.1f} % time"
            f" against {swept.info['reference_mhz']:.0f} MHz, predicted",
        )
    )
    return tuple(facts)


def _power_fact(kernels: Mapping[str, Any], total: Mapping[str, Any], *, measured: bool) -> Fact:
    """Return the mean power of kernels; a measured one has the interval of their energy: times are exact."""
    label = "Mean power of kernels"
    if not measured:
        return Fact(label, f"{number(total['kernel_power_w'], 3)} W", "predicted, anchored")
    power = float(kernels["power_w"])
    ends = (power * kernels[f"energy_{end}_j"] / kernels["energy_j"] for end in ("low", "high"))
    return Fact(label, f"{number(power, 3)} W", f"{_between(*ends)}, measured")


def _between(low: float, high: float) -> str:
    return f"{number(low, 3)} to {number(high, 3)} (90 %)"
