"""What a run would take if several things were otherwise at once: one replay of the altered timeline."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.figures import number
from tracetool.hardware.load import load_gpu
from tracetool.replay.diagnosis.altered import Altered, batched, converted, fused, overlapped, unaltered
from tracetool.replay.diagnosis.asked import ERRORS, WhatIf
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.tables.run import Run


@dataclass(frozen=True)
class Effect:
    """The run with something otherwise.

    Parameters
    ----------
    name : str
        What is otherwise.
    makespan_ms : float
        The replayed run. [ms]
    energy_j, energy_low_j, energy_high_j : float
        Its energy, of the work the recorded run did, with the 90 % interval. [J]
    saving_j, saving_low_j, saving_high_j : float
        What it saves of the recorded run's. [J]
    share : float
        Saving over the recorded run's energy. [1]
    """

    name: str
    makespan_ms: float
    energy_j: float
    energy_low_j: float
    energy_high_j: float
    saving_j: float
    saving_low_j: float
    saving_high_j: float
    share: float


@dataclass(frozen=True)
class WhatIfAnswer:
    """What a run would take.

    Parameters
    ----------
    makespan_ms : float
        The run replayed as recorded. [ms]
    alone : tuple of Effect
        Each part by itself.
    joint : Effect
        All of them at once.
    sentences : tuple of str
        The same in words.
    notes : tuple of str
        What the figures rest on.
    """

    makespan_ms: float
    alone: tuple[Effect, ...]
    joint: Effect
    sentences: tuple[str, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        return asdict(self)


def what_if(run: Run, booked: Ledger, asked: WhatIf, gpu: str | None = None) -> WhatIfAnswer:
    r"""Replay a run with everything asked for, and with each part alone.

    Parameters
    ----------
    run : Run
        The run.
    booked : Ledger
        Its joules by cause.
    asked : WhatIf
        What is otherwise.
    gpu : str, optional
        The GPU, where the trace does not name it.

    Raises
    ------
    BadInput
        If nothing is asked, the run holds nothing of it, or a number is out of range.

    Notes
    -----
    Per signature the recorded joules times the ratio of the model's, altered over as recorded; idle joules as
    the replayed idle time and the model's idle power at the clock. Half-widths of the parts' savings
    :math:`h_i = \epsilon_i s_i` (priors) and that of the run's own energy add in squares.
    """
    parts = asked.each()
    if not parts:
        raise BadInput("nothing is otherwise", "e.g. --clock 1200")
    plain = _replayed(booked, booked.recorded, unaltered(booked))
    effects, half_2, notes = [], 0.0, []
    for kind, name, one in parts:
        replayed, told = _answer(run, booked, one, gpu, plain)
        saving = booked.energy_j - replayed.energy_j
        half = math.hypot(ERRORS[kind] * saving, replayed.open_j)
        half_2 += half**2
        effects.append(_effect(booked, name, replayed, half))
        notes += told
    joint, alone = effects[0], tuple(effects)
    if len(parts) > 1:
        replayed, _ = _answer(run, booked, asked, gpu, plain)
        joint = _effect(booked, ", ".join(name for _, name, _ in parts), replayed, math.sqrt(half_2))
    sentences = (
        *(_sentence(one, plain.makespan_ms) for one in (alone if len(alone) > 1 else ())),
        _sentence(joint, plain.makespan_ms, together=len(alone)),
    )
    return WhatIfAnswer(plain.makespan_ms, alone, joint, sentences, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class _Replayed:
    """An altered run: its makespan, its energy for the recorded work, and what is open of it. [ms], [J]"""

    makespan_ms: float
    energy_j: float
    gap_s: float
    idle_w: float
    each_j: Floats
    open_j: float = 0.0


def _answer(
    run: Run, booked: Ledger, asked: WhatIf, gpu: str | None, plain: _Replayed
) -> tuple[_Replayed, list[str]]:
    """Return the run with all of a question, and notes on it."""
    predicted = booked.recorded
    if asked.scale or asked.drop or asked.clock_mhz is not None or asked.power_cap_w is not None:
        predicted = predict_run(
            run,
            gpu,
            None if asked.clock_mhz is None else [asked.clock_mhz],
            power_cap_w=asked.power_cap_w,
            scale=asked.scale,
            drop=asked.drop,
        )
    altered = unaltered(booked)
    clock_mhz = float(predicted.totals[0]["clock_mhz"])
    steps: list[Callable[[Altered], Altered]] = []
    spec = load_gpu(booked.recorded.gpu)
    if (precision := asked.precision) is not None:
        steps.append(lambda a: converted(booked, a, spec, precision))
    if (factor := asked.batch) is not None:
        steps.append(lambda a: batched(booked, a, spec, clock_mhz, factor))
    steps += [lambda a, pair=pair: fused(booked, a, *pair) for pair in asked.fuse]  # type: ignore[misc]
    if asked.overlap:
        steps.append(lambda a: overlapped(booked, a))
    for step in steps:
        altered = step(altered)
    return _replayed(booked, predicted, altered.priced(booked, clock_mhz), plain), list(altered.notes)


def _replayed(
    booked: Ledger, predicted: PredictedRun, altered: Altered, plain: _Replayed | None = None
) -> _Replayed:
    """Replay a prediction with its kernels altered."""
    replays, recorded = predicted.replays, booked.recorded.replays
    assert replays is not None
    assert recorded is not None
    pred, timing = replays.predicted, replays.predicted.timing
    shorter, cheaper = altered.time[:, None], altered.energy[:, None]
    changed = replace(
        pred,
        timing=replace(timing, duration_s=timing.duration_s * shorter),
        energy_j=pred.energy_j * cheaper,
        parts_j={name: part * cheaper for name, part in pred.parts_j.items()},
    )
    if (shorter != 1.0).any() or (cheaper != 1.0).any():
        # what the governor of a cap did is in the predicted times, those altered have to keep the cap too
        replays = replace(replays, predicted=changed, governed=None)
    span = replays.at(0)
    gap_s, idle_w = float(np.sum(span.gap_ns)) * 1e-9, float(pred.idle_w[0])
    each_j = replays.launches * changed.energy_j[:, 0]
    if plain is None:
        return _Replayed(span.makespan_ns * 1e-6, booked.energy_j, gap_s, idle_w, each_j)
    rows = booked.rows.group_by(pl.col("signature")).agg(pl.col("energy_j").sum())
    kernels = rows.filter(pl.col("signature").is_not_null())
    measured_j = np.zeros(len(each_j))
    measured_j[kernels["signature"].to_numpy()] = kernels["energy_j"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(plain.each_j > 0, each_j / plain.each_j, 1.0)
    idle_j = float(rows.filter(pl.col("signature").is_null())["energy_j"].sum())
    idle_w_recorded = idle_j / plain.gap_s if plain.gap_s > 0 and idle_j > 0 else plain.idle_w
    now_j = float((measured_j * ratio).sum()) + gap_s * idle_w_recorded * idle_w / plain.idle_w
    open_j = float((measured_j * ratio * altered.open_share).sum()) / altered.work
    return _Replayed(span.makespan_ns * 1e-6, now_j / altered.work, gap_s, idle_w, each_j, open_j)


def _effect(booked: Ledger, name: str, replayed: _Replayed, half_j: float) -> Effect:
    """Return an effect; a saving's interval is that of the model's change and of the run's own energy."""
    whole = booked.totals.row(-1, named=True)
    saving = booked.energy_j - replayed.energy_j
    own = (whole["energy_high_j"] - whole["energy_low_j"]) / 2.0 / max(booked.energy_j, 1e-300)
    saving_half = math.hypot(half_j, own * saving)
    energy_half = math.hypot(half_j, own * replayed.energy_j)
    return Effect(
        name,
        replayed.makespan_ms,
        replayed.energy_j,
        max(replayed.energy_j - energy_half, 0.0),
        replayed.energy_j + energy_half,
        saving,
        saving - saving_half,
        saving + saving_half,
        saving / booked.energy_j if booked.energy_j > 0 else 0.0,
    )


def _sentence(one: Effect, makespan_ms: float, *, together: int = 1) -> str:
    lead = f"{together} together" if together > 1 else one.name
    word = "saves" if one.saving_j >= 0 else "costs"
    ends = sorted((abs(one.saving_low_j), abs(one.saving_high_j)))
    if one.saving_low_j * one.saving_high_j < 0:
        sign = 1.0 if one.saving_j >= 0 else -1.0
        ends = sorted((sign * one.saving_low_j, sign * one.saving_high_j))
    return (
        f"{lead}: {number(one.makespan_ms)} ms in place of {number(makespan_ms)}, {number(one.energy_j)} J,"
        f" {word} {number(abs(one.saving_j))} J (90 %: {number(ends[0])} to {number(ends[1])}),"
        f" {100 * abs(one.share):.1f} % of the run"
    )
