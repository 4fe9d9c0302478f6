"""Coefficients of the time model, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class TimeCalibration:
    """Coefficients of one GPU.

    Parameters
    ----------
    coefficients : mapping of str to mapping of str to float
        By law ("gemm", "prefill", ...), name to value; what is missing is the law's own prior.
    spread : mapping of str to (float, float)
        By law, 90 % band of ln(measured / predicted) on rows not fitted to; of one kind of a law's rows under
        its :func:`spread_key`.
    basis : str
        What a law rests on that ``law_basis`` does not name.
    law_basis : mapping of str to str
        By law: "calibrated", "transferred from ..." or "prior".
    from_traces : frozenset of str
        Laws fitted to kernels of traces: their bands hold there as they are, others are widened
        (:mod:`tracetool.model.profiler_overhead`).
    delivered : frozenset of str
        Laws whose coefficients are those of one library and not the user's own: rows of operator tables
        then take those of the implementation that ran them (:mod:`tracetool.model.implementations`).
    fitted_to : mapping of str to frozenset of str
        By law of the user's own, the implementations whose rows it was fitted to
        (:func:`tracetool.model.calibration_scope.ran_by`); a law that is missing serves every row.
    """

    coefficients: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    spread: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    basis: str = "prior"
    law_basis: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    from_traces: frozenset[str] = frozenset()
    delivered: frozenset[str] = frozenset()
    fitted_to: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))


def spread_key(law: str, kind: str) -> str:
    """Return the name of the band of one kind of a law's rows; of all of them for no kind."""
    return f"{law}/{kind}" if kind else law
