"""Progress without a terminal: packages report steps, the command line decides whether to draw them."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the steps of a long job."""

    def step(self, text: str, done: float | None = None) -> None:
        """Report the current step and, where known, the share done in [0, 1]."""


class Silent:
    """Progress that shows nothing: the default of the library."""

    def step(self, text: str, done: float | None = None) -> None:
        """Ignore the step."""
