"""What a run would take if several things were otherwise at once: one replay of the altered timeline."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.figures import number
from tracetool.hardware.load import load_gpu
from tracetool.replay.diagnosis.altered import Altered, batched, converted, fused, overlapped, unaltered
from tracetool.replay.diagnosis.asked import ERRORS, WhatIf
from tracetool.replay.diagnosis.effects import Effect, effect_of, sentence
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.graph import Graph
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.replays import RunReplay
from tracetool.replay.whatif import with_instant_host, without_waits
from tracetool.tables.run import Run

#: Share of the makespan from which idle time that an altered run opens is told. [1]
_OPENED: Final = 0.01


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
    run, booked : Run, Ledger
        The run and its joules by cause.
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
    Per signature the recorded joules :math:`E_k` times the ratio :math:`r_k` of the model's, altered over as
    recorded; idle joules as the replayed idle time and the model's idle power at the clock. In squares add
    half-widths of the parts' savings :math:`h_i = \epsilon_i s_i` (priors), that of the run's own energy, and
    what is open of each kernel's share in it, :math:`(1 - r_k - s / E)\,h_k`.
    """
    parts = asked.each()
    if not parts:
        raise BadInput("nothing is otherwise", "e.g. --clock 1200")
    plain = _replayed(booked, booked.recorded, unaltered(booked))
    effects, half_j, notes = [], 0.0, []
    for kind, name, one in parts:
        replayed, told = _answer(run, booked, one, gpu, plain)
        saving = booked.energy_j - replayed.energy_j
        model_j = math.hypot(ERRORS[kind] * saving, replayed.open_j)
        half_j = math.hypot(half_j, model_j)
        effects.append(_effect(booked, name, replayed, model_j))
        notes += told
    joint, alone = effects[0], tuple(effects)
    if len(parts) > 1:
        replayed, _ = _answer(run, booked, asked, gpu, plain)
        joint = _effect(booked, ", ".join(name for _, name, _ in parts), replayed, half_j)
    sentences = (
        *(sentence(one, plain.makespan_ms) for one in (alone if len(alone) > 1 else ())),
        sentence(joint, plain.makespan_ms, together=len(alone)),
    )
    return WhatIfAnswer(plain.makespan_ms, alone, joint, sentences, tuple(dict.fromkeys(notes)))


def _effect(booked: Ledger, name: str, replayed: _Replayed, model_j: float) -> Effect:
    half_j = math.hypot(model_j, replayed.split_j)
    span_ms, energy_j = replayed.makespan_ms, replayed.energy_j
    return effect_of(booked, name, span_ms, energy_j, half_j=half_j, work=replayed.work)


@dataclass(frozen=True)
class _Replayed:
    """An altered run: its makespan, its energy for the recorded work, and half-widths of it. [ms], [J]"""

    makespan_ms: float
    energy_j: float
    gap_s: float
    idle_w: float
    each_j: Floats
    work: float
    open_j: float = 0.0  # of kernels that the model cannot price
    split_j: float = 0.0  # of which kernels the recorded joules are


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
    if asked.instant_host:
        predicted = _on_graph(predicted, with_instant_host)
    if asked.no_waits:
        predicted = _on_graph(predicted, without_waits)
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
    replayed = _replayed(booked, predicted, altered.priced(booked, clock_mhz), plain)
    notes = [*altered.notes, *_cap_note(booked, asked)]
    opened_s = replayed.gap_s - plain.gap_s
    if opened_s * 1e3 > _OPENED * plain.makespan_ms:
        name = ", ".join(name for _, name, _ in asked.each())
        notes.append(f"{name}: {number(opened_s * 1e3)} ms more idle, at the host's recorded pace")
    return replayed, notes


def _on_graph(predicted: PredictedRun, change: Callable[[Graph], Graph]) -> PredictedRun:
    """Return a prediction whose host is otherwise."""
    assert predicted.replays is not None
    return replace(predicted, replays=replace(predicted.replays, graph=change(predicted.replays.graph)))


def _cap_note(booked: Ledger, asked: WhatIf) -> list[str]:
    """Say that a higher cap raises no clock that was asked for."""
    assert booked.recorded.replays is not None
    if asked.power_cap_w is None or asked.clock_mhz is not None:
        return []
    if asked.power_cap_w <= booked.recorded.replays.cap.limit_w:
        return []
    mhz = booked.clock.recorded_mhz
    return [f"cap {asked.power_cap_w:,.0f} W: the clock stays {mhz:,.0f} MHz (another: --clock)"]


def _replayed(
    booked: Ledger, predicted: PredictedRun, altered: Altered, plain: _Replayed | None = None
) -> _Replayed:
    """Replay a prediction with its kernels altered."""
    replays, recorded = predicted.replays, booked.recorded.replays
    assert replays is not None
    assert recorded is not None
    pred = replays.predicted
    if (altered.time != 1.0).any() or (altered.energy != 1.0).any():
        replays = rescaled(replays, altered.time, altered.energy)
    span = replays.at(0)
    gap_s, idle_w = span.idle_ns * 1e-9, float(pred.idle_w[0])
    each_j = replays.launches * replays.predicted.energy_j[:, 0]
    if plain is None:
        return _Replayed(span.makespan_ns * 1e-6, booked.energy_j, gap_s, idle_w, each_j, 1.0)
    rows = booked.rows.group_by(pl.col("signature")).agg(pl.col("energy_j").sum())
    kernels = rows.filter(pl.col("signature").is_not_null())
    measured_j = np.zeros(len(each_j))
    measured_j[kernels["signature"].to_numpy()] = kernels["energy_j"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(plain.each_j > 0, each_j / plain.each_j, 1.0)
    idle_j = float(rows.filter(pl.col("signature").is_null())["energy_j"].sum())
    idle_w_recorded = idle_j / plain.gap_s if plain.gap_s > 0 and idle_j > 0 else plain.idle_w
    idle_now_j = gap_s * idle_w_recorded * idle_w / plain.idle_w
    work = altered.work
    now_j = (float((measured_j * ratio).sum()) + idle_now_j) / work
    open_j = float((measured_j * ratio * altered.open_share).sum()) / work
    half_j, idle_half_j = booked.half_widths()
    mean = now_j / booked.energy_j if booked.energy_j > 0 else 1.0
    idle_ratio = idle_now_j / idle_j if idle_j > 0 else work * mean
    split_j = math.hypot(
        float(np.linalg.norm((ratio / work - mean) * half_j)), (idle_ratio / work - mean) * idle_half_j
    )
    return _Replayed(span.makespan_ns * 1e-6, now_j, gap_s, idle_w, each_j, work, open_j, split_j)


def rescaled(replays: RunReplay, time: Floats, energy: Floats) -> RunReplay:
    """Return a replay whose signatures take other times and energies, by factors. Shape (s,) each.

    What the governor of a cap did is in the predicted times; those altered have to keep the cap too.
    """
    pred, shorter, cheaper = replays.predicted, time[:, None], energy[:, None]
    changed = replace(
        pred,
        timing=replace(pred.timing, duration_s=pred.timing.duration_s * shorter),
        energy_j=pred.energy_j * cheaper,
        parts_j={name: part * cheaper for name, part in pred.parts_j.items()},
    )
    return replace(replays, predicted=changed, governed=None)
