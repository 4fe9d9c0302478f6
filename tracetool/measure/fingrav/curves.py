"""A fine-grain profile: curves over a kernel's power profile and a trend over a run."""

from __future__ import annotations

from dataclasses import dataclass

from tracetool.core.arrays import Bools, Floats
from tracetool.measure.fingrav.deconvolve import Deconvolution
from tracetool.measure.fingrav.guidance import Guidance

#: Share of a profile's variance that samples must settle for it to count as measured.
RESOLVED_SHARE = 0.5


@dataclass(frozen=True)
class Curve:
    """One profile: power over the phase of one execution."""

    component: str  # "total" or a part the logger reports
    kind: str  # "sse", "ssp" or "outlier"
    phase: Floats  # (g,) 0 to 1
    power_w: Floats  # (g,) spline
    low_w: Floats
    high_w: Floats
    polynomial_w: Floats  # (g,) degree 4
    mean_w: float
    mean_low_w: float
    mean_high_w: float
    samples: int  # of interest
    sample_phase: Floats  # (s,) where they lie
    sample_w: Floats  # (s,)


@dataclass(frozen=True)
class RunTrend:
    """Power over a whole run."""

    time_s: Floats  # (g,) since the run's first execution [s]
    power_w: Floats  # (g,) degree 4
    low_w: Floats
    high_w: Floats
    sample_time_s: Floats
    sample_w: Floats
    component: str = "total"  # or a part the logger reports


@dataclass(frozen=True)
class FineProfile:
    """Power profile of one kernel, with the data behind it."""

    duration_s: float  # median golden execution at SSE
    guide: Guidance
    runs: int
    golden: Bools  # (runs,)
    sse: int  # position of the steady execution, 0 first
    ssp: int  # position from which power is steady
    ssp_reached: bool
    settled: Floats  # (positions,) power above its steady mean, at and after SSE; 0 before [W]
    further_runs: int
    curves: tuple[Curve, ...]
    run_trend: RunTrend
    outlier_share: float  # share of executions after warm-up outside the golden bin
    deconvolution: Deconvolution | None = (
        None  # the profile from an averaging sampler; None for an instantaneous one
    )
    component_trends: tuple[RunTrend, ...] = ()  # over a run, of the parts the logger reports

    @property
    def shape_identifiable(self) -> bool:
        """Whether the samples, more than the prior, determine the power within an execution."""
        return self.deconvolution is None or self.deconvolution.resolved_share >= RESOLVED_SHARE

    def curve(self, kind: str, component: str = "total") -> Curve:
        """Return one profile; KeyError where there is none."""
        for candidate in self.curves:
            if candidate.kind == kind and candidate.component == component:
                return candidate
        raise KeyError((kind, component))
