"""Thresholds a check fails on: ``energy=2%``, ``attention:time=5%``, ``flash_*:energy=3%``."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tracetool.core.errors import BadInput

METRICS: Final = ("energy", "time", "power", "edp")
_FORM = "write METRIC=LIMIT%, e.g. energy=2%, time=5%, gemm:energy=3% or flash_*:energy=3%"
_LIMIT = re.compile(r"^[+]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$")


@dataclass(frozen=True)
class Threshold:
    """A limit on the relative change of one metric.

    Parameters
    ----------
    metric : str
        One of ``METRICS``.
    limit : float
        Largest change that passes, as a share. [1]
    scope : str
        Empty for the whole run, a family, or a glob on kernel names.
    """

    metric: str
    limit: float
    scope: str = ""

    def covers(self, family: str, name: str) -> bool:
        """Return whether this threshold's scope covers a kernel or family row."""
        if not self.scope:
            return False
        return self.scope == family or fnmatch.fnmatchcase(name, self.scope)

    def text(self) -> str:
        """Return the threshold as it is written on the command line.

        >>> Threshold("energy", 0.02, "gemm").text()
        'gemm:energy=2%'
        """
        return f"{self.scope + ':' if self.scope else ''}{self.metric}={100 * self.limit:g}%"


def parse_threshold(text: str) -> Threshold:
    """Return the threshold written as ``text``.

    Raises
    ------
    BadInput
        If the metric is unknown or the limit is not a finite share of zero or more with a per-cent sign.

    Examples
    --------
    >>> parse_threshold("energy=10%")
    Threshold(metric='energy', limit=0.1, scope='')
    >>> parse_threshold("void cub::f<*:time=5%").scope
    'void cub::f<*'
    """
    head, equals, value = text.rpartition("=")
    scope, _, metric = head.rpartition(":")
    metric = metric.strip().lower()
    if not equals or metric not in METRICS:
        raise BadInput(f"--fail-on {text!r}: not a threshold on {', '.join(METRICS)}", _FORM)
    value = value.strip()
    digits = value.removesuffix("%").strip()
    if not value.endswith("%") or not _LIMIT.match(digits) or not math.isfinite(float(digits)):
        raise BadInput(f"--fail-on {text!r}: {value!r} is not a percentage of zero or more", _FORM)
    return Threshold(metric, float(digits) / 100.0, scope.strip())


def parse_thresholds(texts: Iterable[str]) -> tuple[Threshold, ...]:
    """Return the thresholds, several in one text parted by commas."""
    return tuple(parse_threshold(entry) for text in texts for entry in _split(text))


def _split(text: str) -> list[str]:
    # a comma inside a kernel name's template arguments is not a separator: split only after a %
    return [p for p in re.split(r"(?<=%)\s*,\s*", text.strip()) if p] or [text]
