"""Proof of a finding: the run without its cause, by the what-if that anyone can ask for."""

from __future__ import annotations

from dataclasses import dataclass

from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.changes import WhatIf
from tracetool.replay.diagnosis.effects import Saving
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.diagnosis.what_if import what_if
from tracetool.replay.predict_run import predict_run
from tracetool.tables.run import Run


@dataclass(frozen=True)
class Proof(Saving):
    """The run without a cause, with the energy that saves.

    Parameters
    ----------
    how : str
        What was replayed.
    makespan_ms, without_ms : float
        The run with and without. [ms]
    as_graphs_j : float, optional
        Of a host that is too slow: what launching as CUDA graphs saves by itself. [J]
    """

    how: str
    makespan_ms: float
    without_ms: float
    as_graphs_j: float | None = None


def proof_of(run: Run, booked: Ledger, name: str, gpu: str | None = None) -> Proof:
    """Return the run without a cause: ``--without`` of its name.

    Parameters
    ----------
    run, booked : Run, Ledger
        The run and its joules by cause.
    name : str
        The cause.
    gpu : str, optional
        The GPU, where the trace does not name it.
    """
    answer = what_if(run, booked, WhatIf(without=(name,)), gpu)
    one = answer.joint
    return Proof(
        one.saving_j,
        one.saving_low_j,
        one.saving_high_j,
        f"replayed {one.name if one.name.startswith('without') else f'with {one.name}'}",
        answer.makespan_ms,
        one.makespan_ms,
        _as_graphs_j(run, booked, gpu) if name == causes.HOST else None,
    )


def _as_graphs_j(run: Run, booked: Ledger, gpu: str | None) -> float:
    """Return the energy that the run saves launched as graphs. [J]"""
    recorded, graphs = booked.recorded.totals[0], predict_run(run, gpu, launch="graph").totals[0]
    return booked.energy_j * float(1.0 - graphs["energy_j"] / recorded["energy_j"])
