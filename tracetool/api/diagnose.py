"""Diagnose: where a run's joules go, by cause, and the findings that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracetool.api.arguments import number, several, text
from tracetool.api.cause_results import OfCauses
from tracetool.api.public import public
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.replay.diagnosis.changes import WhatIf, parse_pairs
from tracetool.replay.diagnosis.findings import Finding, findings
from tracetool.replay.diagnosis.latent import LatentFactors, latent_factors
from tracetool.replay.diagnosis.ledger import Ledger, ledger
from tracetool.replay.diagnosis.what_if import WhatIfAnswer, what_if
from tracetool.replay.energy_source import stated_measured
from tracetool.replay.predict import parse_factors
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Diagnosis(OfCauses):
    """Where a run's joules went.

    Attributes
    ----------
    causes : DataFrame
        One row per cause, highest energy first, ``run`` last: energy [J] with its 90 % interval, share, time.
    rows : DataFrame
        One row per GPU, cause and kernel signature; energies sum to the run's. [J]
    findings : tuple of Finding
        The causes that cost most, each with evidence and the run replayed without it.
    what_if : WhatIfAnswer or None
        The run with what was asked otherwise: each part alone, and all together.
    factors : LatentFactors or None
        The latent factors of what ``by`` asked for; ``frame`` has a row per group, the run last.
    notes : tuple of str
        What the figures rest on.
    """

    source: Ledger = field(repr=False)
    findings: tuple[Finding, ...] = ()
    what_if: WhatIfAnswer | None = None
    factors: LatentFactors | None = None

    def _document(self) -> dict[str, Any]:
        clock = self.source.clock
        return {
            "energy_j": self.source.energy_j,
            "source": self.source.cut.source,
            "measured_j": stated_measured(self.source.cut.measured_j, self.source.cut.source),
            "span_ms": self.source.span_ms,
            "clock_mhz": clock.recorded_mhz,
            "least_energy_clock_mhz": clock.best_mhz,
            "causes": self.causes.to_dicts(),
            "findings": [one.record() for one in self.findings],
            "rows": self.rows.to_dicts(),
            "what_if": None if self.what_if is None else self.what_if.record(),
            "factors": [] if self.factors is None else self.factors.frame.to_dicts(),
            "notes": list(self.notes),
        }

    def _view(self) -> View:
        from tracetool.report.diagnosis_page import diagnosis_blocks
        from tracetool.report.view import View

        if self.factors is not None:
            return View("Latent factors", self.factors.frame, load_schema("latent_factors"))
        blocks = diagnosis_blocks(self.source, self.findings, self.what_if)
        return View("Diagnosis", self.rows, load_schema("diagnosis"), blocks)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the causes, the findings and what they rest on."""
        from tracetool.report.terminal.diagnosis import print_diagnosis

        print_diagnosis(self.source, self.findings, written, what_if=self.what_if, factors=self.factors)


@public
def diagnose(
    run: PathLike,
    *,
    gpu: str | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    by: str | Sequence[str] | None = None,
    scale: Mapping[str, float] | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    clock: float | None = None,
    power_cap: float | None = None,
    precision: str | None = None,
    batch: float | None = None,
    fuse: str | Sequence[str] = (),
    overlap: str | None = None,
    without: str | Sequence[str] = (),
) -> Diagnosis:
    """Return where a run's joules went and what would save some, as ``tracetool diagnose``.

    Parameters
    ----------
    run : run or path
        The run.
    gpu : str, optional
        The GPU, where the trace does not name it.
    power : path or sequence of path
        Power logs in place of the run's.
    tz : str, optional
        Zone of those logs, e.g. ``+02:00``.
    by : str, optional
        Latent factors of each ``kernel``, ``range``, ``iteration``, ``module`` or another key of
        :func:`tracetool.energy_by`.
    scale : mapping or sequence of str
        What if a family's kernels took a factor of their time: ``{"gemm": 0.5}`` or ``["gemm=0.5"]``.
    drop : str or sequence of str
        What if these ranges were left out.
    clock, power_cap : float, optional
        What if the core clock [MHz] or the power cap [W] was this.
    precision : str, optional
        What if matrix products ran in this number format.
    batch : float, optional
        What if a step had this factor of its rows; energies stay those of the recorded work.
    fuse : str or sequence of str
        What if kernels of one kind ran within those before them: ``["norm,elementwise"]``.
    overlap : str, optional
        ``comm``: what if communication ran beside computation.
    without : str or sequence of str
        What if these causes were removed: ``["idle GPU", "tail"]`` or ``"idle GPU,tail"``.

    Raises
    ------
    BadInput
        If the run holds no activity or nothing of what is asked, its GPU is not known or a log cannot be
        used.

    Examples
    --------
    >>> import tracetool as tt
    >>> diagnosis = tt.diagnose(run)
    >>> abs(diagnosis.causes["energy_j"][:-1].sum() / diagnosis.causes["energy_j"][-1] - 1.0) < 1e-9
    True
    """
    from tracetool.api.run import open_run

    opened, gpu = open_run(run), text("gpu", gpu)
    question = WhatIf(
        scale=dict(scale) if isinstance(scale, Mapping) else parse_factors(several("scale", scale)),
        drop=tuple(several("drop", drop)),
        clock_mhz=number("clock", clock),
        power_cap_w=number("power_cap", power_cap),
        precision=precision,
        batch=number("batch", batch),
        fuse=parse_pairs(several("fuse", fuse)),
        overlap=parse_overlap(overlap),
        without=tuple(cause.strip() for text in several("without", without) for cause in text.split(",")),
    )
    booked = ledger(opened, gpu=gpu, power=paths_of(power), tz=tz)
    answer = what_if(opened, booked, question, gpu) if question.each() else None
    factors = None if by is None else latent_factors(opened, booked, by)
    return Diagnosis(booked, tuple(findings(opened, booked, gpu)), answer, factors)


def parse_overlap(text: str | None) -> bool:
    """Return whether communication is to be overlapped.

    Raises
    ------
    BadInput
        If anything else is.

    Examples
    --------
    >>> parse_overlap("comm"), parse_overlap(None)
    (True, False)
    """
    if text not in (None, "comm"):
        raise BadInput(f"--overlap {text} is not known", "known: comm")
    return text == "comm"
