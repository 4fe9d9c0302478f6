"""Results that cut joules into causes: those of one run, and the change between two."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from tracetool.api.result import Result


class ByCause(Protocol):
    """Joules cut into causes."""

    @property
    def totals(self) -> pl.DataFrame:
        """One row per cause, the whole last."""

    @property
    def rows(self) -> pl.DataFrame:
        """One row per part of the causes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on the basis of the figures."""


@dataclass(frozen=True)
class OfCauses(Result):
    """Joules by cause; ``source`` holds what they were computed from."""

    source: ByCause = field(repr=False)

    @property
    def causes(self) -> pl.DataFrame:
        """One row per cause, the whole last. [J]"""
        return self.source.totals

    @property
    def rows(self) -> pl.DataFrame:
        """One row per part of the causes; rows sum to the whole. [J]"""
        return self.source.rows

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.source.notes
