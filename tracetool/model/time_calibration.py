"""Coefficients of the time model, and how far it errs."""

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
        By law, 5 % and 95 % quantile of ln(measured / predicted) on rows not fitted to.
    basis : str
        What a law rests on that ``law_basis`` does not name.
    law_basis : mapping of str to str
        By law: "calibrated", "transferred from ..." or "prior".
    """

    coefficients: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    spread: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    basis: str = "prior"
    law_basis: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
