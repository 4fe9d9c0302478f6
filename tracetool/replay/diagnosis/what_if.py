"""Time and energy of a run under several changes at once: one replay of the altered timeline."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from tracetool.core.errors import BadInput
from tracetool.core.number_text import number
from tracetool.hardware.load import load_gpu
from tracetool.replay.clocks import checked_cap
from tracetool.replay.diagnosis import without_cause
from tracetool.replay.diagnosis.altered_kernels import (
    Altered,
    batched,
    converted,
    fused,
    overlapped,
    unaltered,
)
from tracetool.replay.diagnosis.causes import cause
from tracetool.replay.diagnosis.changes import ERRORS, WhatIf
from tracetool.replay.diagnosis.effects import Effect, effect_of, sentence
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.diagnosis.replayed import AlteredRun, as_recorded, replayed
from tracetool.replay.graph import Graph
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.timeline_variants import with_instant_host, without_waits
from tracetool.tables.run import Run

#: Share of the makespan from which idle time that an altered run opens is reported. [1]
_OPENED: Final = 0.01


@dataclass(frozen=True)
class WhatIfAnswer:
    """Time and energy of a run after all changes, and with each alone.

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


def what_if(run: Run, booked: Ledger, question: WhatIf, gpu: str | None = None) -> WhatIfAnswer:
    r"""Replay a run with all changes of a question, and with each alone.

    Parameters
    ----------
    run, booked : Run, Ledger
        The run and its joules by cause.
    question : WhatIf
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
    half-widths of the parts' savings :math:`h_i = \epsilon_i s_i` (priors), that of powers at the clock of
    all parts, that of the run's own energy, and what is open of each kernel's share in it,
    :math:`(1 - r_k - s / E)\,h_k`.
    """
    question = without_cause.by_option(booked, question)
    questions = question.each()
    if not questions:
        raise BadInput("nothing is otherwise", "e.g. --clock 1200")
    plain = as_recorded(booked, without_cause.closed(booked, ()))
    effects, half_j, notes = [], 0.0, []
    for kind, name, one in questions:
        answer, answer_notes = _answer(run, booked, one, gpu, plain)
        part_j = _error(kind, one) * (booked.energy_j - answer.energy_j)
        half_j = math.hypot(half_j, part_j)
        effects.append(_effect(booked, name, answer, math.hypot(part_j, answer.open_j)))
        notes += answer_notes
    joint, alone = effects[0], tuple(effects)
    if len(questions) > 1:
        answer, _ = _answer(run, booked, question, gpu, plain)
        together = ", ".join(name for _, name, _ in questions)
        # powers are open at the clock of all parts: a cap alone keeps the clock down that a part asks for
        joint = _effect(booked, together, answer, math.hypot(half_j, answer.open_j))
    sentences = (
        *(sentence(one, plain.makespan_ms) for one in (alone if len(alone) > 1 else ())),
        sentence(joint, plain.makespan_ms, together=len(alone)),
    )
    return WhatIfAnswer(plain.makespan_ms, alone, joint, sentences, tuple(dict.fromkeys(notes)))


def _effect(booked: Ledger, name: str, answer: AlteredRun, model_j: float) -> Effect:
    half_j = math.hypot(model_j, answer.split_j)
    return effect_of(booked, name, answer.makespan_ms, answer.energy_j, half_j=half_j, work=answer.work)


def _error(kind: str, one: WhatIf) -> float:
    """Return half the 90 % interval of a part's saving, relative to it: of a cause that of its share."""
    return max(ERRORS[kind], *(cause(name).model_error for name in one.without), 0.0)


def _answer(
    run: Run, booked: Ledger, question: WhatIf, gpu: str | None, plain: AlteredRun
) -> tuple[AlteredRun, list[str]]:
    """Return the run with all of a question, and notes on it."""
    predicted = booked.recorded
    if question.scale or question.drop or question.clock_mhz is not None or question.power_cap_w is not None:
        predicted = predict_run(
            run,
            gpu,
            None if question.clock_mhz is None else [question.clock_mhz],
            power_cap_w=question.power_cap_w,
            scale=question.scale,
            drop=question.drop,
        )
    if question.instant_host:
        predicted = _on_graph(predicted, with_instant_host)
    if question.no_waits:
        predicted = _on_graph(predicted, without_waits)
    assert predicted.replays is not None
    predicted = replace(predicted, replays=without_cause.edited(booked, predicted.replays, question.without))
    altered = unaltered(booked)
    clock_mhz = float(predicted.totals[0]["clock_mhz"])
    steps: list[Callable[[Altered], Altered]] = [
        lambda a, name=name: without_cause.without_waste(booked, a, name)  # type: ignore[misc]
        for name in question.without
        if name not in without_cause.OF_THE_TIMELINE
    ]
    spec = load_gpu(booked.recorded.gpu)
    if (precision := question.precision) is not None:
        steps.append(lambda a: converted(booked, a, spec, precision))
    if (factor := question.batch) is not None:
        steps.append(lambda a: batched(booked, a, spec, clock_mhz, factor))
    steps += [lambda a, pair=pair: fused(booked, a, *pair) for pair in question.fuse]  # type: ignore[misc]
    if question.overlap:
        steps.append(lambda a: overlapped(booked, a))
    for step in steps:
        altered = step(altered)
    closed = without_cause.closed(booked, question.without)
    answer = replayed(booked, predicted, altered.priced(booked, clock_mhz), plain, closed)
    notes = [*altered.notes, *_cap_notes(booked, question)]
    opened_s = answer.idle_s - plain.idle_s
    if opened_s * 1e3 > _OPENED * plain.makespan_ms:
        name = ", ".join(name for _, name, _ in question.each())
        notes.append(f"{name}: {number(opened_s * 1e3)} ms more idle, at the host's recorded pace")
    return answer, notes


def _on_graph(predicted: PredictedRun, change: Callable[[Graph], Graph]) -> PredictedRun:
    """Return a prediction whose host is otherwise."""
    assert predicted.replays is not None
    return replace(predicted, replays=replace(predicted.replays, graph=change(predicted.replays.graph)))


def _cap_notes(booked: Ledger, question: WhatIf) -> list[str]:
    """Return the notes on a cap: one the GPU does not accept, and that a higher one raises no clock."""
    assert booked.recorded.replays is not None
    notes = checked_cap(question.power_cap_w, load_gpu(booked.recorded.gpu))
    if question.power_cap_w is None or question.clock_mhz is not None:
        return notes
    if question.power_cap_w <= booked.recorded.replays.cap.limit_w:
        return notes
    mhz = booked.clock.recorded_mhz
    return [*notes, f"cap {question.power_cap_w:,.0f} W: the clock stays {mhz:,.0f} MHz (another: --clock)"]
